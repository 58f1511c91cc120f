//! Files of BRITE (Medina, Lakhina, Matta and Byers, 2001).
//!
//! ```text
//! Topology: ( 2 Nodes, 1 Edges )
//! Model (1 - RTWaxman):  2 1000 100 1 2 0.15 0.2 1 1 10.0 1024.0
//!
//! Nodes: ( 2 )
//! 0    12.0   40.0   1   1   -1   RT_NODE
//! 1    88.0   61.0   1   1   -1   RT_NODE
//!
//! Edges: ( 1 )
//! 0    0   1   78.8   0.263   10.0   -1   -1   E_RT   U
//! ```
//!
//! A node has an id, a position in the plane, its degrees, its AS and its type. An edge has an id, two nodes, its
//! length, its delay in milliseconds, its bandwidth in Mbit/s, the AS of both ends, its type, and `U` (undirected) or
//! `D`. In AS topologies a delay of -1 means that there is none.

use std::collections::BTreeMap;

use super::raw::{MAX_NODES, RawGraph, delay_of_ms, rate_of_bps};
use super::{RawEdge, RawNode};
use crate::graph::topology::TopologyError;

/// Returns true if the text begins like such a file.
pub(super) fn recognises(text: &str) -> bool {
    text.trim_start().starts_with("Topology:")
}

/// Section of the file, with the number of its entries as stated and as read.
#[derive(Clone, Copy, PartialEq)]
enum Section {
    Head,
    Nodes,
    Edges,
}

/// Parses a file.
pub(super) fn parse(text: &str) -> Result<RawGraph, TopologyError> {
    let mut reader = Reader::default();
    let mut section = Section::Head;
    for (line, text) in (1..).zip(text.lines()) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some(&first) = words.first() else { continue };
        match first {
            "Nodes:" => {
                section = Section::Nodes;
                reader.stated[0] = Some((line, count(line, &words)?));
            }
            "Edges:" => {
                section = Section::Edges;
                reader.stated[1] = Some((line, count(line, &words)?));
            }
            _ => match section {
                Section::Head => {}
                Section::Nodes => reader.node(line, &words)?,
                Section::Edges => reader.edge(line, &words)?,
            },
        }
    }
    reader.finish()
}

/// Number in `Nodes: ( 2 )`.
fn count(line: usize, words: &[&str]) -> Result<usize, TopologyError> {
    let digits: String = words[1..].concat().chars().filter(|c| !matches!(c, '(' | ')')).collect();
    digits.parse().map_err(|_| TopologyError {
        line,
        problem: format!("expected a number in parentheses, such as `{} ( 20 )`", words[0]),
    })
}

#[derive(Default)]
struct Reader {
    /// Stated numbers of nodes and edges, with their lines.
    stated: [Option<(usize, usize)>; 2],
    ids: BTreeMap<i64, u32>,
    graph: RawGraph,
    /// Number of directed edges.
    directed: usize,
}

impl Reader {
    fn node(&mut self, line: usize, words: &[&str]) -> Result<(), TopologyError> {
        let fail = |problem: String| TopologyError { line, problem };
        let id: Option<i64> = words[0].parse().ok();
        let id = id
            .filter(|_| words.len() >= 3)
            .ok_or_else(|| fail("expected a node: `id x y indegree outdegree as type`".into()))?;
        if self.ids.len() >= MAX_NODES {
            return Err(fail(format!("more than {MAX_NODES} nodes")));
        }
        let index = self.graph.add_node(RawNode { name: id.to_string(), position: None });
        match self.ids.insert(id, index) {
            None => Ok(()),
            Some(_) => Err(fail(format!("a second node {id}"))),
        }
    }

    fn edge(&mut self, line: usize, words: &[&str]) -> Result<(), TopologyError> {
        let fail = |problem: String| TopologyError { line, problem };
        let form = "expected an edge: `id from to length delay_ms bandwidth_mbps ...`";
        let [_, from, to, _, delay, bandwidth, ..] = words[..] else { return Err(fail(form.into())) };
        let end = |word: &str| {
            let id: i64 = word.parse().map_err(|_| fail(form.into()))?;
            self.ids.get(&id).copied().ok_or_else(|| fail(format!("`{id}` is no node of the file")))
        };
        let ends = [end(from)?, end(to)?];
        let number = |word: &str| {
            let number: Option<f64> = word.parse().ok().filter(|number: &f64| number.is_finite());
            number.ok_or_else(|| fail(form.into()))
        };
        let (delay, bandwidth) = (number(delay)?, number(bandwidth)?);
        let stated = (delay >= 0.0).then(|| {
            delay_of_ms(delay).ok_or_else(|| fail(format!("`{delay}` is no delay: expected 0 to 1e9 ms")))
        });
        let rate = (bandwidth > 0.0).then(|| {
            rate_of_bps(bandwidth * 1e6)
                .ok_or_else(|| fail(format!("`{bandwidth}` is no bandwidth: expected up to 1e9 Mbit/s")))
        });
        self.directed += usize::from(words.last() == Some(&"D"));
        self.graph.edges.push(RawEdge { ends, delay: stated.transpose()?, rate: rate.transpose()?, line });
        Ok(())
    }

    fn finish(mut self) -> Result<RawGraph, TopologyError> {
        let read = [self.graph.nodes.len(), self.graph.edges.len()];
        for ((kind, stated), read) in ["Nodes", "Edges"].into_iter().zip(self.stated).zip(read) {
            let Some((line, stated)) = stated else {
                return Err(TopologyError {
                    line: 0,
                    problem: format!("a section `{kind}: ( ... )` is missing"),
                });
            };
            if stated != read {
                let problem = format!("`{kind}: ( {stated} )`, but {read} follow: the file is not whole");
                return Err(TopologyError { line, problem });
            }
        }
        if self.directed != 0 && self.directed != self.graph.edges.len() {
            let problem = "some edges are directed (D) and others are not (U)".into();
            return Err(TopologyError { line: 0, problem });
        }
        self.graph.directed = self.directed > 0;
        Ok(self.graph)
    }
}
