//! Notes the commit that is built, for `carillon --version`; "unknown" outside a checkout. Includes the page of
//! `carillon view` if `make page` has built it.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=CARILLON_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    include_page();
    // HEAD changes with a checkout, the log of HEAD with each commit.
    for path in ["HEAD", "logs/HEAD"].iter().filter_map(|name| git(&["rev-parse", "--git-path", name])) {
        if std::fs::exists(&path).is_ok_and(|is_there| is_there) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Writes the constant `BUILT_PAGE`.
fn include_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("web/dist/view.html");
    let is_built = page.is_file();
    let value = if is_built { format!("Some(include_str!({page:?}))") } else { "None".to_owned() };
    let out = std::env::var("OUT_DIR").expect("cargo sets the folder");
    let text = format!("/// Page of `carillon view`.\nconst BUILT_PAGE: Option<&str> = {value};\n");
    std::fs::write(Path::new(&out).join("page.rs"), text).expect("the folder of cargo can be written");
    // A missing file would let cargo build this program again each time; its nearest folder changes when it is made.
    let folder = [root.join("web/dist"), root.join("web")].into_iter().find(|folder| folder.is_dir());
    let watched = if is_built { Some(page) } else { folder };
    if let Some(path) = watched {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// Output of git; `None` without git or outside a checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
