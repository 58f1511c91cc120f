//! A run as metrics see it.

use carillon_core::{NodeId, Time};

use super::node_value::NodeValue;
use super::recorder::{MessageRecord, Totals, expected_deliveries};
use super::recovery::UnicastTime;
use super::state::NodeRole;
use crate::scenario::Scenario;

/// A run as metrics see it: what its trace told, and the terms of its scenario.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) messages: &'a [MessageRecord],
    pub(super) totals: Totals,
    /// Latencies of repairs, each with what unicast takes there.
    pub(super) repairs: Vec<(f64, UnicastTime)>,
}

impl Run<'_> {
    pub(super) fn of_messages(&self, metric: impl Fn(&Self, &MessageRecord) -> f64) -> Vec<f64> {
        self.messages.iter().map(|message| metric(self, message)).collect()
    }

    pub(super) fn of_repairs(&self, metric: impl Fn(f64, UnicastTime) -> f64) -> Vec<f64> {
        self.repairs.iter().map(|&(latency, unicast)| metric(latency, unicast)).collect()
    }

    /// Receiver of each repair.
    pub(super) fn receivers_of_repairs(&self) -> Vec<NodeId> {
        self.totals.recoveries.repaired.iter().map(|(node, ..)| *node).collect()
    }

    /// Nodes of a role. A peer that sends and receives has both roles.
    fn nodes_in(&self, role: NodeRole) -> Vec<NodeId> {
        match role {
            NodeRole::Source => self.scenario.sending(),
            NodeRole::Helper => self.scenario.only_helping().collect(),
            NodeRole::Receiver => self.scenario.receiving(),
            NodeRole::Router => self.scenario.relays(),
        }
    }

    /// Packets received by each node of a role, for each message.
    pub(super) fn interrupts(&self, role: NodeRole) -> Vec<NodeValue> {
        self.totals.nodes.received(&self.nodes_in(role), self.messages_offered())
    }

    /// Packets handled by each node of a role, for each message.
    pub(super) fn packets_handled(&self, role: NodeRole) -> Vec<NodeValue> {
        self.totals.nodes.all_packets(&self.nodes_in(role), self.messages_offered())
    }

    /// Mean number of stored messages of each node of a role.
    pub(super) fn mean_held(&self, role: NodeRole) -> Vec<NodeValue> {
        self.totals.nodes.mean_held(&self.nodes_in(role))
    }

    /// Throughput of each receiver in bit/s.
    pub(super) fn receiver_throughputs(&self) -> Vec<NodeValue> {
        let start = Time::ZERO + self.scenario.workload.start;
        let rates = self.totals.receivers.rates(start).into_iter();
        rates.map(|(node, rate)| (node, rate * self.message_bits())).collect()
    }

    /// Throughput in bit/s of the slowest receiver of the session, and of a competing flow, over the same time.
    pub(super) fn shares(&self) -> Option<[NodeValue; 2]> {
        let start = Time::ZERO + self.scenario.workload.start;
        let (packets, seconds) = self.totals.traffic.competing(start);
        let least = self.totals.receivers.deliveries().map(|(_, deliveries)| deliveries).min()?;
        let rate = |packets: f64| packets * self.message_bits() / seconds;
        let source = self.scenario.sender();
        (seconds > 0.0).then(|| [(source, rate(least as f64)), (source, rate(packets))])
    }

    /// Share of the session in the throughput of both flows.
    pub(super) fn session_share(&self) -> Option<f64> {
        let [(_, own), (_, other)] = self.shares()?;
        (own + other > 0.0).then(|| own / (own + other))
    }

    /// Share of the messages of other senders that each receiver has not delivered.
    pub(super) fn receiver_undelivered_shares(&self) -> Vec<NodeValue> {
        let (messages, senders) = (self.scenario.workload.messages, u64::from(self.scenario.senders));
        let share = |(node, delivered): (NodeId, u64)| {
            let own = u64::from(self.scenario.is_sending(node));
            (node, 1.0 - delivered as f64 / (messages * (senders - own)) as f64)
        };
        self.totals.receivers.deliveries().map(share).collect()
    }

    /// A count for each receiver and message offered.
    pub(super) fn per_delivery(&self, count: u64) -> Vec<f64> {
        vec![count as f64 / expected_deliveries(self.scenario) as f64]
    }

    pub(super) fn is_star(&self) -> bool {
        self.scenario.network.graph().is_some_and(|graph| graph.is_star)
    }

    pub(super) fn messages_offered(&self) -> f64 {
        self.scenario.workload.messages as f64 * f64::from(self.scenario.senders)
    }

    pub(super) fn receivers(&self) -> f64 {
        f64::from(self.scenario.receivers)
    }

    pub(super) fn message_bits(&self) -> f64 {
        f64::from(self.scenario.workload.message_bytes) * 8.0
    }
}

/// A count for each loss; nothing where nothing was lost.
pub(super) fn per_loss(run: &Run<'_>, count: u64) -> Vec<f64> {
    match run.totals.recoveries.losses {
        0 => Vec::new(),
        losses => vec![count as f64 / losses as f64],
    }
}
