//! Losses and what became of them: recovery latency, exposure, requests and repairs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::{DropReason, Event, MessageId, NodeId, Time};
use carillon_sim::graph::PathTree;

use crate::scenario::{RoutedNetwork, Scenario};

/// Reads of the trace what tells of losses and repairs.
#[derive(Clone, Debug, Default)]
pub struct Recoveries {
    /// Nodes that only help. Their losses, requests, duplicates and abandoned messages are not counted.
    only_helping: BTreeSet<NodeId>,
    /// Open losses by node, source and message: time at which the node detected the loss.
    open: BTreeMap<(NodeId, NodeId, MessageId), Time>,
    /// Repaired losses: node, source of the message, and time from detection to repair.
    pub(super) repaired: Vec<(NodeId, NodeId, Duration)>,
    /// First transmissions lost on links.
    pub(super) losses: u64,
    /// Data that came to a node that had it.
    pub(super) duplicates: u64,
    pub(super) requests: u64,
    /// Repairs sent by the source of a message, and by others.
    pub(super) repairs: [u64; 2],
    /// Messages abandoned by a node.
    pub(super) given_up: u64,
}

impl Recoveries {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Recoveries { only_helping: scenario.only_helping().collect(), ..Recoveries::default() }
    }

    #[inline]
    pub(super) fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        match *event {
            Event::LossFound { .. }
            | Event::LossRepaired { .. }
            | Event::LossFinal { .. }
            | Event::Requested { .. }
            | Event::Dropped { .. }
                if self.only_helping.contains(&node) => {}
            Event::LossFound { source: Some(source), message } => {
                self.open.entry((node, source, message)).or_insert(time);
            }
            Event::LossRepaired { source, message } => {
                if let Some(found) = self.open.remove(&(node, source, message)) {
                    self.repaired.push((node, source, time - found));
                }
            }
            Event::LossFinal { source, message } => {
                self.open.remove(&(node, source, message));
                self.given_up += 1;
            }
            Event::FrameLost { original: true, .. } => self.losses += 1,
            Event::Dropped { reason: DropReason::Duplicate } => self.duplicates += 1,
            Event::Requested { .. } => self.requests += 1,
            Event::RepairSent { .. } => self.repairs[0] += 1,
            Event::Forwarded { repair: true, .. } => self.repairs[1] += 1,
            _ => {}
        }
    }

    /// The latency of each repair, in seconds, beside what unicast takes from there.
    pub(super) fn repairs_beside(
        &self,
        scenario: &Scenario,
        network: &RoutedNetwork,
    ) -> Vec<(f64, UnicastTime)> {
        let mut unicast = Unicast::new(network, scenario.workload.message_bytes);
        let repaired = self.repaired.iter();
        repaired.map(|&(node, source, took)| (took.as_secs_f64(), unicast.of(source, node))).collect()
    }
}

/// Calculator of the minimum recovery time: a request to the source and its repair, by unicast on the idle network.
#[derive(Debug)]
struct Unicast<'a> {
    network: &'a RoutedNetwork,
    message_bytes: u32,
    /// Times by source, then node; computed when first needed.
    times: BTreeMap<NodeId, Vec<UnicastTime>>,
}

/// The times of one node, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnicastTime {
    /// Request up and repair down, each stored and forwarded at every hop.
    pub(super) recovery: f64,
    /// Propagation time alone, in both directions.
    pub(super) propagation: f64,
}

impl<'a> Unicast<'a> {
    fn new(network: &'a RoutedNetwork, message_bytes: u32) -> Self {
        Unicast { network, message_bytes, times: BTreeMap::new() }
    }

    fn of(&mut self, source: NodeId, node: NodeId) -> UnicastTime {
        let Unicast { network, message_bytes, times } = self;
        times.entry(source).or_insert_with(|| unicast_times(network, source, *message_bytes))[node.index()]
    }
}

fn unicast_times(network: &RoutedNetwork, source: NodeId, message_bytes: u32) -> Vec<UnicastTime> {
    let topology = &network.topology;
    let paths = PathTree::new(topology, source, |_| true);
    let mut times: Vec<Option<UnicastTime>> = vec![None; topology.nodes()];
    times[source.index()] = Some(UnicastTime::default());
    for start in (0..topology.nodes() as u32).map(NodeId) {
        // Climb to a node with a known time, then add up the links on the way back down.
        let (mut node, mut way) = (start, Vec::new());
        while times[node.index()].is_none() {
            let Some(link) = paths.port(node).and_then(|port| topology.link_at(node, port)) else { break };
            way.push((node, link));
            node = topology.links()[link as usize].other(node);
        }
        let mut time = times[node.index()].unwrap_or_default();
        for (node, link) in way.into_iter().rev() {
            let link = &topology.links()[link as usize];
            let rate = link.rate.unwrap_or(network.config.rate);
            let sending = rate.time_for_bytes(REQUEST_BYTES) + rate.time_for_bytes(message_bytes.into());
            time.propagation += 2.0 * link.delay.as_secs_f64();
            time.recovery += 2.0 * link.delay.as_secs_f64() + sending.as_secs_f64();
            times[node.index()] = Some(time);
        }
    }
    times.into_iter().map(Option::unwrap_or_default).collect()
}

/// Bytes of the unicast request, headers included: ns-2's of LMS.
const REQUEST_BYTES: u64 = 80;
