//! GraphML (Brandes et al., *GraphML Progress Report*, 2001), as the Internet Topology Zoo and networkx write it.
//!
//! Attributes of nodes: `label`, `Latitude` and `Longitude`; of edges: `LinkSpeedRaw` (bit/s), or `delay` or `latency`
//! (ms). Nested graphs, hyperedges and document types are not supported.

use std::collections::BTreeMap;

use roxmltree::{Document, Node, ParsingOptions};

use super::raw::{MAX_NODES, RawGraph};
use super::{Position, RawEdge, RawNode};
use crate::graph::import::raw::{delay_of_ms, rate_of_bps};
use crate::graph::topology::TopologyError;

/// Returns true if the text begins like XML.
pub(super) fn recognises(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with("<?xml") || text.starts_with("<graphml") || text.starts_with("<!--")
}

/// Parses a file.
pub(super) fn parse(text: &str) -> Result<RawGraph, TopologyError> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_XML_NODES, ..Default::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| TopologyError {
        line: error.pos().row as usize,
        problem: format!("this is no XML: {}", without_position(&error.to_string())),
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "graphml" {
        let problem = format!("expected the element <graphml>, found <{}>", root.tag_name().name());
        return Err(TopologyError { line: line_of(root), problem });
    }
    let mut graphs = children(root, "graph");
    let graph = graphs.next().ok_or(TopologyError { line: 0, problem: "there is no <graph>".into() })?;
    if let Some(second) = graphs.next() {
        return Err(fail(second, "a second <graph>: expected one"));
    }
    Reader { keys: keys(root)?, ids: BTreeMap::new(), graph: RawGraph::default() }.read(graph)
}

/// Names of attributes by their ids, which edges and nodes share with nothing else.
type Keys<'a> = BTreeMap<&'a str, &'a str>;

fn keys<'a>(root: Node<'a, '_>) -> Result<Keys<'a>, TopologyError> {
    let mut keys = Keys::new();
    for key in children(root, "key") {
        let id = key.attribute("id").ok_or_else(|| fail(key, "a <key> without id"))?;
        // Without a name the id is the name.
        keys.insert(id, key.attribute("attr.name").unwrap_or(id));
    }
    Ok(keys)
}

struct Reader<'a> {
    keys: Keys<'a>,
    /// Index of each node by its id.
    ids: BTreeMap<&'a str, u32>,
    graph: RawGraph,
}

impl<'a> Reader<'a> {
    fn read(mut self, graph: Node<'a, '_>) -> Result<RawGraph, TopologyError> {
        self.graph.directed = match graph.attribute("edgedefault") {
            Some("directed") => true,
            Some("undirected") | None => false,
            Some(other) => {
                let problem = format!("edgedefault=\"{other}\": expected \"directed\" or \"undirected\"");
                return Err(fail(graph, problem));
            }
        };
        if let Some(hyperedge) = children(graph, "hyperedge").next() {
            return Err(fail(hyperedge, "a <hyperedge>: expected links between two nodes"));
        }
        // Edges can stand before their nodes.
        for node in children(graph, "node") {
            self.node(node)?;
        }
        for edge in children(graph, "edge") {
            self.edge(edge)?;
        }
        Ok(self.graph)
    }

    fn node(&mut self, node: Node<'a, '_>) -> Result<(), TopologyError> {
        if let Some(nested) = children(node, "graph").next() {
            return Err(fail(nested, "a <graph> in a <node>: nested graphs are not supported"));
        }
        let id = node.attribute("id").ok_or_else(|| fail(node, "a <node> without id"))?;
        if self.ids.len() >= MAX_NODES {
            return Err(fail(node, format!("more than {MAX_NODES} nodes")));
        }
        let position = match (self.value(node, &["latitude"]), self.value(node, &["longitude"])) {
            (Some(latitude), Some(longitude)) => {
                let number = |text: &str| text.parse().unwrap_or(f64::NAN);
                let position = Position::new(number(latitude), number(longitude));
                Some(position.ok_or_else(|| {
                    fail(
                        node,
                        format!(
                            "latitude {latitude} and longitude {longitude} of node \"{id}\": expected degrees, -90 to 90 and -180 to 180"
                        ),
                    )
                })?)
            }
            _ => None,
        };
        let name = self.value(node, &["label", "name"]).unwrap_or(id).to_owned();
        let index = self.graph.add_node(RawNode { name, position });
        match self.ids.insert(id, index) {
            None => Ok(()),
            Some(_) => Err(fail(node, format!("a second node with the id \"{id}\""))),
        }
    }

    fn edge(&mut self, edge: Node<'a, '_>) -> Result<(), TopologyError> {
        let end = |attribute: &str| {
            let id = edge
                .attribute(attribute)
                .ok_or_else(|| fail(edge, format!("an <edge> without {attribute}")))?;
            let index = self.ids.get(id).copied();
            index.ok_or_else(|| fail(edge, format!("{attribute}=\"{id}\" is the id of no node")))
        };
        let ends = [end("source")?, end("target")?];
        if let Some(directed) = edge.attribute("directed")
            && (directed == "true") != self.graph.directed
        {
            let problem = format!("directed=\"{directed}\" differs from edgedefault of the graph");
            return Err(fail(edge, problem));
        }
        let number = |names: &[&str], make: &dyn Fn(f64) -> bool, expected: &str| {
            let Some(text) = self.value(edge, names) else { return Ok(None) };
            let number = text.parse().ok().filter(|&number| make(number));
            number.map(Some).ok_or_else(|| {
                fail(edge, format!("`{text}` for {}: expected {expected}", names.join(" or ")))
            })
        };
        let delay =
            number(&["delay", "latency"], &|ms| delay_of_ms(ms).is_some(), "milliseconds, such as 2.5")?;
        let rate =
            number(&["linkspeedraw"], &|bps| rate_of_bps(bps).is_some(), "bits per second, such as 1e9")?;
        self.graph.edges.push(RawEdge {
            ends,
            delay: delay.and_then(delay_of_ms),
            rate: rate.and_then(rate_of_bps),
            line: 0,
        });
        Ok(())
    }

    /// Value of the first of these attributes that an element has; names are in lower case.
    fn value(&self, element: Node<'a, '_>, names: &[&str]) -> Option<&'a str> {
        names.iter().find_map(|name| {
            let data = children(element, "data").find(|data| {
                let key = data.attribute("key").and_then(|key| self.keys.get(key));
                key.is_some_and(|key| key.eq_ignore_ascii_case(name))
            });
            data.and_then(|data| data.text()).map(str::trim).filter(|text| !text.is_empty())
        })
    }
}

fn children<'a, 'i>(of: Node<'a, 'i>, name: &str) -> impl Iterator<Item = Node<'a, 'i>> {
    of.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

/// Line of an element. It counts lines from the beginning, so it is used for errors only.
fn line_of(node: Node<'_, '_>) -> usize {
    node.document().text_pos_at(node.range().start).row as usize
}

fn fail(node: Node<'_, '_>, problem: impl Into<String>) -> TopologyError {
    TopologyError { line: line_of(node), problem: problem.into() }
}

/// Message of the XML parser without the position behind it.
fn without_position(message: &str) -> &str {
    message.rsplit_once(" at ").map_or(message, |(message, _)| message)
}

/// Maximum number of XML nodes: a topology of ten million nodes needs about as many.
const MAX_XML_NODES: u32 = 50_000_000;
