//! Topologies by name: shipped ones, on which ns-2's agents were measured (`experiments/topologies`), and files in
//! all supported formats.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use carillon_sim::graph::RolesOrEdges;
pub use carillon_sim::graph::Topology;
use carillon_sim::graph::generate::Domain;
use carillon_sim::graph::import::{Findings, Format, Imported};

use crate::scenario::{Inputs, ScenarioError};
use toml::Table;

/// Name and content of every shipped file, sorted by name.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/topologies.rs"));

/// Names of the shipped topologies.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().filter_map(|(name, _)| name.strip_suffix(".edges"))
}

/// The edges and the roles of the one of this name.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    let file = |extension: &str| {
        let wanted = format!("{name}.{extension}");
        FILES.iter().find(|(known, _)| *known == wanted).map(|(_, text)| *text)
    };
    file("edges").zip(file("roles"))
}

/// Opens a topology that is shipped, or a file. Links without a delay and without positions have `default_delay`.
pub fn open(name: &str, inputs: &Inputs, default_delay: Duration) -> Result<Imported, String> {
    let of = |topology| Imported { topology, ..Imported::default() };
    if let Some((edges, roles)) = find(name) {
        let topology = Topology::parse(edges, roles);
        return topology.map(of).map_err(|_| format!("\"{name}\" is broken as shipped"));
    }
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_edges = extension == "edges";
    if !is_edges && !Format::extensions().any(|known| known.eq_ignore_ascii_case(extension)) {
        let extensions: Vec<String> = Format::extensions().map(|extension| format!(".{extension}")).collect();
        return Err(format!(
            "\"{name}\" is neither a file (.edges, {}), nor shipped (`carillon topology --list`), nor one of {}",
            extensions.join(", "),
            crate::scenario::GENERATORS.join(", ")
        ));
    }
    let (text, path) = (inputs.read_text(name)?, inputs.path(name));
    match Format::of(name, &text) {
        Some(format) => {
            format.parse(&text, default_delay).map_err(|error| format!("{}: {error}", path.display()))
        }
        None if is_edges => {
            let roles_name = format!("{}.roles", name.strip_suffix(".edges").unwrap_or(name));
            let (roles, roles_path) = (inputs.read_text(&roles_name)?, inputs.path(&roles_name));
            Topology::parse(&text, &roles).map(of).map_err(|error| match error {
                RolesOrEdges::Roles(error) => format!("{}: {error}", roles_path.display()),
                RolesOrEdges::Edges(error) => format!("{}: {error}", path.display()),
            })
        }
        None => Err(format!(
            "{}: the content is none of GraphML, GML, BRITE, a Rocketfuel map and GT-ITM; a list of links with weights must end in .intra",
            path.display()
        )),
    }
}

/// Largest component of a topology, with its domains if all are known.
pub fn largest_component(topology: Topology, domains: &[Domain]) -> (Topology, Vec<Domain>) {
    let nodes = topology.largest_component();
    let domains = nodes.iter().filter_map(|node| domains.get(node.index()).copied()).collect();
    (topology.part(&nodes), domains)
}

/// Reads the file of a scenario's network if it has routers only; `None` for other topologies.
pub fn routers(table: &Table, inputs: &Inputs) -> Result<Option<(Arc<Topology>, Summary)>, ScenarioError> {
    let file = crate::scenario::routers("topology", table, inputs)?;
    Ok(file.map(|Imported { topology, findings, .. }| {
        let summary = Summary { findings, ..Summary::new(&topology) };
        (Arc::new(topology), summary)
    }))
}

/// Numbers of a topology, for display.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    nodes: usize,
    links: usize,
    receivers: usize,
    /// Number of nodes of the largest component.
    largest: usize,
    findings: Findings,
}

impl Summary {
    /// Counts nodes, links and receivers.
    pub fn new(topology: &Topology) -> Self {
        Summary {
            nodes: topology.nodes(),
            links: topology.links().len(),
            receivers: topology.receivers.len(),
            largest: topology.largest_component().len(),
            findings: Findings::default(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { nodes, links, receivers, largest, findings } = *self;
        writeln!(f, "{nodes} nodes, {links} links, {receivers} receivers")?;
        if largest < nodes {
            writeln!(
                f,
                "not connected: {largest} nodes are in the largest component (component = \"largest\" leaves the others out)"
            )?;
        }
        for (number, what) in [
            (findings.self_loops, "edges from a node to itself, left out"),
            (findings.joined, "edges joined with the edge of the other direction"),
            (
                findings.asymmetric,
                "of these with another delay in the other direction, where the first one applies",
            ),
            (findings.default_delays, "links with the default delay (link_delay)"),
        ] {
            if number > 0 {
                writeln!(f, "{number} {what}")?;
            }
        }
        Ok(())
    }
}
