//! Text form of a graph that GT-ITM's `sgb2alt` writes.
//!
//! ```text
//! GRAPH (#nodes #edges id uu vv ww xx yy zz):
//! 4 8 ts 0 1 {1,20,...}
//!
//! VERTICES (index name u v w x y z):
//! 0 T:0.0 0 0 12 3
//! 1 S:0.0/0.0 1 1 14 5
//!
//! EDGES (from-node to-node length a b):
//! 0 1 7 0 0
//! ```

use super::edges::{Edges, MAX_LENGTH, MAX_NODES, domain};
use crate::graph::generate::Domain;
use crate::graph::topology::{Topology, TopologyError};

/// Section of the file.
#[derive(Clone, Copy, PartialEq)]
enum Section {
    Before,
    Graph,
    Vertices,
    Edges,
}

/// Returns true if the text begins like this form.
pub(super) fn recognises(text: &str) -> bool {
    text.trim_start().starts_with("GRAPH (")
}

/// Parses a file of this form.
pub(super) fn parse(text: &str) -> Result<(Topology, Vec<Domain>), TopologyError> {
    let mut section = Section::Before;
    let mut edges: Option<Edges> = None;
    let mut domains = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let fail = |problem: &str| TopologyError { line, problem: problem.to_owned() };
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some(&first) = words.first() else { continue };
        match first {
            "GRAPH" => section = Section::Graph,
            "VERTICES" => section = Section::Vertices,
            "EDGES" => section = Section::Edges,
            _ => match section {
                Section::Before => return Err(fail(FIRST)),
                Section::Graph => {
                    let nodes = first.parse().ok().filter(|nodes| (1..=MAX_NODES).contains(nodes));
                    let nodes = nodes.ok_or_else(|| fail("expected the number of nodes, 1 to 65536"))?;
                    edges = Some(Edges::new(nodes));
                }
                Section::Vertices => domains.extend(words.get(1).copied().and_then(domain)),
                Section::Edges => {
                    let edges = edges.as_mut().ok_or_else(|| fail("edges before the graph"))?;
                    let node = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
                    let (Some(a), Some(b)) = (node(0), node(1)) else {
                        return Err(fail("expected `from-node to-node length`"));
                    };
                    let length: Option<f64> = words.get(2).and_then(|word| word.parse().ok());
                    let length = length.filter(|length| (0.0..=MAX_LENGTH).contains(length));
                    let length = length.ok_or_else(|| fail("expected `from-node to-node length`"))?;
                    if a == b || a.max(b) as usize >= edges.topology.nodes() {
                        return Err(fail("an edge joins two different nodes of the graph"));
                    }
                    edges.join(a, b, length);
                }
            },
        }
    }
    let Some(Edges { topology, .. }) = edges else {
        return Err(TopologyError { line: 0, problem: FIRST.to_owned() });
    };
    if domains.len() != topology.nodes() {
        domains.clear();
    }
    Ok((topology, domains))
}

/// Message for a file that begins like neither form.
const FIRST: &str = "expected `GRAPH (#nodes #edges ...):` or `* GraphBase graph (util_types ...)` first";

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "GRAPH (#nodes #edges id uu vv ww xx yy zz):\n3 4 ts 0\n\n\
        VERTICES (index name u v w x y z):\n0 T:0.0 0 0\n1 S:0.0/0.0 1 1\n2 S:0.0/0.1 1 2\n\n\
        EDGES (from-node to-node length a b):\n0 1 7 0\n1 0 7 0\n1 2 2.5 0\n";

    #[test]
    fn a_file_is_read_and_each_edge_once() {
        let (topology, domains) = parse(TEXT).expect("a topology");
        assert_eq!(topology.edges(), "0 1 7\n1 2 2.5\n");
        assert_eq!(domains, [Domain::Transit, Domain::Stub, Domain::Stub]);
        let (_, flat) = parse(&TEXT.replace("T:0.0", "0")).expect("a topology");
        assert_eq!(flat, [], "a flat graph has no domains");
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| parse(text).expect_err("it is wrong").to_string();
        assert_eq!(error("0 1 2"), format!("line 1: {FIRST}"));
        assert_eq!(error(""), FIRST);
        assert_eq!(
            error(&TEXT.replace("1 2 2.5", "1 3 2.5")),
            "line 12: an edge joins two different nodes of the graph"
        );
        assert_eq!(
            error(&TEXT.replace("1 2 2.5", "1 2 far")),
            "line 12: expected `from-node to-node length`"
        );
        assert_eq!(
            error(&TEXT.replace("3 4 ts", "0 4 ts")),
            "line 2: expected the number of nodes, 1 to 65536"
        );
    }
}
