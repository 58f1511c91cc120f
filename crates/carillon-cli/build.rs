//! Notes the commit that is built, for `carillon --version`; "unknown" outside a checkout. Chooses the page of
//! `carillon view`: the one that `make page` has built, with the simulator, or the stored one.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=CARILLON_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_LABORATORY").is_some() {
        include_page();
    }
    // HEAD changes with a checkout, the log of HEAD with each commit.
    for path in ["HEAD", "logs/HEAD"].iter().filter_map(|name| git(&["rev-parse", "--git-path", name])) {
        if std::fs::exists(&path).is_ok_and(|is_there| is_there) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Writes the constant `BUILT_PAGE`.
fn include_page() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (stored, root) = (crate_folder.join("view.html"), crate_folder.join("../.."));
    let built = root.join("web/dist/view.html");
    let page = if built.is_file() { &built } else { &stored };
    let out = std::env::var("OUT_DIR").expect("cargo sets the folder");
    let text = format!("/// Page of `carillon view`.\nconst BUILT_PAGE: &str = include_str!({page:?});\n");
    std::fs::write(Path::new(&out).join("page.rs"), text).expect("the folder of cargo can be written");
    println!("cargo::rerun-if-changed={}", page.display());
    // A missing file would let cargo build this program again each time; its nearest folder changes when it is made.
    let folders = [root.join("web/dist"), root.join("web")];
    if let Some(folder) = folders.iter().filter(|_| !built.is_file()).find(|folder| folder.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
}

/// Output of git; `None` without git or outside a checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
