//! Packets and stored messages of each node.

use carillon_core::{Handling, NodeId, Time};

use super::node_value::NodeValue;
use crate::scenario::Scenario;

/// Packets that each node handles, and the messages that it stores over time. The memory grows with the number of
/// nodes only.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    /// Tallies by node; empty if the scenario does not measure nodes.
    tallies: Vec<Tally>,
    /// True once a packet was reported: a testbed reports none.
    has_packets: bool,
    /// Time of the last report.
    end: Time,
}

/// Numbers of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sent: u64,
    received: u64,
    diverted: u64,
    /// Stored messages now; `None` if the node does not report them.
    held: Option<u64>,
    /// Time of the last change of `held`.
    since: Time,
    /// Integral of `held` until `since`, in messages x nanoseconds.
    area: u128,
}

impl Nodes {
    /// Creates empty tallies.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let nodes = match scenario.measurements.nodes {
            true => scenario.network.graph().map_or(scenario.stations(), |graph| graph.topology.nodes()),
            false => 0,
        };
        Nodes { tallies: vec![Tally::default(); nodes], ..Nodes::default() }
    }

    /// Returns true if the scenario measures nodes.
    pub(super) fn are_measured(&self) -> bool {
        !self.tallies.is_empty()
    }

    /// Counts a packet.
    pub(super) fn handled(&mut self, now: Time, node: NodeId, handling: Handling) {
        let Some(tally) = self.tallies.get_mut(node.index()) else { return };
        match handling {
            Handling::Sent => tally.sent += 1,
            Handling::Received => tally.received += 1,
            Handling::Diverted => tally.diverted += 1,
        }
        (self.has_packets, self.end) = (true, now);
    }

    /// Records the number of messages that a node stores.
    pub(super) fn held(&mut self, now: Time, node: NodeId, messages: u64) {
        let Some(tally) = self.tallies.get_mut(node.index()) else { return };
        tally.area = tally.area_at(now);
        (tally.held, tally.since) = (Some(messages), now);
        self.end = now;
    }

    /// Packets received by each of these nodes, for each of `messages`.
    pub(super) fn received(&self, nodes: &[NodeId], messages: f64) -> Vec<NodeValue> {
        self.packets(nodes, |tally| tally.received, messages)
    }

    /// Packets sent, received and diverted by each of these nodes, for each of `messages`.
    pub(super) fn all_packets(&self, nodes: &[NodeId], messages: f64) -> Vec<NodeValue> {
        self.packets(nodes, |tally| tally.sent + tally.received + tally.diverted, messages)
    }

    /// Packets that all nodes handle, for each of `messages`.
    pub(super) fn total(&self, messages: f64) -> Option<f64> {
        let packets = self.tallies.iter().map(|tally| tally.sent + tally.received + tally.diverted);
        self.has_packets.then(|| packets.sum::<u64>() as f64 / messages)
    }

    fn packets(&self, nodes: &[NodeId], count: impl Fn(&Tally) -> u64, messages: f64) -> Vec<NodeValue> {
        if !self.has_packets {
            return Vec::new();
        }
        let value = |&node: &NodeId| Some((node, count(self.tallies.get(node.index())?) as f64 / messages));
        nodes.iter().filter_map(value).collect()
    }

    /// Mean over time of the messages that each of these nodes stores, of the nodes that report it.
    pub(super) fn mean_held(&self, nodes: &[NodeId]) -> Vec<NodeValue> {
        let span = self.end.as_nanos() as f64;
        let value = |&node: &NodeId| {
            let tally = self.tallies.get(node.index()).filter(|tally| tally.held.is_some())?;
            (span > 0.0).then(|| (node, tally.area_at(self.end) as f64 / span))
        };
        nodes.iter().filter_map(value).collect()
    }
}

impl Tally {
    fn area_at(&self, now: Time) -> u128 {
        let span = u128::from(now.as_nanos() - self.since.as_nanos());
        self.area + u128::from(self.held.unwrap_or(0)) * span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 messages for 1 s, 0 for 2 s, 2 for 1 s: 6/4 on average.
    #[test]
    fn mean_of_stored_messages_is_weighted_by_time() {
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let mut nodes = Nodes { tallies: vec![Tally::default(); 3], ..Nodes::default() };
        for (time, messages) in [(0, 4), (1, 0), (3, 2)] {
            nodes.held(at(time), NodeId(1), messages);
        }
        nodes.handled(at(4), NodeId(0), Handling::Sent);
        let all = [NodeId(0), NodeId(1), NodeId(2)];
        assert_eq!(nodes.mean_held(&all), [(NodeId(1), 1.5)], "others report nothing");
        assert_eq!(nodes.all_packets(&all[..2], 2.0), [(NodeId(0), 0.5), (NodeId(1), 0.0)]);
        assert_eq!(Nodes::default().all_packets(&all, 1.0), [], "a testbed reports no packets");
    }
}
