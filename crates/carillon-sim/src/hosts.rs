//! Processing cost of hosts, on any network.

use std::collections::VecDeque;
use std::time::Duration;

use carillon_core::{
    BitRate, Bytes, Dest, Event, Frame, IntervalSampler, LinkDirection, NodeId, Observer, PortId, Scope,
    Seeds, Time, Transmit, Verdict,
};

use crate::loss::SingleLoss;
use crate::network::{Arrival, Call, Network, Precedence, TimerRule};
use crate::queue::EventQueue;

/// Processing cost of hosts, and drops at one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostConfig {
    /// Time of each application call that offers a message.
    pub call: Duration,
    /// Time of each application call that reads a message.
    pub read: Duration,
    /// Time of each packet sent or received.
    pub packet: Duration,
    /// Additional time of each packet received.
    pub receive: Duration,
    /// Rate at which a host copies a packet to its interface, which has one buffer; `None` takes no time.
    pub copy_rate: Option<BitRate>,
    /// Host that drops received packets, if any.
    pub drops: Option<HostDrops>,
}

/// Random drops of received packets at one host, at intervals that are uniform about a mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostDrops {
    /// Node that drops packets.
    pub node: NodeId,
    /// Mean interval: one packet in this many is dropped.
    pub one_in: u64,
}

impl HostDrops {
    /// Sampler of the dropped packets of a run.
    pub fn of(self, seeds: &Seeds) -> IntervalSampler {
        IntervalSampler::new(self.one_in, seeds.part("hosts").stream("drops"))
    }
}

/// Network with hosts that process one packet at a time.
///
/// A packet enters the network after its host has processed it, and reaches its machine after the receiving host has.
/// A machine waits while its host is busy, so that it decides what to send only when the packet can leave. An
/// application with calls that take time makes one when its host has nothing else to do.
#[derive(Debug)]
pub struct Hosts<N> {
    network: N,
    config: HostConfig,
    hosts: Vec<Host>,
    jobs: EventQueue<usize>,
    /// Work of each job; indices of finished jobs are reused.
    work: Vec<Option<Work>>,
    free: Vec<usize>,
    ready: VecDeque<NodeId>,
    drops: Option<IntervalSampler>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Host {
    busy: Time,
    is_waiting: bool,
}

#[derive(Debug)]
enum Work {
    Send(NodeId, Transmit, Bytes),
    Receive(NodeId, Packet),
    /// Call of the application, which has its effect when it begins.
    Call(NodeId),
}

#[derive(Clone, Debug)]
struct Packet {
    source: NodeId,
    dest: Dest,
    bytes: Bytes,
    ingress: PortId,
    scope: Scope,
    original: Option<SingleLoss>,
}

impl<N: Network> Hosts<N> {
    /// Puts a host at each node of a network.
    pub fn new(network: N, config: HostConfig, nodes: usize, seeds: &Seeds) -> Self {
        Hosts {
            network,
            config,
            hosts: vec![Host::default(); nodes],
            jobs: EventQueue::new(),
            work: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            drops: config.drops.map(|drops| drops.of(seeds)),
        }
    }

    fn push(&mut self, now: Time, node: NodeId, cost: Duration, work: Work) {
        // A host is a serial resource: a job begins when the previous one has ended.
        let host = &mut self.hosts[node.index()];
        host.busy = host.busy.max(now) + cost;
        let place = self.free.pop().unwrap_or_else(|| {
            self.work.push(None);
            self.work.len() - 1
        });
        self.work[place] = Some(work);
        self.jobs.push(host.busy, place);
    }

    /// Returns true if this host drops the packet that it has processed.
    fn is_dropped(&mut self, node: NodeId) -> bool {
        let drops = self.config.drops.is_some_and(|drops| drops.node == node);
        drops && self.drops.as_mut().is_some_and(IntervalSampler::selects)
    }

    fn work(&mut self, now: Time, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool {
        let Some(place) = self.jobs.pop().map(|(_, place)| place) else { return false };
        self.free.push(place);
        let Some(work) = self.work[place].take() else { return false };
        let (Work::Send(node, ..) | Work::Receive(node, _) | Work::Call(node)) = work;
        let host = &mut self.hosts[node.index()];
        // The machine may send again once its host is idle.
        if host.busy <= now && std::mem::take(&mut host.is_waiting) {
            self.ready.push_back(node);
        }
        match work {
            Work::Call(_) => false,
            Work::Send(from, transmit, bytes) => {
                self.network.transmit(now, from, transmit, bytes, observer);
                false
            }
            Work::Receive(node, packet) => {
                let Packet { source, dest, bytes, ingress, scope, original } = packet;
                if self.is_dropped(node) {
                    let event = Event::FrameLost { receiver: Some(node), original: false };
                    let frame = Frame::new(self.network.link_to(node, ingress), &bytes);
                    observer.frame_event(now, source, &event, &frame.original(original.is_some()));
                    return false;
                }
                arrival.receivers.clear();
                arrival.receivers.push(node);
                (arrival.source, arrival.dest, arrival.bytes) = (source, dest, bytes);
                (arrival.ingress, arrival.scope, arrival.original) = (ingress, scope, original);
                arrival.transit = false;
                true
            }
        }
    }
}

impl<N: Network> Network for Hosts<N> {
    fn transmit(&mut self, now: Time, from: NodeId, transmit: Transmit, bytes: Bytes, _: &mut dyn Observer) {
        let copy =
            self.config.copy_rate.map_or(Duration::ZERO, |rate| rate.time_for_bytes(bytes.len() as u64));
        self.push(now, from, self.config.packet + copy, Work::Send(from, transmit, bytes));
    }

