//! GML, the Graph Modelling Language (Himsolt, 1997), as the Internet Topology Zoo and networkx write it.
//!
//! Attributes are those of [GraphML](super::graphml). A file is a list of keys with values; a value is a number, a
//! string, or a list in brackets.

mod tokens;

use std::collections::BTreeMap;

use tokens::{Token, Tokens};

use super::raw::{MAX_NODES, RawGraph, delay_of_ms, rate_of_bps};
use super::{Position, RawEdge, RawNode};
use crate::graph::topology::TopologyError;

/// Returns true if a key `graph` with a list stands at the beginning of a line.
pub(super) fn recognises(text: &str) -> bool {
    text.lines().take(RECOGNISED_LINES).any(|line| {
        let line = line.trim_start();
        line.strip_prefix("graph")
            .is_some_and(|rest| rest.trim_start().starts_with('[') || rest.trim().is_empty())
    })
}

/// Number of lines in which the graph must begin for the content to be conclusive.
const RECOGNISED_LINES: usize = 50;

/// Parses a file.
pub(super) fn parse(text: &str) -> Result<RawGraph, TopologyError> {
    let mut tokens = Tokens::new(text);
    let mut list = List::read(&mut tokens, 0)?;
    let Some(graph) = list.take("graph")? else {
        return Err(TopologyError { line: 0, problem: "there is no `graph [ ... ]`".into() });
    };
    let (line, Value::List(graph)) = graph else {
        return Err(TopologyError { line: graph.0, problem: "expected a list: `graph [ ... ]`".into() });
    };
    let directed = match graph.number("directed")? {
        None => false,
        Some((_, 0.0)) => false,
        Some((_, 1.0)) => true,
        Some((line, other)) => {
            let problem = format!("`directed {other}`: expected 0 or 1");
            return Err(TopologyError { line, problem });
        }
    };
    let mut reader = Reader { ids: BTreeMap::new(), graph: RawGraph { directed, ..RawGraph::default() } };
    // Edges can stand before their nodes.
    for (line, node) in graph.lists("node")? {
        reader.node(line, node)?;
    }
    for (line, edge) in graph.lists("edge")? {
        reader.edge(line, edge)?;
    }
    match reader.graph.nodes.is_empty() {
        false => Ok(reader.graph),
        true => Err(TopologyError { line, problem: "the graph has no `node [ ... ]`".into() }),
    }
}

struct Reader {
    /// Index of each node by its id.
    ids: BTreeMap<i64, u32>,
    graph: RawGraph,
}

impl Reader {
    fn node(&mut self, line: usize, node: &List<'_>) -> Result<(), TopologyError> {
        let fail = |problem: String| TopologyError { line, problem };
        let id = node.whole("id")?.ok_or_else(|| fail("a node without `id`".into()))?;
        if self.ids.len() >= MAX_NODES {
            return Err(fail(format!("more than {MAX_NODES} nodes")));
        }
        let position = match (node.number("latitude")?, node.number("longitude")?) {
            (Some((_, latitude)), Some((_, longitude))) => {
                let position = Position::new(latitude, longitude).ok_or_else(|| {
                    fail(format!(
                        "latitude {latitude} and longitude {longitude} of node {id}: expected degrees, -90 to 90 and -180 to 180"
                    ))
                })?;
                Some(position)
            }
            _ => None,
        };
        let name = node.text("label").unwrap_or_else(|| id.to_string());
        let index = self.graph.add_node(RawNode { name, position });
        match self.ids.insert(id, index) {
            None => Ok(()),
            Some(_) => Err(fail(format!("a second node with `id {id}`"))),
        }
    }

    fn edge(&mut self, line: usize, edge: &List<'_>) -> Result<(), TopologyError> {
        let fail = |problem: String| TopologyError { line, problem };
        let end = |key: &str| {
            let id = edge.whole(key)?.ok_or_else(|| fail(format!("an edge without `{key}`")))?;
            self.ids.get(&id).copied().ok_or_else(|| fail(format!("`{key} {id}` is the id of no node")))
        };
        let ends = [end("source")?, end("target")?];
        let stated = match edge.number("delay")? {
            None => edge.number("latency")?,
            delay => delay,
        };
        let delay = stated.map(|(line, ms)| {
            delay_of_ms(ms).ok_or_else(|| TopologyError {
                line,
                problem: format!("`{ms}` is no delay: expected milliseconds, 0 to 1e9"),
            })
        });
        let rate = edge.number("linkspeedraw")?.map(|(line, bps)| {
            rate_of_bps(bps).ok_or_else(|| TopologyError {
                line,
                problem: format!("`{bps}` is no rate: expected bits per second, 1 to 1e15"),
            })
        });
        self.graph.edges.push(RawEdge { ends, delay: delay.transpose()?, rate: rate.transpose()?, line });
        Ok(())
    }
}

