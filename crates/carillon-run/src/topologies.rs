//! Topologies by name: shipped ones, on which ns-2's agents were measured (`experiments/topologies`), and files in
//! all supported formats.

pub(crate) mod files;

use std::fmt;
use std::sync::Arc;

pub use carillon_sim::graph::Topology;
use carillon_sim::graph::import::{Findings, Imported};
use toml::Table;

use crate::scenario::{Inputs, ScenarioError};
pub use files::{OpenTopologyError, find, largest_component, names, open};

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
