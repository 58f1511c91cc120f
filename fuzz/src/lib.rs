//! Fuzz targets as functions; the program in `fuzz_targets/` runs the target in the variable `CARILLON_TARGET`.

pub mod targets;

use targets::Target;

thread_local! {
    static CHOSEN: Target = chosen();
}

/// Runs the target that the environment variable `CARILLON_TARGET` names.
///
/// # Panics
///
/// If the target does not exist, or if it finds a fault.
pub fn run(bytes: &[u8]) {
    CHOSEN.with(|target| (target.body)(bytes));
}

fn chosen() -> Target {
    let name = std::env::var("CARILLON_TARGET").unwrap_or_default();
    let found = targets::targets().into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("CARILLON_TARGET={name}: `cargo run --example targets` lists the targets"))
}
