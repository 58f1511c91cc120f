//! Graph as a file states it, and the topology that it becomes.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{BitRate, NodeId};

use super::Position;
use crate::graph::topology::{Link, Topology, TopologyError};

/// Graph of a file.
#[derive(Clone, Debug, Default)]
pub struct RawGraph {
    /// True if each direction of a link is an edge of its own.
    pub directed: bool,
    /// Nodes.
    pub nodes: Vec<RawNode>,
    /// Edges between indices of `nodes`.
    pub edges: Vec<RawEdge>,
}

/// Node of a file.
#[derive(Clone, Debug, Default)]
pub struct RawNode {
    /// Name; empty if the file gives none.
    pub name: String,
    /// Position on the Earth.
    pub position: Option<Position>,
}

/// Edge of a file.
#[derive(Clone, Copy, Debug)]
pub struct RawEdge {
    /// Indices of both ends.
    pub ends: [u32; 2],
    /// Delay that the file states.
    pub delay: Option<Duration>,
    /// Rate that the file states.
    pub rate: Option<BitRate>,
    /// Line, counted from 1.
    pub line: usize,
}

/// Edges that a reader removed, and its assumptions, for a report to the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Edges from a node to itself, which were left out.
    pub self_loops: usize,
    /// Edges that were joined with the edge of the other direction.
    pub joined: usize,
    /// Joined edges with another delay than the edge of the other direction, which applies.
    pub asymmetric: usize,
    /// Links with the default delay.
    pub default_delays: usize,
}

impl RawGraph {
    /// Adds a node and returns its index.
    pub(super) fn add_node(&mut self, node: RawNode) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Makes the topology.
    ///
    /// Edges of a directed graph form links: the n-th edge from a to b and the n-th edge from b to a are the two
    /// directions of one link. The first one in the file determines its properties.
    pub fn build(self, default_delay: Duration) -> Result<(Topology, Findings), TopologyError> {
        let RawGraph { directed, nodes, edges } = self;
        if nodes.is_empty() {
            return Err(TopologyError { line: 0, problem: "the file has no nodes".into() });
        }
        let mut topology = Topology::new(nodes.len());
        let mut findings = Findings::default();
        // Links for which the edge of the other direction has not been seen, by that edge's ends.
        let mut one_way: BTreeMap<[u32; 2], Vec<Duration>> = BTreeMap::new();
        for RawEdge { ends: [a, b], delay, rate, line } in edges {
            if a == b {
                findings.self_loops += 1;
                continue;
            }
            let [from, to] = [a, b].map(|end| nodes[end as usize].position);
            let of_positions = || Some(from?.delay(to?));
            let known = delay.or_else(of_positions);
            let delay = known.unwrap_or(default_delay);
            if directed {
                let opposite = one_way.get_mut(&[a, b]).filter(|links| !links.is_empty());
                if let Some(links) = opposite {
                    findings.joined += 1;
                    findings.asymmetric += usize::from(links.remove(0) != delay);
                    continue;
                }
                one_way.entry([b, a]).or_default().push(delay);
            }
            if [a, b].iter().any(|&end| topology.ports(NodeId(end)).len() > usize::from(u16::MAX)) {
                return Err(TopologyError { line, problem: "a node has more than 65536 links".into() });
            }
            findings.default_delays += usize::from(known.is_none());
            topology.add_link(Link { rate, ..Link::new([NodeId(a), NodeId(b)], delay) });
        }
        if nodes.iter().any(|node| !node.name.is_empty()) {
            topology.names = nodes.into_iter().map(|node| node.name).collect();
        }
        Ok((topology, findings))
    }
}

/// Maximum number of nodes, so that node numbers fit 32 bits with room for hosts.
pub(super) const MAX_NODES: usize = 10_000_000;

/// Delay of this many milliseconds, at most a billion.
pub(super) fn delay_of_ms(millis: f64) -> Option<Duration> {
    let is_valid = (0.0..=1e9).contains(&millis);
    is_valid.then(|| Duration::from_nanos((millis * 1e6).round() as u64))
}

/// Rate of this many bits per second, from 1 to 10^15.
pub(super) fn rate_of_bps(bps: f64) -> Option<BitRate> {
    if !(1.0..=1e15).contains(&bps) {
        return None;
    }
    BitRate::new(bps.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(directed: bool, edges: &[(u32, u32, u64)]) -> (Topology, Findings) {
        let edge = |&(a, b, millis)| RawEdge {
            ends: [a, b],
            delay: Some(Duration::from_millis(millis)),
            rate: None,
            line: 1,
        };
        let edges = edges.iter().map(edge).collect();
        let graph = RawGraph { directed, nodes: vec![RawNode::default(); 3], edges };
        graph.build(Duration::from_millis(10)).expect("a topology")
    }

    #[test]
    fn both_directions_of_a_link_are_joined_in_directed_graphs_only() {
        let edges = [(0, 1, 5), (1, 0, 5), (0, 1, 6), (1, 0, 7), (1, 2, 1), (2, 2, 1)];
        let (topology, findings) = graph(true, &edges);
        assert_eq!(topology.edges(), "0 1 5\n0 1 6\n1 2 1\n");
        assert_eq!(
            findings,
            Findings { self_loops: 1, joined: 2, asymmetric: 1, default_delays: 0 },
            "the pair of 6 and 7 ms differs"
        );
        let (topology, findings) = graph(false, &edges);
        assert_eq!(topology.links().len(), 5);
        assert_eq!(findings.joined, 0);
    }

    #[test]
    fn delay_is_stated_or_by_position_or_the_default() {
        let mut graph = RawGraph::default();
        for (latitude, name) in [(Some(0.0), "a"), (Some(1.0), "b"), (None, "c")] {
            let position = latitude.and_then(|latitude| Position::new(latitude, 0.0));
            graph.add_node(RawNode { name: name.into(), position });
        }
        for (ends, delay) in [([0, 1], Some(Duration::from_millis(3))), ([0, 1], None), ([1, 2], None)] {
            graph.edges.push(RawEdge { ends, delay, rate: None, line: 1 });
        }
        let (topology, findings) = graph.build(Duration::from_millis(10)).expect("a topology");
        // A degree of latitude has 111.195 km.
        let millis: Vec<u128> = topology.links().iter().map(|link| link.delay.as_micros()).collect();
        assert_eq!(millis, [3000, 555, 10_000]);
        assert_eq!(findings.default_delays, 1);
        assert_eq!(topology.names, ["a", "b", "c"]);
    }
}
