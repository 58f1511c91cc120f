//! Resolved scenario, with every value known.

use std::sync::Arc;
use std::time::Duration;

use carillon_core::{Config, DataSize, HelperTable, NodeId, ProtocolEntry, Role};
use carillon_sim::HostConfig;
use serde::Serialize;

use super::network::{PlacedLoss, RoutedNetwork, ScenarioNetwork};

/// Scenario with every value known.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The network.
    pub network: ScenarioNetwork,
    /// Processing costs and drops of hosts, if any.
    pub hosts: Option<HostConfig>,
    /// Losses beside the ones that links, the medium of a LAN and hosts draw themselves.
    pub losses: Arc<[PlacedLoss]>,
    /// Receivers of each message. The group has one node more.
    pub receivers: u32,
    /// Nodes that offer messages: the first ones. More than one among peers only.
    pub senders: u32,
    /// Table of helpers: the parent of each node; empty without helpers.
    pub helpers: Arc<HelperTable>,
    /// The helper that dies, if one does.
    pub death: Option<Death>,
    /// The protocol.
    pub protocol: &'static ProtocolEntry,
    /// Its settings.
    pub config: Config,
    /// Offered messages.
    pub workload: Workload,
    /// Slow applications of receivers, if there are any.
    pub reader: Option<Reader>,
    /// Competing traffic on the links of the source and the receivers, if there is any.
    pub competitor: Option<Competitor>,
    /// Simulated time at which an unfinished run ends.
    pub time_limit: Duration,
    /// Steps of the simulation after which it is.
    pub step_limit: u64,
    /// Datagrams that one machine may send in one event.
    pub emission_limit: u64,
    /// Maximum resident memory of the process; a run that exceeds it is an error. Without one the free memory at the
    /// start of the run decides.
    pub memory_limit: Option<DataSize>,
    /// True if a run that is unfinished at its limit keeps its metrics, and a run that cannot start has none;
    /// otherwise both are errors.
    pub keeps_unfinished: bool,
    /// Among peers, how long they have to deliver everything after the last sender has finished.
    pub linger: Duration,
    /// Measurements beyond the usual ones.
    pub measurements: Measurements,
}

/// Measurements that a scenario asks for (`run.measure`): their cost grows with the number of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measurements {
    /// Metrics of each receiver, and receivers as names of samples.
    pub receivers: bool,
    /// Packets and stored messages of each node.
    pub nodes: bool,
    /// Time that packets wait in the queue of the source.
    pub queues: bool,
}

/// Competing traffic: a flow from the node of the source that ends only with the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Competitor {
    /// Kind of the flow.
    pub kind: Competition,
    /// Time at which it starts.
    pub start: Duration,
}

/// Kind of competing traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Competition {
    /// TCP CUBIC to the first receiver.
    Cubic,
    /// Second session of the same protocol and settings to the same receivers.
    Session,
}

/// The death of a helper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Death {
    /// Helper that dies, or router that stops helping.
    pub node: NodeId,
    /// Time of the death.
    pub at: Duration,
    /// Time at which the endpoints are notified, if they are.
    pub told: Option<Duration>,
}

impl Scenario {
    /// Returns true if all members are senders and receivers at once.
    pub fn is_among_peers(&self) -> bool {
        self.has_many_sources() || self.protocol.roles.contains(&Role::Peer)
    }

    /// Returns true if several sources use a protocol with one sender.
    pub fn has_many_sources(&self) -> bool {
        self.senders > 1 && self.protocol.session.many_sources.is_some()
    }

    /// The node that sends; among peers the first one.
    pub fn sender(&self) -> NodeId {
        self.network.graph().map_or(NodeId(0), RoutedNetwork::source)
    }

    /// The members of the group: the receivers, or all peers with the sender first.
    pub fn members(&self) -> Arc<[NodeId]> {
        let first = self.is_among_peers().then(|| self.sender());
        first.into_iter().chain(self.network.receivers(self.receivers)).collect()
    }

    /// The nodes that help and do not deliver.
    pub fn only_helping(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.helpers.helpers().iter().filter(|helper| !helper.delivers).map(|helper| helper.node)
    }

    /// Returns true if a node helps and does not deliver.
    pub fn only_helps(&self, node: NodeId) -> bool {
        self.helpers.helper(node).is_some_and(|helper| !helper.delivers)
    }

