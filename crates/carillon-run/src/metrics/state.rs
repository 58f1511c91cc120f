//! Buffered messages of nodes, bursts, and the longest stall after the death of a helper.

use std::time::Duration;

use carillon_core::{NodeId, Time};

use crate::scenario::Scenario;

/// Role of a node, for the maximum of its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeRole {
    Source,
    /// A node that helps and does not deliver.
    Helper,
    Receiver,
    /// A router with a machine.
    Router,
}

/// The most that any node of a kind kept at once, and the longest wait that ended after a helper died.
#[derive(Clone, Debug, Default)]
pub struct State {
    source: NodeId,
    /// Role by node, of helpers and routers; a node beyond the end is a receiver.
    roles: Vec<NodeRole>,
    most: [Option<u64>; 4],
    death: Option<Time>,
    longest: Duration,
    /// Packets that the node sent last has sent at one instant, and the greatest number of that.
    emitting: (Time, NodeId, u64),
    emitted: u64,
}

impl State {
    /// Creates an empty state.
    pub fn new(scenario: &Scenario) -> Self {
        let mut roles = Vec::new();
        let helpers = scenario.only_helping().map(|node| (node, NodeRole::Helper));
        let routers = scenario.relays().into_iter().map(|node| (node, NodeRole::Router));
        for (node, role) in helpers.chain(routers) {
            if roles.len() <= node.index() {
                roles.resize(node.index() + 1, NodeRole::Receiver);
            }
            roles[node.index()] = role;
        }
        let death = scenario.death.map(|death| Time::ZERO + death.at);
        State { source: scenario.sender(), roles, death, ..State::default() }
    }

    pub(super) fn held(&mut self, node: NodeId, messages: u64) {
        let keeper = match node {
            _ if node == self.source => NodeRole::Source,
            _ => self.roles.get(node.index()).copied().unwrap_or(NodeRole::Receiver),
        };
        let most = &mut self.most[keeper as usize];
        *most = (*most).max(Some(messages));
    }

    /// A node sends a packet.
    pub(super) fn emits(&mut self, now: Time, node: NodeId) {
        let (time, last, count) = self.emitting;
        let count = if (time, last) == (now, node) { count + 1 } else { 1 };
        self.emitting = (now, node, count);
        self.emitted = self.emitted.max(count);
    }

    pub(super) fn delivered(&mut self, now: Time, offered: Time) {
        if self.death.is_some_and(|death| now >= death) {
            self.longest = self.longest.max(now.since(offered));
        }
    }

    /// The most messages that any node of a kind kept, if those tell.
    pub(super) fn most(&self, keeper: NodeRole) -> Vec<f64> {
        self.most[keeper as usize].into_iter().map(|messages| messages as f64).collect()
    }

    /// The most packets that a node sent at one instant.
    pub(super) fn emitted(&self) -> f64 {
        self.emitted as f64
    }

    /// The longest wait.
    pub(super) fn longest(&self) -> f64 {
        self.longest.as_secs_f64()
    }
}
