//! GT-ITM's own files: the Stanford GraphBase form in which it saves a graph, and the text form that its `sgb2alt`
//! makes of it.
//!
//! An edge stands once or in both directions; its length is read as milliseconds. In transit-stub graphs the names
//! tell transit routers (`T:`) from stub routers (`S:`). Both forms of a graph give the same topology, including the
//! order of its links.

mod alt;
mod edges;
mod graph_base;

use super::generate::Domain;
use super::topology::{Topology, TopologyError};

/// Returns true if a file is GT-ITM's, judged by its contents and not its name.
pub fn recognises(text: &str) -> bool {
    graph_base::recognises(text) || alt::recognises(text)
}

/// Parses a file in either form: routers without hosts, and their domains if all of them are known.
pub fn parse(text: &str) -> Result<(Topology, Vec<Domain>), TopologyError> {
    // In the other form no line begins with a star.
    match text.starts_with('*') {
        true => graph_base::parse(text),
        false => alt::parse(text),
    }
}
