//! The files below `experiments/` that are part of the program.

/// Path (below that folder) and content of every shipped file, sorted by folder and name.
pub const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Returns the content of a shipped file.
pub fn find(path: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == path).map(|(_, text)| *text)
}
