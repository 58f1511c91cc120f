//! Writer of graphs in both of GT-ITM's forms, as its programs write them.

use std::fmt::Write as _;

/// Graph in the order in which a generator makes it.
#[derive(Clone, Debug)]
pub struct Graph {
    pub name: String,
    pub names: Vec<String>,
    /// Both ends and the length of each edge.
    pub edges: Vec<(usize, usize, i64)>,
}

impl Graph {
    /// Arcs of each vertex, the last one first, with number, tip and length.
    fn lists(&self) -> Vec<Vec<(usize, usize, i64)>> {
        let mut lists = vec![Vec::new(); self.names.len()];
        for (edge, &(a, b, length)) in self.edges.iter().enumerate() {
            let (low, high) = (a.min(b), a.max(b));
            lists[low].insert(0, (2 * edge, high, length));
            lists[high].insert(0, (2 * edge + 1, low, length));
        }
        lists
    }

    /// Text of the Stanford GraphBase form, with the checksum.
    pub fn graph_base(&self) -> String {
        let lists = self.lists();
        let pointer = |arc: Option<&(usize, usize, i64)>| arc.map_or("0".into(), |arc| format!("A{}", arc.0));
        // Arcs are allocated in blocks of 102, and four vertices more than requested.
        let (vertices, blocks) = (self.names.len() + 4, (2 * self.edges.len()).div_ceil(102).max(1));
        let mut text =
            format!("* GraphBase graph (util_types ZZZIIZIZIZZZZZ,{vertices}V,{}A)\n", 102 * blocks);
        let numbers = [self.names.len(), 2 * self.edges.len(), 10].map(|number| number.to_string());
        record(&mut text, std::iter::once(quoted(&self.name)).chain(numbers));
        text.push_str("* Vertices\n");
        for (name, list) in self.names.iter().zip(&lists) {
            record(&mut text, [quoted(name), pointer(list.first()), "4".into(), "-9".into()]);
        }
        for _ in 0..4 {
            record(&mut text, ["\"\"", "0", "0", "0"].map(str::to_owned));
        }
        let mut arcs = vec![["0".to_owned(), "0".to_owned(), "0".to_owned(), "0".to_owned()]; 102 * blocks];
        for list in &lists {
            for (at, &(arc, tip, length)) in list.iter().enumerate() {
                arcs[arc] = [format!("V{tip}"), pointer(list.get(at + 1)), length.to_string(), "1".into()];
            }
        }
        text.push_str("* Arcs\n");
        arcs.into_iter().for_each(|arc| record(&mut text, arc));
        text.push_str("* Checksum 0\n");
        sealed(&text)
    }

    /// Text of the `sgb2alt` form: for each vertex the arcs to later ones.
    pub fn alt(&self) -> String {
        let (nodes, arcs) = (self.names.len(), 2 * self.edges.len());
        let mut text =
            format!("GRAPH (#nodes #edges id uu vv ww xx yy zz):\n{nodes} {arcs} {} 10 \n\n", self.name);
        text.push_str("VERTICES (index name u v w x y z):\n");
        for (node, name) in self.names.iter().enumerate() {
            writeln!(text, "{node} {name} 4 -9 ").unwrap();
        }
        text.push_str("\nEDGES (from-node to-node length a b):\n");
        for (from, list) in self.lists().into_iter().enumerate() {
            for (_, to, length) in list.into_iter().filter(|arc| arc.1 > from) {
                writeln!(text, "{from} {to} {length} 1 ").unwrap();
            }
        }
        text
    }
}

/// Updates the checksum of a file.
pub fn sealed(text: &str) -> String {
    let header = text.find("* GraphBase graph").expect("a header");
    let end = text.find("* Checksum ").expect("a checksum");
    let data = text[header..end].lines().skip(1).filter(|line| !line.starts_with('*'));
    let mut sum = 0_i64;
    for character in data.flat_map(|line| line.chars().chain(['\n'])) {
        let code = CODES.chars().position(|code| code == character).unwrap_or(127) as i64;
        sum = (sum + sum + code).rem_euclid(0x3FFF_FFAD);
    }
    let behind = text[end..].find('\n').map_or("", |at| &text[end + at..]);
    format!("{}* Checksum {sum}{behind}", &text[..end])
}

/// Writes the fields of a record in lines of at most 79 characters.
fn record(text: &mut String, fields: impl IntoIterator<Item = String>) {
    let mut line = String::new();
    for (at, field) in fields.into_iter().enumerate() {
        if at > 0 {
            line.push(',');
        }
        if line.len() + field.len() > 78 && !line.is_empty() {
            text.push_str(&line);
            text.push('\n');
            line.clear();
        }
        line.push_str(&field);
        while line.len() > 78 {
            let rest = line.split_off(78);
            text.push_str(&line);
            text.push_str("\\\n");
            line = rest;
        }
    }
    text.push_str(&line);
    text.push('\n');
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

const CODES: &str = concat!(
    "0123456789",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "abcdefghijklmnopqrstuvwxyz",
    "_^~&@,;.:?!%#$+-*/|\\<=>()[]{}`'\" \n"
);
