//! GT-ITM's own files: the Stanford GraphBase form in which it saves a graph, and the text form that its `sgb2alt`
//! makes of it.
//!
//! An edge stands once or in both directions; its length is read as milliseconds. In transit-stub graphs the names
//! tell transit routers (`T:`) from stub routers (`S:`). Both forms of a graph give the same topology, including the
//! order of its links.

mod alt;
mod graph_base;

use std::collections::BTreeSet;
use std::time::Duration;

use carillon_core::NodeId;

use super::generate::Domain;
use super::topology::{Link, Topology, TopologyError};

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

/// Edges joined into a topology; the first of several between the same two nodes counts.
struct Edges {
    topology: Topology,
    seen: BTreeSet<(u32, u32)>,
}

impl Edges {
    fn new(nodes: usize) -> Self {
        Edges { topology: Topology::new(nodes), seen: BTreeSet::new() }
    }

    /// Adds an edge between two different nodes of the graph, with its length as milliseconds.
    fn join(&mut self, a: u32, b: u32, length: f64) {
        if self.seen.insert((a.min(b), a.max(b))) {
            let delay = Duration::from_nanos((length * 1e6).round() as u64);
            self.topology.add_link(Link::new([NodeId(a), NodeId(b)], delay));
        }
    }
}

/// Domain that the name of a node tells.
fn domain(name: &str) -> Option<Domain> {
    match name.chars().next() {
        Some('T') => Some(Domain::Transit),
        Some('S') => Some(Domain::Stub),
        _ => None,
    }
}

/// Maximum number of nodes: no node can then have more ports than fit a port number.
const MAX_NODES: usize = 65_536;

/// Maximum length of an edge in milliseconds.
const MAX_LENGTH: f64 = 1e9;