    fn calls_take_time(&self) -> bool {
        !self.config.call.is_zero() || !self.config.read.is_zero()
    }

    fn on_call(&mut self, now: Time, node: NodeId, call: Call) {
        let cost = match call {
            Call::Send => self.config.call,
            Call::Read => self.config.read,
        };
        self.push(now, node, cost, Work::Call(node));
    }

    fn is_ready(&mut self, now: Time, node: NodeId) -> bool {
        let host = &mut self.hosts[node.index()];
        host.is_waiting = host.busy > now;
        !host.is_waiting && self.network.is_ready(now, node)
    }

    fn next_ready(&mut self) -> Option<NodeId> {
        self.ready.pop_front().or_else(|| self.network.next_ready())
    }

    fn next_time(&self) -> Option<(Time, Precedence)> {
        let job = self.jobs.next_time();
        match (job, self.network.next_time()) {
            (Some(job), Some((time, _))) if job <= time => Some((job, Precedence::NetworkFirst)),
            (Some(job), None) => Some((job, Precedence::NetworkFirst)),
            (_, next) => next,
        }
    }

    fn advance(&mut self, now: Time, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool {
        let job = self.jobs.next_time();
        if job.is_some_and(|job| self.network.next_time().is_none_or(|(time, _)| job <= time)) {
            return self.work(now, arrival, observer);
        }
        if !self.network.advance(now, arrival, observer) {
            return false;
        }
        // Relays are routers and cost nothing.
        if arrival.transit {
            return true;
        }
        for at in 0..arrival.receivers.len() {
            let packet = Packet {
                source: arrival.source,
                dest: arrival.dest.clone(),
                bytes: arrival.bytes.clone(),
                ingress: arrival.ingress,
                scope: arrival.scope,
                original: arrival.original,
            };
            let node = arrival.receivers[at];
            self.push(now, node, self.config.packet + self.config.receive, Work::Receive(node, packet));
        }
        arrival.receivers.clear();
        false
    }

    fn forward(&mut self, now: Time, verdict: Verdict, observer: &mut dyn Observer) {
        self.network.forward(now, verdict, observer);
    }

    fn link_to(&self, node: NodeId, ingress: PortId) -> Option<LinkDirection> {
        self.network.link_to(node, ingress)
    }

    fn timer_rule(&self) -> TimerRule {
        self.network.timer_rule()
    }
}

#[cfg(test)]
mod tests {
    use carillon_core::NoObserver;

    use super::*;
    use crate::{Lan, LanConfig};

    /// Time in microseconds at which each frame from node 0 has reached the machine of node 1.
    fn arrivals(config: HostConfig, frames: u64) -> Vec<u64> {
        let seeds = Seeds::new(7);
        let mut hosts = Hosts::new(Lan::new(LanConfig::default(), 2, &seeds), config, 2, &seeds);
        let (mut now, mut sent, mut there) = (Time::ZERO, 0, Vec::new());
        let mut arrival = Arrival::default();
        loop {
            while sent < frames && hosts.is_ready(now, NodeId(0)) {
                // Each message has two packets.
                if sent.is_multiple_of(2) {
                    hosts.on_call(now, NodeId(0), Call::Send);
                }
                let transmit = Transmit::now(Dest::Node(NodeId(1)));
                hosts.transmit(now, NodeId(0), transmit, Bytes::from(vec![0; 107]), &mut NoObserver);
                sent += 1;
            }
            let Some((next, _)) = hosts.next_time() else { return there };
            now = next;
            if hosts.advance(now, &mut arrival, &mut NoObserver) {
                there.extend(arrival.receivers.iter().map(|_| now.as_nanos() / 1000));
            }
            while hosts.next_ready().is_some() {}
        }
    }

    #[test]
    fn host_is_serial_and_call_cost_precedes_the_first_packet() {
        let us = Duration::from_micros;
        // A frame of 125 bytes takes 100 us on the medium.
        let config = HostConfig { call: us(1000), packet: us(300), ..HostConfig::default() };
        assert_eq!(arrivals(config, 4), [1700, 2000, 3300, 3600]);
        let copied = HostConfig { copy_rate: Some(BitRate::mbps(8)), ..config };
        assert_eq!(arrivals(copied, 3), [1807, 2214, 3621]);
        let received = HostConfig { receive: us(500), ..config };
        assert_eq!(arrivals(received, 2), [2200, 3000]);
        assert_eq!(arrivals(HostConfig::default(), 2), [100, 200]);
    }

    #[test]
    fn dropped_packets_average_the_configured_share() {
        for one_in in [5, 10, 25] {
            let drops = Some(HostDrops { node: NodeId(1), one_in });
            let came = arrivals(HostConfig { drops, ..HostConfig::default() }, 10_000);
            let dropped = 10_000 - came.len() as u64;
            assert!((dropped * one_in).abs_diff(10_000) < 900, "{dropped} of 10000, one in {one_in}");
            let longest = came.windows(2).map(|pair| pair[1] - pair[0]).max();
            assert!(longest.is_some_and(|gap| gap > 100), "what was dropped did not come");
        }
        let other = HostDrops { node: NodeId(0), one_in: 2 };
        assert_eq!(arrivals(HostConfig { drops: Some(other), ..HostConfig::default() }, 100).len(), 100);
    }
}
