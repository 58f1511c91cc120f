//! The fuzz targets as functions; the one program in `fuzz_targets/` runs that which `CARILLON_TARGET` names.

pub mod targets;

use targets::Target;

thread_local! {
    static CHOSEN: Target = chosen();
}

/// Runs the target that the environment variable `CARILLON_TARGET` names.
///
/// # Panics
///
/// If there is none, or if it finds something.
pub fn run(bytes: &[u8]) {
    CHOSEN.with(|target| (target.body)(bytes));
}

fn chosen() -> Target {
    let name = std::env::var("CARILLON_TARGET").unwrap_or_default();
    let found = targets::targets().into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("CARILLON_TARGET={name}: `cargo run --example targets` lists the targets"))
}
