//! Lists the shipped files below `experiments/`, so that adding one is adding a file.

use std::fmt::Write as _;
use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let mut list = String::from("&[\n");
    for folder in ["reproduce", "plans", "published", "measured"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
        let entries = std::fs::read_dir(root.join(folder)).expect("experiments/ is part of the repository");
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        for name in names {
            let path = format!("{folder}/{name}");
            let _ = writeln!(
                list,
                "({path:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/experiments/{path}\"))),"
            );
        }
    }
    list.push(']');
    let out = std::env::var("OUT_DIR").expect("cargo names a folder for what is built");
    std::fs::write(Path::new(&out).join("shipped.rs"), list).expect("the list can be written");
}
