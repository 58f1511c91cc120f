//! Losses at the interfaces of nodes, on any network.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_core::{
    Bytes, Event, Frame, LinkDirection, NodeId, Observer, PortId, Seeds, Time, Transmit, Verdict,
};

use crate::graph::Crossings;
use crate::loss::{LossProcess, LossSection, LossyPlace};
use crate::network::{Arrival, Network, Precedence, TimerRule};

/// Network with nodes that lose packets on arrival.
///
/// Only packets for the node itself can be lost: a router forwards what its own interface loses.
#[derive(Debug)]
pub struct LossyInterfaces<N> {
    network: N,
    seeds: Seeds,
    /// Loss processes of each node that has any.
    losses: BTreeMap<NodeId, Vec<LossProcess>>,
}

impl<N: Network> LossyInterfaces<N> {
    /// Network in which no interface loses packets yet.
    pub fn new(network: N, seeds: &Seeds) -> Self {
        LossyInterfaces { network, seeds: seeds.part("interfaces"), losses: BTreeMap::new() }
    }

    /// Adds a loss section to a node. A packet survives if every section lets it pass.
    pub fn add_loss(&mut self, node: NodeId, section: Arc<LossSection>) {
        self.losses.entry(node).or_default().push(LossProcess::new(section, LossyPlace::Interface(node)));
    }
}

impl<N: Network> Network for LossyInterfaces<N> {
    fn transmit(
        &mut self,
        now: Time,
        from: NodeId,
        transmit: Transmit,
        bytes: Bytes,
        observer: &mut dyn Observer,
    ) {
        self.network.transmit(now, from, transmit, bytes, observer);
    }

    fn is_ready(&mut self, now: Time, node: NodeId) -> bool {
        self.network.is_ready(now, node)
    }

    fn next_ready(&mut self) -> Option<NodeId> {
        self.network.next_ready()
    }

    fn next_time(&self) -> Option<(Time, Precedence)> {
        self.network.next_time()
    }

    fn advance(&mut self, now: Time, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool {
        if !self.network.advance(now, arrival, observer) {
            return false;
        }
        if arrival.transit {
            return true;
        }
        let Arrival { receivers, source, original, ingress, bytes, .. } = arrival;
        let LossyInterfaces { network, seeds, losses } = self;
        receivers.retain(|&node| {
            let Some(losses) = losses.get_mut(&node) else { return true };
            // Every section sees every packet, so that none changes the draws of another.
            let is_lost = losses
                .iter_mut()
                .fold(false, |is_lost, loss| loss.loses(now, *original, || seeds.node(node)) | is_lost);
            if is_lost {
                let event = Event::FrameLost { receiver: Some(node), original: original.is_some() };
                let frame = Frame::new(network.link_to(node, *ingress), bytes);
                observer.frame_event(now, *source, &event, &frame.original(original.is_some()));
            }
            !is_lost
        });
        !receivers.is_empty()
    }

    fn forward(&mut self, now: Time, verdict: Verdict, observer: &mut dyn Observer) {
        self.network.forward(now, verdict, observer);
    }

    fn link_to(&self, node: NodeId, ingress: PortId) -> Option<LinkDirection> {
        self.network.link_to(node, ingress)
    }

    fn crossings(&mut self) -> Option<&mut Crossings> {
        self.network.crossings()
    }

    fn timer_rule(&self) -> TimerRule {
        self.network.timer_rule()
    }
}
