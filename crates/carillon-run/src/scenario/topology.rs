//! The topology a scenario names: a file, one that is shipped, or one made by rule.

use std::sync::Arc;
use std::time::Duration;

use carillon_core::{NodeId, Seeds};
use carillon_sim::graph::Topology;
use carillon_sim::graph::generate::{
    self, Domain, EdgeModel, TransitStub, binary_tree, flat_random, level_tree,
};
use carillon_sim::graph::import::Imported;
use toml::Table;

use super::document::{self, Component, Network};
use super::error::ScenarioError;
use super::generators::{GENERATORS, refuse_foreign_keys};
use super::inputs::Inputs;
use super::network::OwnLink;
use super::{regions, sweep};
use crate::topologies::files;

/// Key and description of an error.
type Problem = (&'static str, String);

/// A topology, its domains where they are known, and what its links have of their own.
#[derive(Debug)]
pub(super) struct Named {
    pub topology: Topology,
    pub domains: Arc<[Domain]>,
    pub own: Arc<[OwnLink]>,
}

/// Builds the topology of a network for `receivers` receivers, or for as many as it has. `inputs` has the files that
/// the scenario names, `table` is the whole document.
pub(super) fn topology(
    network: &Network,
    receivers: Option<u32>,
    inputs: &Inputs,
    table: &Table,
) -> Result<Named, Problem> {
    let name = network.topology.as_deref().ok_or_else(|| {
        let what = format!(
            "is missing: name a file such as \"x.edges\", one that is shipped (`carillon topology --list`), or one of {}",
            GENERATORS.join(", ")
        );
        ("network.topology", what)
    })?;
    let link_delay = network.link_delay.map_or(DEFAULT_LINK_DELAY, |span| span.at(network.rate()));
    let file = match GENERATORS.contains(&name) {
        true => None,
        false => Some(
            files::open(name, inputs, link_delay).map_err(|error| ("network.topology", error.to_string()))?,
        ),
    };
    let without_hosts = file.as_ref().is_some_and(|file| file.topology.has_no_hosts());
    refuse_foreign_keys(name, table, without_hosts)?;
    let seeds = Seeds::new(network.topology_seed.unwrap_or(1));
    let mut rng = seeds.stream("topology");
    let random = |model| {
        let side = network.plane.map_or(50.0, |span| span.at(network.rate()).as_secs_f64() * 1e3);
        let routers = network.routers.unwrap_or(100).clamp(1, 10_000) as usize;
        move |rng: &mut carillon_core::Rng| flat_random(routers, side, model, rng)
    };
    let sparse = |error: generate::TooSparse| ("network.edge_probability", error.to_string());
    let mut domains: Arc<[Domain]> = [].into();
    let mut own: Arc<[OwnLink]> = [].into();
    let mut topology = match name {
        "binary-tree" => {
            let height = network.height.unwrap_or(3);
            if !(1..=20).contains(&height) {
                return Err(("network.height", format!("is {height}: give 1 to 20")));
            }
            binary_tree(height, link_delay)
        }
        "tree" if let Some(regions) = &network.regions => {
            if let Some(key) =
                ["network.fanout", "network.link_delay"].into_iter().find(|key| sweep::has(table, key))
            {
                return Err((key, "is said by network.regions".into()));
            }
            let (topology, links) = regions::tree(network, regions, receivers)?;
            own = links;
            topology
        }
        "tree" => level_tree(&fanout(network)?, link_delay),
        "random" => {
            let model = EdgeModel::Pure(network.edge_probability.map_or(0.1, |p| p.value()));
            random(model)(&mut rng).map_err(sparse)?
        }
        "waxman" => {
            let (alpha, beta) = (network.alpha.unwrap_or(0.9), network.beta.unwrap_or(0.3));
            random(EdgeModel::Waxman { alpha, beta })(&mut rng).map_err(sparse)?
        }
        "transit-stub" => {
            let (topology, kinds) = TransitStub::default().generate(&mut rng).map_err(sparse)?;
            domains = kinds.into();
            topology
        }
        _ => {
            let Imported { topology, domains: kinds, .. } = file.unwrap_or_default();
            let (topology, kinds) = match network.component {
                Component::All => (topology, kinds),
                Component::Largest => files::largest_component(topology, &kinds),
            };
            domains = kinds.into();
            topology
        }
    };
    if topology.has_no_hosts() {
        place_hosts(network, name, receivers, &domains, &seeds, &mut topology)?;
    }
    check(name, receivers, &topology)?;
    Ok(Named { topology, domains, own })
}

/// Number of children on each level of a tree.
fn fanout(network: &Network) -> Result<Vec<u32>, Problem> {
    let fanout: Vec<u32> = match &network.fanout {
        None => vec![10, 10, 10],
        Some(text) => text.split('x').map(|level| level.trim().parse().unwrap_or(0)).collect(),
    };
    let leaves = fanout.iter().try_fold(1_u64, |all, &next| all.checked_mul(next.into()));
    if fanout.is_empty()
        || fanout.iter().any(|&next| next == 0 || next > 65_000)
        || leaves.is_none_or(|leaves| leaves > 16_000_000)
    {
        let what = "says the children on each level, such as \"10 x 100\": 1 to 65000 each, 16 million leaves at most";
        return Err(("network.fanout", what.into()));
    }
    Ok(fanout)
}

/// Places the source and the receivers of a topology that has only routers.
fn place_hosts(
    network: &Network,
    name: &str,
    receivers: Option<u32>,
    domains: &[Domain],
    seeds: &Seeds,
    topology: &mut Topology,
) -> Result<(), Problem> {
    let host_delay = network.host_delay.map_or(Duration::from_millis(1), |span| span.at(network.rate()));
    if !topology.is_connected() {
        return Err(("network.topology", not_connected(name, topology)));
    }
    let receivers = receivers.ok_or(("group.receivers", format!("is required for \"{name}\"")))?;
    if !(1..=1_000_000).contains(&receivers) {
        return Err(("group.receivers", format!("is {receivers}: give 1 to 1000000")));
    }
    let everywhere = (0..topology.nodes() as u32).map(NodeId);
    let places: Vec<NodeId> = match domains.is_empty() {
        true => everywhere.collect(),
        // Hosts are in stub domains.
        false => everywhere.filter(|node| domains[node.index()] == Domain::Stub).collect(),
    };
    let placement = seeds.replication(network.placement_seed.unwrap_or(1));
    let mut rng = placement.stream("placement");
    generate::place(topology, &places, receivers as usize, host_delay, &mut rng);
    Ok(())
}

/// Checks that a topology has its hosts and is connected.
fn check(name: &str, receivers: Option<u32>, topology: &Topology) -> Result<(), Problem> {
    if let Some(receivers) = receivers.filter(|&receivers| receivers as usize != topology.receivers.len()) {
        let has = topology.receivers.len();
        let what = format!("is {receivers}, but the topology \"{name}\" has {has}: leave the key out");
        return Err(("group.receivers", what));
    }
    if topology.sources.is_empty() || topology.receivers.is_empty() {
        let what = format!("\"{name}\" has no source or no receiver");
        return Err(("network.topology", what));
    }
    if topology.receivers.contains(&topology.sources[0]) {
        return Err(("network.topology", format!("\"{name}\": its source is a receiver too")));
    }
    if !topology.is_connected() {
        return Err(("network.topology", not_connected(name, topology)));
    }
    Ok(())
}

/// Opens the file of a network, if it has no hosts, and keeps the components that the network names. It does not have
/// to be connected.
pub(crate) fn routers(
    origin: &str,
    table: &Table,
    inputs: &Inputs,
) -> Result<Option<Imported>, ScenarioError> {
    let network = document::typed(origin, table)?.network;
    let Some(name) = network.topology.as_deref().filter(|name| !GENERATORS.contains(name)) else {
        return Ok(None);
    };
    let delay = network.link_delay.map_or(DEFAULT_LINK_DELAY, |span| span.at(network.rate()));
    let of_key = |what: String| ScenarioError::new(origin, what);
    let Imported { topology, domains, findings } =
        files::open(name, inputs, delay).map_err(|error| of_key(error.to_string()))?;
    if !topology.has_no_hosts() {
        return Ok(None);
    }
    let mut keys = table["network"].as_table().into_iter().flatten().map(|(key, _)| key.as_str());
    if let Some(key) = keys.find(|key| !ROUTER_KEYS.contains(key)) {
        return Err(of_key(format!("`network.{key}` needs hosts: give --receivers N")));
    }
    let (topology, domains) = match network.component {
        Component::All => (topology, domains),
        Component::Largest => files::largest_component(topology, &domains),
    };
    Ok(Some(Imported { topology, domains, findings }))
}

/// Keys of a network of routers without hosts.
const ROUTER_KEYS: &[&str] = &["kind", "topology", "link_delay", "component"];

/// Error of a topology with several components.
fn not_connected(name: &str, topology: &Topology) -> String {
    let largest = topology.largest_component().len();
    let nodes = topology.nodes();
    let remedy = match topology.has_no_hosts() {
        true => "; component = \"largest\" leaves the others out",
        false => "",
    };
    format!("\"{name}\" is not connected: {largest} of its {nodes} nodes reach each other{remedy}")
}

/// Default delay of links without a delay of their own.
pub(crate) const DEFAULT_LINK_DELAY: Duration = Duration::from_millis(10);
