//! Notes the commit that is built, for `carillon --version`; "unknown" outside a checkout.

use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=CARILLON_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // HEAD changes with a checkout, the log of HEAD with each commit.
    for path in ["HEAD", "logs/HEAD"].iter().filter_map(|name| git(&["rev-parse", "--git-path", name])) {
        if std::fs::exists(&path).is_ok_and(|is_there| is_there) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Output of git; `None` without git or outside a checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
