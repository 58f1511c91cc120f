//! The topologies that are shipped: those on which ns-2's agents were measured (`experiments/topologies`).

use crate::shipped;

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    let name = |path: &'static str| path.strip_prefix("topologies/")?.strip_suffix(".edges");
    shipped::FILES.iter().filter_map(move |(path, _)| name(path))
}

/// The edges and the roles of the one of this name.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    let file = |extension: &str| shipped::find(&format!("topologies/{name}.{extension}"));
    file("edges").zip(file("roles"))
}
