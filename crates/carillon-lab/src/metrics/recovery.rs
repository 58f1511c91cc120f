//! Losses and what became of them: recovery latency, exposure, requests and repairs.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{DropReason, Event, MessageId, NodeId, Time, TraceEvent};
use carillon_sim::graph::PathTree;

use super::Samples;
use crate::scenario::{RoutedNetwork, Scenario};

/// Reads of the trace what tells of losses and repairs.
#[derive(Clone, Debug, Default)]
pub struct Recoveries {
    /// When a node found that it misses a message of a source, until it has it.
    open: BTreeMap<(NodeId, NodeId, MessageId), Time>,
    /// Losses repaired: where, whose message, and how long it took.
    repaired: Vec<(NodeId, NodeId, Duration)>,
    /// First transmissions lost on links.
    losses: u64,
    /// Data that came to a node that had it.
    duplicates: u64,
    requests: u64,
    /// Repairs sent by the source of a message, and by others.
    repairs: [u64; 2],
    /// Messages given up by a node.
    pub(super) given_up: u64,
}

impl Recoveries {
    pub(super) fn event(&mut self, event: &TraceEvent) {
        let node = event.node;
        match event.event {
            Event::LossFound { source: Some(source), message } => {
                self.open.entry((node, source, message)).or_insert(event.time);
            }
            Event::LossRepaired { source, message } => {
                if let Some(found) = self.open.remove(&(node, source, message)) {
                    self.repaired.push((node, source, event.time - found));
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

    /// The metrics of a run on a routed network.
    pub(super) fn samples(&self, scenario: &Scenario, network: &RoutedNetwork) -> Vec<Samples> {
        let mut ideal = Unicast::new(network, scenario.workload.message_bytes);
        let mut latencies = Vec::with_capacity(self.repaired.len());
        let mut normalized = Vec::with_capacity(self.repaired.len());
        let mut propagation = Vec::with_capacity(self.repaired.len());
        for &(node, source, latency) in &self.repaired {
            let latency = latency.as_secs_f64();
            let of = ideal.of(source, node);
            latencies.push(latency);
            normalized.push(latency / of.recovery);
            propagation.push(latency / of.propagation);
        }
        let per_loss = |count: u64| match self.losses {
            0 => Vec::new(),
            losses => vec![count as f64 / losses as f64],
        };
        let exposure = per_loss(self.duplicates).into_iter().map(|each| each / f64::from(scenario.receivers));
        vec![
            ("recovery_latency_s", latencies),
            ("normalized_recovery_latency", normalized),
            ("normalized_recovery_latency_propagation", propagation),
            ("recoveries_per_loss", per_loss(self.repaired.len() as u64)),
            ("exposure", exposure.collect()),
            ("requests_per_loss", per_loss(self.requests)),
            ("repairs_per_loss", per_loss(self.repairs.iter().sum())),
            ("repeated_retransmissions", per_loss(self.repairs[0])),
            ("losses", vec![self.losses as f64]),
        ]
    }
}

/// What a recovery takes at best: a request to the source and its repair, by unicast on the idle
/// network.
#[derive(Debug)]
struct Unicast<'a> {
    network: &'a RoutedNetwork,
    message_bytes: u32,
    /// By source, then node; made when first needed.
    times: BTreeMap<NodeId, Vec<UnicastTime>>,
}

/// The times of one node, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct UnicastTime {
    /// Request up and repair down, each stored and forwarded at every hop.
    recovery: f64,
    /// Propagation alone, there and back.
    propagation: f64,
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
        // Up to a node whose time is known, then back down.
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
