//! Network of a recording: nodes with their roles, and links.

use std::collections::BTreeMap;

use carillon_core::NodeId;
use serde::Serialize;

use crate::scenario::{RoutedNetwork, Scenario, ScenarioNetwork};

/// Network of a recording.
#[derive(Clone, Debug, Serialize)]
pub struct RecordedNetwork {
    kind: NetworkKind,
    /// Bit rate of a shared medium.
    bit_rate: Option<f64>,
    nodes: Vec<RecordedNode>,
    links: Vec<RecordedLink>,
    /// Number of each link and direction by its ends.
    #[serde(skip)]
    numbers: BTreeMap<(u32, u32), i32>,
}

/// Kind of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    /// Shared Ethernet.
    Lan,
    /// Star of hosts.
    Star,
    /// Routers and hosts joined by links.
    Graph,
    /// Unknown network of a real session.
    Real,
}

/// Node of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedNode {
    /// Number of the node.
    pub id: u32,
    /// Role of the node.
    pub role: NodeRole,
    /// Name or address, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Role of a node in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// Offers messages.
    Source,
    /// Delivers messages.
    Receiver,
    /// Forwards packets.
    Router,
    /// Repairs losses of its children.
    Helper,
    /// Unknown.
    Node,
}

/// Link between two nodes, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RecordedLink {
    /// First end.
    pub a: u32,
    /// Second end.
    pub b: u32,
    /// Rate in bit/s, if known.
    pub rate: Option<f64>,
    /// Propagation delay in nanoseconds, if known.
    pub latency_ns: Option<u64>,
}

impl RecordedNetwork {
    /// Network of these nodes and links.
    pub fn new(kind: NetworkKind, nodes: Vec<RecordedNode>, links: Vec<RecordedLink>) -> Self {
        let mut numbers = BTreeMap::new();
        // Of parallel links the first one stands for all, since events name the ends only.
        for (number, link) in (0_i32..).zip(&links) {
            numbers.entry((link.a, link.b)).or_insert(2 * number);
            numbers.entry((link.b, link.a)).or_insert(2 * number + 1);
        }
        RecordedNetwork { kind, bit_rate: None, nodes, links, numbers }
    }

    /// Network of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        match &scenario.network {
            ScenarioNetwork::Lan(lan) => {
                let nodes = nodes(scenario, scenario.stations());
                let network = RecordedNetwork::new(NetworkKind::Lan, nodes, Vec::new());
                RecordedNetwork { bit_rate: Some(lan.bit_rate.bps() as f64), ..network }
            }
            ScenarioNetwork::Graph(graph) => {
                let kind = if graph.is_star { NetworkKind::Star } else { NetworkKind::Graph };
                RecordedNetwork::new(kind, nodes(scenario, graph.topology.nodes()), links(graph))
            }
        }
    }

    /// Kind of the network.
    pub fn kind(&self) -> NetworkKind {
        self.kind
    }

    /// Bit rate of the shared medium, if the network is one.
    pub fn bit_rate(&self) -> Option<f64> {
        self.bit_rate
    }

    /// Nodes of the network.
    pub fn nodes(&self) -> &[RecordedNode] {
        &self.nodes
    }

    /// Links of the network.
    pub fn links(&self) -> &[RecordedLink] {
        &self.links
    }

    /// Number of a link and its direction: twice the index of the link, and 1 more from `b` to `a`; -1 if the network
    /// has no such link.
    pub fn link(&self, from: u32, to: u32) -> i32 {
        self.numbers.get(&(from, to)).copied().unwrap_or(-1)
    }
}

/// The nodes of a scenario with their roles.
fn nodes(scenario: &Scenario, count: usize) -> Vec<RecordedNode> {
    let everything_else = if scenario.network.graph().is_some() { NodeRole::Router } else { NodeRole::Node };
    let mut roles = vec![everything_else; count];
    let mut assign = |nodes: &[NodeId], role| nodes.iter().for_each(|node| roles[node.index()] = role);
    assign(&scenario.members(), NodeRole::Receiver);
    let helpers: Vec<NodeId> = scenario.helpers.helpers().iter().map(|helper| helper.node).collect();
    assign(&helpers, NodeRole::Helper);
    assign(&scenario.sending(), NodeRole::Source);
    (0..).zip(roles).map(|(id, role)| RecordedNode { id, role, name: None }).collect()
}

fn links(graph: &RoutedNetwork) -> Vec<RecordedLink> {
    let links = graph.topology.links().iter().map(|link| RecordedLink {
        a: link.ends[0].0,
        b: link.ends[1].0,
        rate: Some(link.rate.unwrap_or(graph.config.rate).bps() as f64),
        latency_ns: Some(u64::try_from(link.delay.as_nanos()).unwrap_or(u64::MAX)),
    });
    links.collect()
}