/// Value of a key.
#[derive(Debug)]
enum Value<'a> {
    Number(f64),
    Text(&'a str),
    List(List<'a>),
}

/// List of keys, each with its line and value. A key can occur several times.
#[derive(Debug, Default)]
struct List<'a>(Vec<(&'a str, usize, Value<'a>)>);

impl<'a> List<'a> {
    /// Reads a list up to its closing bracket, or the end of the file at depth 0.
    fn read(tokens: &mut Tokens<'a>, depth: usize) -> Result<Self, TopologyError> {
        let mut list = List::default();
        let opening = tokens.line();
        loop {
            let (line, key) = match tokens.next()? {
                Some((line, Token::Word(key))) if is_key(key) => (line, key),
                Some((_, Token::Close)) if depth > 0 => return Ok(list),
                None if depth == 0 => return Ok(list),
                None => {
                    let problem = "the file ends in this list: expected `]`".into();
                    return Err(TopologyError { line: opening, problem });
                }
                Some((line, token)) => {
                    let problem = format!("expected a key, found {token}");
                    return Err(TopologyError { line, problem });
                }
            };
            let fail = |found: &dyn std::fmt::Display| TopologyError {
                line,
                problem: format!("expected a number, a string or a list behind `{key}`, found {found}"),
            };
            let value = match tokens.next()? {
                Some((_, Token::Word(word))) => {
                    Value::Number(word.parse().map_err(|_| fail(&Token::Word(word)))?)
                }
                Some((_, Token::Text(text))) => Value::Text(text),
                Some((line, Token::Open)) if depth >= MAX_DEPTH => {
                    let problem = format!("lists are nested more than {MAX_DEPTH} deep");
                    return Err(TopologyError { line, problem });
                }
                Some((_, Token::Open)) => Value::List(List::read(tokens, depth + 1)?),
                Some((_, token @ Token::Close)) => return Err(fail(&token)),
                None => return Err(fail(&"the end of the file")),
            };
            list.0.push((key, line, value));
        }
    }

    /// First value of a key, which is compared without regard to case.
    fn get(&self, key: &str) -> Option<(usize, &Value<'a>)> {
        let found = self.0.iter().find(|(name, _, _)| name.eq_ignore_ascii_case(key));
        found.map(|(_, line, value)| (*line, value))
    }

    /// Removes the value of a key that may occur once.
    fn take(&mut self, key: &str) -> Result<Option<(usize, Value<'a>)>, TopologyError> {
        let Some(at) = self.0.iter().position(|(name, _, _)| *name == key) else { return Ok(None) };
        let (_, line, value) = self.0.swap_remove(at);
        match self.0.iter().find(|(name, _, _)| *name == key) {
            None => Ok(Some((line, value))),
            Some(&(_, line, _)) => {
                Err(TopologyError { line, problem: format!("a second `{key}`: expected one") })
            }
        }
    }

    /// Number of a key, with its line. The Topology Zoo has some numbers in quotes.
    fn number(&self, key: &str) -> Result<Option<(usize, f64)>, TopologyError> {
        let Some((line, value)) = self.get(key) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            Value::List(_) => None,
        };
        let number = number.filter(|number: &f64| number.is_finite());
        number
            .map(|number| Some((line, number)))
            .ok_or_else(|| TopologyError { line, problem: format!("expected a number behind `{key}`") })
    }

    /// Whole number of a key.
    fn whole(&self, key: &str) -> Result<Option<i64>, TopologyError> {
        let Some((line, number)) = self.number(key)? else { return Ok(None) };
        match number.fract() == 0.0 && number.abs() < 9e15 {
            true => Ok(Some(number as i64)),
            false => {
                Err(TopologyError { line, problem: format!("`{key} {number}`: expected a whole number") })
            }
        }
    }

    /// Text of a key; a number as it is written.
    fn text(&self, key: &str) -> Option<String> {
        match self.get(key)?.1 {
            Value::Text(text) => Some(tokens::decoded(text)).filter(|text| !text.is_empty()),
            Value::Number(number) => Some(number.to_string()),
            Value::List(_) => None,
        }
    }

    /// Lists behind all occurrences of a key.
    fn lists<'b>(&'b self, key: &'b str) -> Result<Vec<(usize, &'b List<'a>)>, TopologyError> {
        let all = self.0.iter().filter(|(name, _, _)| *name == key);
        all.map(|(_, line, value)| match value {
            Value::List(list) => Ok((*line, list)),
            _ => Err(TopologyError { line: *line, problem: format!("expected a list: `{key} [ ... ]`") }),
        })
        .collect()
    }
}

/// Returns true if a word is a key: a letter, then letters, digits and underscores.
fn is_key(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Maximum nesting of lists. Graphs need two, drawings three or four.
const MAX_DEPTH: usize = 32;
