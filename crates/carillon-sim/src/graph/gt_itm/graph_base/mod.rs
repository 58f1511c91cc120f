//! Form in which GT-ITM saves its graphs: that of the Stanford GraphBase (Knuth, *The Stanford GraphBase*, GB_SAVE).
//! GraphBase*, GB_SAVE).
//!
//! ```text
//! * GraphBase graph (util_types ZZZIIZIZIZZZZZ,7V,6A)
//! "geo(0,{3,10,3,0.500,0.000,0.000})",3,4,10
//! * Vertices
//! "0",A0,4,0
//! "1",A2,2,9
//! "2",A3,8,1
//! "",0,0,0
//! ...
//! * Arcs
//! V1,0,9,0
//! V0,0,9,0
//! V2,A1,10,0
//! V1,0,10,0
//! 0,0,0,0
//! 0,0,0,0
//! * Checksum 123456789
//! ```
//!
//! Fields are a vertex's name, its first arc, and those of its six utility fields that have a type in
//! `util_types`; an arc's tip, the next arc of the same vertex, its length, and those of two utility
//! fields. The header counts records, which may be more than the graph's own: unused vertices are
//! behind the others, unused arcs lead nowhere. GT-ITM keeps places in `x` and `y` and a policy weight
//! in `a`, none of which is used here.
//!
//! As GT-ITM's own `sgb2alt` does, arcs from a vertex to itself are left out: its transit-stub method
//! can make such when it adds edges between stubs. Other arcs have to come with one of the same length
//! the other way, since links are the same in both directions.

mod checksum;
mod fields;

use std::collections::BTreeMap;

use fields::{Fields, Kind};

use super::edges::{Edges, MAX_LENGTH, MAX_NODES, domain};
use crate::graph::generate::Domain;
use crate::graph::topology::{Topology, TopologyError};

/// Returns true if the text begins like this form; other lines with a star may precede.
pub(super) fn recognises(text: &str) -> bool {
    text.lines().take_while(|line| line.starts_with('*')).any(|line| line.starts_with(HEADER))
}

/// Parses a file of this form.
pub(super) fn parse(text: &str) -> Result<(Topology, Vec<Domain>), TopologyError> {
    File::read(text)?.topology()
}

/// Contents of a file.
struct File {
    /// Number of vertices of the graph; records beyond it are unused.
    nodes: usize,
    vertices: Vec<Vertex>,
    arcs: Vec<Arc>,
}

struct Vertex {
    domain: Option<Domain>,
    /// First arc of its list.
    arcs: Option<usize>,
    line: usize,
}

struct Arc {
    tip: Option<usize>,
    /// Next arc of the same list.
    next: Option<usize>,
    length: i64,
    line: usize,
}

impl File {
    fn read(text: &str) -> Result<Self, TopologyError> {
        let mut lines = text.lines();
        let (Header { kinds, counts }, line) = header(&mut lines)?;
        let mut fields = Fields::new(lines, line, counts);

        fields.text("the graph's name")?;
        let nodes = fields.number("the number of vertices")?;
        let most = counts[0].min(MAX_NODES as u64) as i64;
        if !(1..=most).contains(&nodes) {
            return Err(fields.fail(format!("the graph has {nodes} vertices: expected 1 to {most}")));
        }
        fields.number("the number of arcs")?;
        fields.utilities(&kinds[8..])?;
        fields.end_record()?;

        fields.section("* Vertices", "behind the record of the graph")?;
        let mut vertices = Vec::new();
        for _ in 0..counts[0] {
            if fields.at_section() {
                return Err(fields.fail(missing("vertices", vertices.len(), counts[0])));
            }
            let line = fields.line();
            let domain = domain(&fields.text("a vertex's name")?);
            let arcs = fields.arc("a vertex's first arc")?;
            fields.utilities(&kinds[..6])?;
            fields.end_record()?;
            vertices.push(Vertex { domain, arcs, line });
        }

        fields.section("* Arcs", "behind the vertices that the header counts")?;
        let mut arcs = Vec::new();
        for _ in 0..counts[1] {
            if fields.at_section() {
                return Err(fields.fail(missing("arcs", arcs.len(), counts[1])));
            }
            let line = fields.line();
            let tip = fields.vertex("an arc's tip")?;
            let next = fields.arc("the next arc of a list")?;
            let length = fields.number("an arc's length")?;
            fields.utilities(&kinds[6..8])?;
            fields.end_record()?;
            arcs.push(Arc { tip, next, length, line });
        }

        fields.end()?;
        Ok(File { nodes: nodes as usize, vertices, arcs })
    }

