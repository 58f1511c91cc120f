//! The files below `experiments/` that are part of the program.

/// Their paths below that folder, and what is in them, folder by folder in the order of their names.
pub const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// What is in one of them.
pub fn find(path: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == path).map(|(_, text)| *text)
}
