//! The fuzz targets as functions; each program in `fuzz_targets/` runs one by name.

pub mod targets;

/// Runs the target of this name.
///
/// # Panics
///
/// If there is none, or if it finds something.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, body) = targets::TARGETS.iter().find(|(known, _)| *known == name).expect("the target is listed");
    body(bytes);
}
