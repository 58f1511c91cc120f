//! Topologies between files and Python.

use std::path::PathBuf;
use std::time::Duration;

use carillon_core::{BitRate, NodeId, Probability};
use carillon_lab::inputs;
use carillon_lab::topologies;
use carillon_sim::graph::{Link, Topology};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::scenario_error;

/// Link: both ends, delay in nanoseconds, rate in bit/s, queue in packets, probability of loss.
type PlainLink = (u32, u32, u64, Option<u64>, Option<u32>, Option<f64>);

/// Topology: number of nodes, links, sources, receivers, names.
type PlainTopology = (usize, Vec<PlainLink>, Vec<u32>, Vec<u32>, Vec<String>);

/// Maximum number of nodes, so that a wrong number cannot exhaust the memory.
const MAX_NODES: usize = 10_000_000;

/// Reads a shipped topology or a file in `folder`, in any supported format. Links without a delay and without positions
/// have `default_delay`, in nanoseconds.
#[pyfunction]
pub fn read_topology(name: &str, folder: PathBuf, default_delay: u64) -> PyResult<PlainTopology> {
    let inputs = inputs::in_folder(folder, Default::default());
    let read =
        topologies::open(name, &inputs, Duration::from_nanos(default_delay)).map_err(scenario_error)?;
    let topology = read.topology;
    let numbers = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
    let links = topology.links().iter().map(|link| {
        let delay = u64::try_from(link.delay.as_nanos()).unwrap_or(u64::MAX);
        let (rate, loss) = (link.rate.map(|rate| rate.bps()), link.loss.map(|p| p.value()));
        (link.ends[0].0, link.ends[1].0, delay, rate, link.queue, loss)
    });
    let (sources, receivers) = (numbers(&topology.sources), numbers(&topology.receivers));
    Ok((topology.nodes(), links.collect(), sources, receivers, topology.names.clone()))
}

/// Returns the texts of the edges file and of the roles file of a topology.
#[pyfunction]
pub fn topology_files(topology: PlainTopology) -> PyResult<(String, String)> {
    let (nodes, links, sources, receivers, names) = topology;
    let bad = |what: String| PyValueError::new_err(what);
    if nodes > MAX_NODES {
        return Err(bad(format!("{nodes} nodes: {MAX_NODES} are the maximum")));
    }
    let known = |node: u32| match (node as usize) < nodes {
        true => Ok(NodeId(node)),
        false => Err(bad(format!("node {node}: the topology has nodes 0 to {}", nodes.saturating_sub(1)))),
    };
    let mut topology = Topology::new(nodes);
    let mut degrees = vec![0_u32; nodes];
    for (a, b, delay, rate, queue, loss) in links {
        let ends = [known(a)?, known(b)?];
        if a == b {
            return Err(bad(format!("a link from node {a} to itself")));
        }
        for end in ends {
            degrees[end.index()] += 1;
            if degrees[end.index()] > u32::from(u16::MAX) {
                return Err(bad(format!("node {} has more than {} links", end.0, u16::MAX)));
            }
        }
        let rate = match rate {
            None => None,
            Some(bps) => Some(BitRate::new(bps).ok_or_else(|| bad(format!("a rate of {bps} bit/s")))?),
        };
        let loss = match loss {
            None => None,
            Some(p) => Some(Probability::new(p).ok_or_else(|| bad(format!("a loss of {p}: give 0 to 1")))?),
        };
        topology.add_link(Link { rate, queue, loss, ..Link::new(ends, Duration::from_nanos(delay)) });
    }
    topology.sources = sources.into_iter().map(known).collect::<PyResult<_>>()?;
    topology.receivers = receivers.into_iter().map(known).collect::<PyResult<_>>()?;
    topology.receivers.sort_unstable();
    topology.names = names;
    Ok((topology.edges(), topology.roles()))
}
