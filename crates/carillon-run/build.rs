//! Lists the shipped topologies, so that adding one is adding a file.

#![expect(clippy::disallowed_methods, reason = "a build script writes files")]

use std::fmt::Write as _;
use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("topologies");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(&folder).expect("experiments/ is part of the repository");
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    let mut list = String::from("&[\n");
    for name in names {
        let _ = writeln!(
            list,
            "({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/topologies/{name}\"))),"
        );
    }
    list.push(']');
    let out = std::env::var("OUT_DIR").expect("cargo names a folder for what is built");
    std::fs::write(Path::new(&out).join("topologies.rs"), list).expect("the list can be written");
}
