//! Dependencies of the command without the laboratory.

use std::collections::BTreeSet;
use std::process::Command;

/// Names and versions of the crates in a build of the command with these features, itself included.
fn crates(features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["tree", "--offline", "--package", "carillon-cli", "--edges", "normal", "--prefix", "none"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("names are UTF-8");
    text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn transport_build_has_fewer_than_80_crates() {
    let crates = crates(&["--no-default-features", "--features", "transport"]);
    assert!(crates.iter().any(|name| name.starts_with("carillon-transfer ")), "{crates:?}");
    assert!(crates.len() < 80, "{} crates: {crates:?}", crates.len());
    for absent in ["carillon-lab ", "carillon-sim ", "carillon-testbed ", "resvg ", "parquet "] {
        assert!(!crates.iter().any(|name| name.starts_with(absent)), "{absent}is in a transport build");
    }
}

#[test]
fn default_build_has_the_laboratory() {
    assert!(crates(&[]).iter().any(|name| name.starts_with("carillon-lab ")));
}