    /// The role of the machine at a node.
    pub fn role_of(&self, node: NodeId) -> Role {
        match () {
            _ if self.only_helps(node) => Role::Helper,
            _ if self.is_among_peers() && self.members().contains(&node) => Role::Peer,
            _ if node == self.sender() => Role::Sender,
            _ if self.members().contains(&node) => Role::Receiver,
            _ => Role::Relay,
        }
    }

    /// Returns true if the calls of applications take time of their hosts.
    pub fn calls_take_time(&self) -> bool {
        self.hosts.is_some_and(|hosts| !hosts.call.is_zero() || !hosts.read.is_zero())
    }

    /// Number of hosts: the sender, the receivers, and nodes that only help.
    pub fn stations(&self) -> usize {
        self.receivers as usize + 1 + self.only_helping().count()
    }

    /// The nodes that expect deliveries, in ascending order: all members, except for the only sender among peers.
    pub fn receiving(&self) -> Vec<NodeId> {
        let alone = (self.is_among_peers() && self.senders == 1).then(|| self.sender());
        let mut nodes: Vec<NodeId> =
            self.members().iter().copied().filter(|&node| Some(node) != alone).collect();
        nodes.sort_unstable();
        nodes
    }

    /// The routers at which relays of the protocol stand, in ascending order.
    pub fn relays(&self) -> Vec<NodeId> {
        let Some(graph) = self.network.graph().filter(|_| self.protocol.roles.contains(&Role::Relay)) else {
            return Vec::new();
        };
        let mut is_host = vec![false; graph.topology.nodes()];
        let members = self.members();
        let hosts = members.iter().copied().chain([self.sender()]).chain(self.only_helping());
        hosts.for_each(|node| is_host[node.index()] = true);
        (0..).map(NodeId).zip(is_host).filter(|(_, is_host)| !is_host).map(|(node, _)| node).collect()
    }

    /// Returns true if there are parents and children: a star, or a tree of helpers on a routed network.
    pub fn has_parents(&self) -> bool {
        let helped = !self.helpers.helpers().is_empty();
        self.network.graph().is_some_and(|graph| graph.is_star || helped)
    }

    /// Returns true if a node offers messages; among peers the first members do.
    pub fn is_sending(&self, node: NodeId) -> bool {
        if !self.is_among_peers() || node == self.sender() {
            return node == self.sender();
        }
        let others = self.senders as usize - 1;
        match &self.network {
            ScenarioNetwork::Lan(_) => (node.0 as usize) <= others,
            ScenarioNetwork::Graph(graph) => graph.topology.receivers[..others].contains(&node),
        }
    }

    /// The nodes that offer messages.
    pub fn sending(&self) -> Vec<NodeId> {
        match self.is_among_peers() {
            true => self.members().iter().copied().take(self.senders as usize).collect(),
            false => vec![self.sender()],
        }
    }
}

/// Messages offered by each sender's application.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Messages.
    pub messages: u64,
    /// Bytes of the frame that carries a message, all headers included.
    pub message_bytes: u32,
    /// True if the stated size is the payload: longer headers then enlarge the frame.
    #[serde(skip)]
    pub by_payload: bool,
    /// Total size of all messages in bytes, if stated: the last message has the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Time between two messages; zero is as fast as they are taken.
    pub interval: Duration,
    /// Number of messages that are ready at once, at this mean interval.
    #[serde(skip_serializing_if = "is_steady")]
    pub burst: u32,
    /// Time of the first offer.
    pub start: Duration,
}

fn is_steady(burst: &u32) -> bool {
    *burst == 1
}

/// Applications that read delivered messages slowly.
#[derive(Clone, Debug, PartialEq)]
pub struct Reader {
    /// Number of messages that an application reads at once.
    pub burst: u32,
    /// Minimum time from one burst to the next.
    pub pause: Duration,
    /// Time of the first read.
    pub start: Duration,
    /// Receivers with such an application, in ascending order; the others read at once.
    pub nodes: Arc<[NodeId]>,
}

impl Workload {
    /// Payload of the last message in bytes, if each other message has `payload` bytes.
    pub fn last_payload(&self, payload: u32) -> usize {
        let each = u64::from(payload);
        let before = each * self.messages.saturating_sub(1);
        let left = self.total_bytes.map_or(each, |total| total.saturating_sub(before).min(each));
        left as usize
    }

    /// Total payload of all messages in bytes, if each but the last has `payload` bytes.
    pub fn user_bytes(&self, payload: u32) -> u64 {
        u64::from(payload) * self.messages.saturating_sub(1) + self.last_payload(payload) as u64
    }
}