    /// Graph of the file.
    fn topology(&self) -> Result<(Topology, Vec<Domain>), TopologyError> {
        let mut edges = Edges::new(self.nodes);
        let mut listed = vec![false; self.arcs.len()];
        // For both ends and a length: the number of arcs up less the number of arcs down, and the line of the last.
        let mut one_way: BTreeMap<(usize, usize, i64), (i64, usize)> = BTreeMap::new();
        for (from, vertex) in self.vertices[..self.nodes].iter().enumerate() {
            let (mut next, mut pointer) = (vertex.arcs, vertex.line);
            while let Some(at) = next {
                if std::mem::replace(&mut listed[at], true) {
                    let problem = format!("A{at} is in a list of arcs already: expected another, or 0");
                    return Err(TopologyError { line: pointer, problem });
                }
                let arc = &self.arcs[at];
                let fail = |problem| TopologyError { line: arc.line, problem };
                let to = arc.tip.filter(|&to| to < self.nodes).ok_or_else(|| {
                    let last = self.nodes - 1;
                    fail(format!(
                        "an arc of V{from} does not lead to a vertex of the graph: expected V0 to V{last}"
                    ))
                })?;
                if !(0.0..=MAX_LENGTH).contains(&(arc.length as f64)) {
                    let length = arc.length;
                    return Err(fail(format!("an arc is {length} long: expected 0 to {MAX_LENGTH}")));
                }
                (next, pointer) = (arc.next, arc.line);
                if from == to {
                    continue;
                }
                let ends = (from.min(to), from.max(to), arc.length);
                let balance = one_way.entry(ends).or_default();
                *balance = (balance.0 + if from < to { 1 } else { -1 }, arc.line);
                edges.join(from as u32, to as u32, arc.length as f64);
            }
        }
        if let Some((&(a, b, length), &(_, line))) = one_way.iter().find(|(_, balance)| balance.0 != 0) {
            let problem = format!(
                "an arc of length {length} joins V{a} and V{b} in one direction only: expected one of that length each way"
            );
            return Err(TopologyError { line, problem });
        }
        let domains = self.vertices[..self.nodes].iter().map(|vertex| vertex.domain).collect::<Option<_>>();
        Ok((edges.topology, domains.unwrap_or_default()))
    }
}

/// Header line before the data.
struct Header {
    /// Types of utility fields: six of vertices, two of arcs, six of the graph.
    kinds: [Kind; 14],
    /// Number of records of vertices and of arcs.
    counts: [u64; 2],
}

/// Reads up to the header and returns it with the number of its line.
fn header(lines: &mut std::str::Lines<'_>) -> Result<(Header, usize), TopologyError> {
    let mut last = 0;
    for (line, text) in (1..).zip(lines) {
        let fail = || {
            let problem = format!("expected `{HEADER}`, 14 letters of ZIVSA, and two counts: `,24V,102A)`");
            TopologyError { line, problem }
        };
        match text.strip_prefix(HEADER) {
            Some(rest) => return Header::parse(rest).map(|header| (header, line)).ok_or_else(fail),
            None if text.starts_with('*') => last = line,
            None => return Err(fail()),
        }
    }
    let problem = format!("expected a line `{HEADER}...`, but the file ends here");
    Err(TopologyError { line: last, problem })
}

impl Header {
    /// Parses the text behind [`HEADER`].
    fn parse(text: &str) -> Option<Self> {
        let (letters, counts) = text.trim_end().strip_suffix("A)")?.split_once(',')?;
        let (vertices, arcs) = counts.split_once("V,")?;
        let kinds: Vec<Kind> = letters.chars().map(Kind::of).collect::<Option<_>>()?;
        Some(Header { kinds: kinds.try_into().ok()?, counts: [vertices.parse().ok()?, arcs.parse().ok()?] })
    }
}

fn missing(what: &str, has: usize, count: u64) -> String {
    format!("{has} {what} stand here: expected {count}, as the header counts them")
}

/// Beginning of the header line.
const HEADER: &str = "* GraphBase graph (util_types ";
