//! The world of a scenario: its network, with a machine and an application at each node.

use carillon_core::{NodeId, Observer, Role, Seeds};
use carillon_sim::graph::{Graph, PartId, Partition};
use carillon_sim::{Crashed, Hosts, LossyInterfaces, Network, World};

use super::competitor::accompany;
use super::error::RunError;
use super::node::{Numbering, build, build_node, context, payload_bytes};
use super::settled::SettledCount;
use crate::drops;
use crate::scenario::{LossPlace, PlacedLoss, RoutedNetwork, Scenario, ScenarioNetwork};

/// A world on any kind of network.
pub type SimulatedWorld<O> = World<Box<dyn Network>, O>;

/// Builds the network of a scenario with a machine and an application at each node.
///
/// On a LAN the sender is node 0, the receivers are 1 to r, and nodes that only help follow. On a graph the topology
/// places the sender and receivers, the scenario's table places helpers, and all other nodes are routers. Among peers
/// the sender and the receivers are the members, and the first members send.
pub fn build_world<O: Observer>(
    scenario: &Scenario,
    seeds: &Seeds,
    observer: O,
) -> Result<SimulatedWorld<O>, RunError> {
    build_counted(scenario, seeds, observer, &SettledCount::default())
}

/// Builds the network as [`build_world`] does, and counts delivered and abandoned messages.
pub(super) fn build_counted<O: Observer>(
    scenario: &Scenario,
    seeds: &Seeds,
    observer: O,
    settled: &SettledCount,
) -> Result<SimulatedWorld<O>, RunError> {
    let (network, nodes): (Box<dyn Network>, usize) = match &scenario.network {
        ScenarioNetwork::Lan(lan) => {
            let nodes = scenario.stations();
            (lan.clone().medium(nodes, seeds), nodes)
        }
        ScenarioNetwork::Graph(graph) => {
            let network = Graph::new(graph.topology.clone(), graph.config, seeds);
            (Box::new(routed(network, scenario, graph)), graph.topology.nodes())
        }
    };
    let network = with_lossy_interfaces(network, scenario, seeds);
    let network = match scenario.hosts {
        Some(hosts) => Box::new(Hosts::new(network, hosts, nodes, seeds)),
        None => network,
    };
    let world = World::new(network, observer).with_helpers(scenario.helpers.clone());
    let nodes: Vec<NodeId> = (0..nodes as u32).map(NodeId).collect();
    with_nodes(world, scenario, seeds, settled, &nodes)
}

/// Builds one part of a routed network.
pub(super) fn build_part<O: Observer>(
    scenario: &Scenario,
    graph: &RoutedNetwork,
    seeds: &Seeds,
    observer: O,
    settled: &SettledCount,
    (partition, part): (&Partition, PartId),
) -> Result<SimulatedWorld<O>, RunError> {
    let network = Graph::part(graph.topology.clone(), graph.config, seeds, partition, part);
    let network = with_lossy_interfaces(Box::new(routed(network, scenario, graph)), scenario, seeds);
    let world = World::new(network, observer).with_part(partition, part);
    with_nodes(world, scenario, seeds, settled, partition.nodes_of(part))
}

/// Adds a machine and an application at each of these nodes, in ascending order.
fn with_nodes<O: Observer>(
    world: SimulatedWorld<O>,
    scenario: &Scenario,
    seeds: &Seeds,
    settled: &SettledCount,
    nodes: &[NodeId],
) -> Result<SimulatedWorld<O>, RunError> {
    let mut world = world.with_emission_limit(scenario.emission_limit.min(scenario.step_limit));
    let payload = payload_bytes(scenario)?;
    let members = scenario.members();
    let numbering = Numbering::global(scenario, members.clone());
    let mut hosts: Vec<NodeId> =
        members.iter().copied().chain([scenario.sender()]).chain(scenario.only_helping()).collect();
    hosts.sort_unstable();
    for &node in nodes {
        let numbering = Numbering { node, ..numbering.clone() };
        if hosts.binary_search(&node).is_ok() {
            let (machine, application) = build_node(scenario, seeds, payload, node, &numbering, settled)?;
            let context = context(scenario, &seeds.node(node), payload, &numbering);
            world.add_node(accompany(scenario, &context, node, machine)?, application);
        } else if scenario.protocol.roles.contains(&Role::Relay) {
            let numbering = Numbering { members: [].into(), ..numbering };
            let context = context(scenario, &seeds.node(node), payload, &numbering);
            world.add_node(build(scenario, Role::Relay, &context)?, None);
        } else {
            world.add_node(Box::new(Crashed), None);
        }
    }
    Ok(world)
}

/// Adds the losses at the interfaces of nodes, if there are any.
fn with_lossy_interfaces(network: Box<dyn Network>, scenario: &Scenario, seeds: &Seeds) -> Box<dyn Network> {
    if !scenario.losses.iter().any(|loss| matches!(loss.place, LossPlace::Receivers(_))) {
        return network;
    }
    let mut lossy = LossyInterfaces::new(network, seeds);
    for PlacedLoss { section, place } in scenario.losses.iter() {
        if let LossPlace::Receivers(nodes) = place {
            nodes.iter().for_each(|&node| lossy.add_loss(node, section.clone()));
        }
    }
    Box::new(lossy)
}

/// Gives the network of a scenario its members, its relays and its losses.
fn routed(mut graph: Graph, scenario: &Scenario, routed: &RoutedNetwork) -> Graph {
    let members = scenario.members();
    let sender = scenario.protocol.session.sender_hears_group.then(|| scenario.sender());
    let listeners = members.iter().copied().chain(scenario.only_helping()).chain(sender);
    listeners.for_each(|node| graph.join(drops::GROUP, node));
    for (link, ends) in (0_u32..).zip(routed.topology.links().iter().map(|link| link.ends)) {
        if let Some(loss) = routed.loss_of(link) {
            ends.into_iter().for_each(|end| graph.set_loss(link, end, loss));
        }
        if let Some(own) = routed.own.get(link as usize) {
            ends.into_iter().for_each(|end| graph.set_deviation(link, end, own.deviation));
        }
    }
    for PlacedLoss { section, place } in scenario.losses.iter() {
        for (link, from) in routed.directions(place) {
            graph.add_loss(link, from, section.clone());
        }
    }
    if !routed.outages.all.is_empty() {
        graph.set_outages(&routed.outages.all, routed.outages.convergence);
    }
    if let Some(input) = routed.input {
        let helpers = scenario.helpers.helpers().iter().map(|helper| helper.node);
        let parents = helpers.chain([routed.source()]);
        parents.for_each(|parent| graph.set_input(parent, input.interval, input.places));
    }
    if scenario.protocol.roles.contains(&Role::Relay) {
        let nodes = (0..routed.topology.nodes() as u32).map(NodeId);
        let hosts: std::collections::BTreeSet<NodeId> =
            members.iter().copied().chain([scenario.sender()]).chain(scenario.only_helping()).collect();
        nodes.filter(|node| !hosts.contains(node)).for_each(|node| graph.set_relay(node));
    }
    if let Some(losses) = &routed.drops {
        let per_second = 1.0 / scenario.workload.interval.as_secs_f64();
        drops::arm(&mut graph, routed, losses, drops::stride(losses, per_second));
    }
    graph
}
