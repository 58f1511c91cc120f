//! Rocketfuel's backbone topologies (Mahajan, Spring, Wetherall and Anderson, *Inferring Link Weights using
//! End-to-End Measurements*, 2002): `latencies.intra` and `weights.intra`.
//!
//! Each line has two routers, named by their city and number, and the latency in milliseconds or the weight of the
//! link in this direction. Both files are read alike: a weight is taken as milliseconds, so that routes follow it.

use std::collections::BTreeMap;

use super::raw::{RawGraph, delay_of_ms};
use super::{RawEdge, RawNode};
use crate::graph::topology::TopologyError;

/// Parses a file.
pub(super) fn parse(text: &str) -> Result<RawGraph, TopologyError> {
    let mut graph = RawGraph { directed: true, ..RawGraph::default() };
    let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() || words[0].starts_with('#') {
            continue;
        }
        let fail = |problem: String| TopologyError { line, problem };
        let [from, to, number] = words[..] else {
            return Err(fail("expected `router router weight`, such as `Darwin1837 Perth4160 15`".into()));
        };
        let delay = number.parse().ok().and_then(delay_of_ms).ok_or_else(|| {
            fail(format!("`{number}` is no weight or latency: expected a number from 0 to 1e9"))
        })?;
        let ends = [from, to].map(|name| {
            *ids.entry(name)
                .or_insert_with(|| graph.add_node(RawNode { name: name.to_owned(), position: None }))
        });
        graph.edges.push(RawEdge { ends, delay: Some(delay), rate: None, line });
    }
    Ok(graph)
}
