//! Nodes and edges of a graph, as both forms of its file tell them.

use std::collections::BTreeSet;
use std::time::Duration;

use carillon_core::NodeId;

use crate::graph::generate::Domain;
use crate::graph::topology::{Link, Topology};

/// Edges joined into a topology; the first of several between the same two nodes counts.
pub(super) struct Edges {
    pub(super) topology: Topology,
    seen: BTreeSet<(u32, u32)>,
}

impl Edges {
    pub(super) fn new(nodes: usize) -> Self {
        Edges { topology: Topology::new(nodes), seen: BTreeSet::new() }
    }

    /// Adds an edge between two different nodes of the graph, with its length as milliseconds.
    pub(super) fn join(&mut self, a: u32, b: u32, length: f64) {
        if self.seen.insert((a.min(b), a.max(b))) {
            let delay = Duration::from_nanos((length * 1e6).round() as u64);
            self.topology.add_link(Link::new([NodeId(a), NodeId(b)], delay));
        }
    }
}

/// Domain that the name of a node tells.
pub(super) fn domain(name: &str) -> Option<Domain> {
    match name.chars().next() {
        Some('T') => Some(Domain::Transit),
        Some('S') => Some(Domain::Stub),
        _ => None,
    }
}

/// Maximum number of nodes: no node can then have more ports than fit a port number.
pub(super) const MAX_NODES: usize = 65_536;

/// Maximum length of an edge in milliseconds.
pub(super) const MAX_LENGTH: f64 = 1e9;
