//! Rocketfuel's maps of Internet service providers (Spring, Mahajan and Wetherall, *Measuring ISP Topologies with
//! Rocketfuel*, 2002).
//!
//! ```text
//! 463 @Bangalore,+IN + bb (7) &41 -> <456> <462> {-17} =ekm-blr-stm1.bng.vsnl.net.in r0
//! -17 =62.197.128.1 r1
//! ```
//!
//! A router has a number, a location, flags, its numbers of neighbours, the neighbours themselves, a name and its
//! distance from the backbone. Neighbours in braces and lines with negative numbers are addresses outside of the
//! provider. They are no routers of it and are left out. Both routers of a link name each other. A map has neither
//! delays nor rates.

use std::collections::BTreeMap;

use super::raw::{MAX_NODES, RawGraph};
use super::{RawEdge, RawNode};
use crate::graph::topology::TopologyError;

/// Returns true if the first line with contents is that of a router.
pub(super) fn recognises(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    let words = first.and_then(|line| line.split_once(char::is_whitespace));
    words.is_some_and(|(number, rest)| number.parse::<i64>().is_ok() && rest.trim_start().starts_with('@'))
}

/// Router of the file: its line and its neighbours.
struct Router<'a> {
    line: usize,
    neighbours: Vec<&'a str>,
}

/// Parses a file.
pub(super) fn parse(text: &str) -> Result<RawGraph, TopologyError> {
    let mut graph = RawGraph { directed: true, ..RawGraph::default() };
    let mut ids: BTreeMap<u64, u32> = BTreeMap::new();
    let mut routers = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let fail = |problem: String| TopologyError { line, problem };
        let Some(first) = text.split_whitespace().next() else { continue };
        if first.starts_with('-') || first.starts_with('#') {
            continue;
        }
        let id: u64 = first.parse().map_err(|_| fail(FORM.into()))?;
        let (head, neighbours) = text.split_once("->").ok_or_else(|| fail(FORM.into()))?;
        if !head.contains('@') {
            return Err(fail(FORM.into()));
        }
        let neighbours = neighbours.split_whitespace();
        let neighbours = neighbours.filter_map(|word| word.strip_prefix('<')).collect();
        if ids.len() >= MAX_NODES {
            return Err(fail(format!("more than {MAX_NODES} routers")));
        }
        let index = graph.add_node(RawNode { name: first.to_owned(), position: None });
        if ids.insert(id, index).is_some() {
            return Err(fail(format!("a second router {id}")));
        }
        routers.push(Router { line, neighbours });
    }
    for (from, Router { line, neighbours }) in (0_u32..).zip(routers) {
        let fail = |problem: String| TopologyError { line, problem };
        for word in neighbours {
            let number = word.strip_suffix('>').and_then(|word| word.parse::<u64>().ok());
            let number = number.ok_or_else(|| fail(format!("`<{word}` is no neighbour, such as `<456>`")))?;
            let to = ids.get(&number).copied();
            let to = to.ok_or_else(|| fail(format!("the neighbour <{number}> is no router of the file")))?;
            graph.edges.push(RawEdge { ends: [from, to], delay: None, rate: None, line });
        }
    }
    Ok(graph)
}

/// Form of a line.
const FORM: &str = "expected a router: `uid @location (neighbours) -> <uid> ... =name rn`";
