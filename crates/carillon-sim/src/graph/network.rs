//! Routed network of a run, in which packets hop from node to node.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use carillon_core::{
    BitRate, Bytes, Dest, DropReason, Duration, Event, Frame, GroupId, LinkDirection, NodeId, NodeSeeds,
    Observer, PortId, PortSet, Scope, Seeds, Time, Transmit, Verdict,
};

use super::crossings::Crossings;
use super::input::InputBuffer;
use super::link::{Fate, LinkState};
use super::outage::{Outage, Outages};
use super::packet::{Hop, Packet, UnicastCache};
use super::partition::{PartId, Partition};
use super::pending::{Departure, Pending};
use super::pending_events::PendingEvents;
use super::routes::{DeliveryTree, Routes};
use super::topology::Topology;
use crate::loss::{LossModel, LossSection, LossyPlace, SingleLoss};
use crate::network::{Arrival, Network, Precedence};
use crate::serials::Slot;

/// Parameters of all links and packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphConfig {
    /// Rate of links without a rate of their own.
    pub rate: BitRate,
    /// Maximum number of waiting packets at each end of a link (drop-tail).
    pub queue: usize,
    /// Number of waiting packets at which a machine must wait for its link, as at a full socket; limited to `queue`.
    /// With `None` no machine waits: the queue discards the excess of every sender, as in the evaluation.
    pub port_queue: Option<NonZeroU32>,
    /// Bytes that the network adds to a datagram.
    pub overhead: u32,
}

impl Default for GraphConfig {
    /// Parameters of the evaluation of LMS, SRM and PGM: 1.5 Mbit/s, and ns-2's default queue of 50.
    fn default() -> Self {
        GraphConfig {
            rate: BitRate::new(1_500_000).unwrap_or(BitRate::mbps(1)),
            queue: 50,
            port_queue: None,
            overhead: 0,
        }
    }
}

/// Network of routers and hosts, joined by links.
///
/// Unicast takes the path of least delay. Multicast follows the reverse paths from the members to the source, pruned
/// to them (reverse-path forwarding); a datagram that arrives by another port is dropped. A relay sees each datagram
/// in transit and decides whether it is forwarded.
#[derive(Debug)]
pub struct Graph {
    topology: Arc<Topology>,
    config: GraphConfig,
    /// Random streams of the links from their first end, and from their second.
    seeds: [NodeSeeds; 2],
    /// State of the link behind each port, away from its node; in the order of `behind`.
    wires: Vec<LinkState>,
    up: Vec<bool>,
    /// Queues of links that differ from `config`.
    queues: BTreeMap<u32, usize>,
    /// Outages of links, if there are any, and the time of the next change of routes.
    outages: Option<Box<Outages>>,
    next_change: Time,
    relays: Vec<bool>,
    /// Input buffers of nodes with limited processing speed.
    inputs: BTreeMap<NodeId, InputBuffer>,
    /// Members of each group, in ascending order.
    members: BTreeMap<GroupId, Vec<NodeId>>,
    routes: Routes,
    trees: BTreeMap<(NodeId, GroupId), Arc<DeliveryTree>>,
    /// Number of changes of routes and members; a packet's tree is valid only in its own epoch.
    epoch: u64,
    /// Adjacency of each port of each node; `first_port` has the first index of each node.
    behind: Vec<Adjacency>,
    first_port: Vec<u32>,
    pending: PendingEvents,
    /// Nodes that were told to wait; `ready` has those with room again.
    waiting: BTreeSet<NodeId>,
    ready: VecDeque<NodeId>,
    unicasts: UnicastCache,
    /// Datagram about which a relay is being asked.
    transit: Option<Hop>,
    /// Last assigned loss model, which equal links share.
    loss: Arc<LossModel>,
}

/// Link and neighbour behind a port.
#[derive(Clone, Copy, Debug)]
struct Adjacency {
    link: u32,
    node: NodeId,
    /// Port of the neighbour on the link.
    ingress: PortId,
}

impl Graph {
    /// Network with empty groups.
    pub fn new(topology: Arc<Topology>, config: GraphConfig, seeds: &Seeds) -> Self {
        Graph::with_pending(topology, config, seeds, PendingEvents::default())
    }

    /// Part of a network that is simulated in several parts: its nodes, and the links from them.
    pub fn part(
        topology: Arc<Topology>,
        config: GraphConfig,
        seeds: &Seeds,
        partition: &Partition,
        part: PartId,
    ) -> Self {
        let pending = PendingEvents::of_part(Crossings::new(partition.clone(), part));
        Graph::with_pending(topology, config, seeds, pending)
    }

    fn with_pending(
        topology: Arc<Topology>,
        config: GraphConfig,
        seeds: &Seeds,
        pending: PendingEvents,
    ) -> Self {
        let mut behind = Vec::new();
        let mut wires = Vec::new();
        let mut first_port = Vec::with_capacity(topology.nodes() + 1);
        first_port.push(0);
        for node in (0..topology.nodes() as u32).map(NodeId) {
            if pending.has(node) {
                for (_, number, link) in topology.ports(node) {
                    let other = link.other(node);
                    let Some(ingress) = topology.port_on(other, number) else { continue };
                    behind.push(Adjacency { link: number, node: other, ingress });
                    wires.push(LinkState::new(link.delay, link.rate.unwrap_or(config.rate)));
                }
            }
            first_port.push(behind.len() as u32);
        }
        let queues = (0..).zip(topology.links());
        let queues = queues.filter_map(|(link, of)| Some((link, of.queue? as usize)));
        Graph {
            epoch: 0,
            queues: queues.collect(),
            outages: None,
            next_change: Time::MAX,
            behind,
            first_port,
            wires,
            up: vec![true; topology.links().len()],
            relays: vec![false; topology.nodes()],
            inputs: BTreeMap::new(),
            members: BTreeMap::new(),
            routes: Routes::new(&topology),
            trees: BTreeMap::new(),
            pending,
            waiting: BTreeSet::new(),
            ready: VecDeque::new(),
            unicasts: UnicastCache::default(),
            transit: None,
            loss: Arc::default(),
            seeds: ["there", "back"].map(|direction| seeds.part("graph").part(direction).nodes()),
            topology,
            config,
        }
    }

    /// Adds a node to a group.
    pub fn join(&mut self, group: GroupId, node: NodeId) {
        let members = self.members.entry(group).or_default();
        if let Err(at) = members.binary_search(&node) {
            members.insert(at, node);
            self.trees.retain(|(_, of), _| *of != group);
            self.epoch += 1;
        }
    }

    /// Removes a node from a group.
    pub fn leave(&mut self, group: GroupId, node: NodeId) {
        if let Some(members) = self.members.get_mut(&group) {
            members.retain(|&member| member != node);
            self.trees.retain(|(_, of), _| *of != group);
            self.epoch += 1;
        }
    }

    /// Makes the machine of this node a relay, which sees all datagrams in transit.
    pub fn set_relay(&mut self, node: NodeId) {
        self.relays[node.index()] = true;
    }

    /// Sets the loss model of a link, from this end to the other.
    pub fn set_loss(&mut self, link: u32, from: NodeId, model: LossModel) {
        if *self.loss != model {
            self.loss = Arc::new(model);
        }
        let loss = self.loss.clone();
        if let Some(wire) = self.wire(link, from) {
            wire.set_loss(loss);
        }
    }

    /// Adds a loss section to a link, from this end to the other. A packet survives if the loss model and every section
    /// let it pass.
    pub fn add_loss(&mut self, link: u32, from: NodeId, section: Arc<LossSection>) {
        let to = self.topology.links()[link as usize].other(from);
        if let Some(wire) = self.wire(link, from) {
            wire.add_loss(section, LossyPlace::Link { from, to });
        }
    }

    /// Sets the standard deviation of a link's delay, from this end to the other (normal distribution).
    pub fn set_deviation(&mut self, link: u32, from: NodeId, deviation: Duration) {
        if let Some(wire) = self.wire(link, from) {
            wire.set_deviation(deviation);
        }
    }

    /// Gives a node an input buffer of `places` packets, of which it processes one every `interval`; more are lost.
    pub fn set_input(&mut self, node: NodeId, interval: Duration, places: usize) {
        self.inputs.insert(node, InputBuffer::new(interval, places));
    }

    /// Loses a single packet on a link, from this end to the other.
    pub fn lose(&mut self, link: u32, from: NodeId, loss: SingleLoss) {
        if let Some(wire) = self.wire(link, from) {
            wire.lose(loss);
        }
    }

    /// Takes a link down or up. Routes change at once; packets on the link still arrive.
    pub fn set_up(&mut self, link: u32, is_up: bool) {
        if std::mem::replace(&mut self.up[link as usize], is_up) != is_up {
            self.routes.forget();
            self.trees.clear();
            self.epoch += 1;
        }
    }

    /// Sets the outages of links. Packets on a link that is down, or that fails before they arrive, are lost. Routes
    /// change `convergence` after each failure and recovery.
    pub fn set_outages(&mut self, outages: &[Outage], convergence: Duration) {
        let outages = Outages::new(outages, convergence);
        self.next_change = outages.next_change();
        self.outages = Some(Box::new(outages));
    }

    /// Makes the changes of routes that are due.
    #[cold]
    fn change_routes(&mut self, now: Time) {
        while let Some((link, is_up)) = self.outages.as_mut().and_then(|outages| outages.take_change(now)) {
            self.set_up(link, is_up);
        }
        self.next_change = self.outages.as_ref().map_or(Time::MAX, |outages| outages.next_change());
    }

    /// Number of packets that may wait at each end of a link.
    fn queue(&self, link: u32) -> usize {
        if self.queues.is_empty() {
            return self.config.queue;
        }
        self.queues.get(&link).copied().unwrap_or(self.config.queue)
    }

    /// Multicast tree of a source.
    pub fn tree(&mut self, source: NodeId, group: GroupId) -> Arc<DeliveryTree> {
        let Graph { topology, up, members, trees, routes, .. } = self;
        let tree = trees.entry((source, group)).or_insert_with(|| {
            let paths = routes.paths(topology, source, |link| up[link as usize]);
            let members = members.get(&group).map_or(&[][..], Vec::as_slice);
            Arc::new(DeliveryTree::new(topology, &paths, members))
        });
        tree.clone()
    }

    /// State of a link from this end to the other; `None` if the end belongs to another part.
    fn wire(&mut self, link: u32, from: NodeId) -> Option<&mut LinkState> {
        let port = self.topology.port_on(from, link)?;
        let ports = self.ports(from);
        self.wires[ports].get_mut(usize::from(port.0))
    }

    /// Range of a node's ports in `behind` and `wires`.
    fn ports(&self, node: NodeId) -> std::ops::Range<usize> {
        self.first_port[node.index()] as usize..self.first_port[node.index() + 1] as usize
    }

    /// Sends a packet out of a port of its current node.
    fn put(&mut self, now: Time, port: PortId, hop: &Hop, scope: Scope, observer: &mut dyn Observer) {
        let &Hop { ref packet, to: from, target, .. } = hop;
        let wire = self.first_port[from.index()] as usize + usize::from(port.0);
        let ports = self.ports(from);
        let Some(&Adjacency { link, node: to, ingress }) = self.behind[ports].get(usize::from(port.0)) else {
            return;
        };
        // Of the two directions of a link.
        let direction = |topology: &Topology| usize::from(topology.links()[link as usize].ends[0] != from);
        if let Some(outages) = &mut self.outages {
            if outages.interrupt(link, now, now) {
                let original = packet.original.is_some();
                let link = Some(LinkDirection { from, to });
                let frame = Frame::new(link, &packet.bytes).original(original);
                let lost = Event::FrameLost { receiver: Some(to), original };
                observer.frame_event(now, from, &lost, &frame);
                return;
            }
            if let Some(at) = outages.recovery(link, direction(&self.topology), now) {
                self.wires[wire].flush(at);
            }
        } else if !self.up[link as usize] {
            return;
        }
        let bytes = packet.bytes.len() as u64 + u64::from(self.config.overhead);
        let seeds = || self.seeds[direction(&self.topology)].node(NodeId(link));
        let limit = self.queue(link);
        let mut fate = self.wires[wire].put(now, bytes, limit, packet.original, seeds);
        if let (Fate::Arrives(passage), Some(outages)) = (fate, &self.outages)
            && outages.interrupt(link, now, passage.arrives)
        {
            fate = Fate::Lost(passage);
        }
        let original = packet.original.is_some();
        let frame = Frame::new(Some(LinkDirection { from, to }), &packet.bytes).original(original);
        let mut tell = |frame, event| observer.frame_event(now, from, &event, &frame);
        match fate {
            Fate::Discarded => tell(frame, Event::FrameDiscarded),
            Fate::Lost(passage) => {
                tell(frame.passing(passage), Event::FrameSent { bytes: bytes as u32 });
                tell(frame.passing(passage), Event::FrameLost { receiver: Some(to), original });
            }
            Fate::Arrives(passage) => {
                tell(frame.passing(passage), Event::FrameSent { bytes: bytes as u32 });
                let (slot, port) = (Slot::OF_WHOLE, ingress);
                let hop = Hop { packet: packet.clone(), to, target, slot, port, arrives: true, scope };
                self.pending.push(passage.arrives, Pending::Arrives(hop));
            }
        }
    }

    /// Forwards a packet from a node where it has arrived or starts, on these of its ports.
    fn send_on(&mut self, now: Time, hop: &Hop, only: Option<&PortSet>, observer: &mut dyn Observer) {
        // Routers decrement the scope, senders do not. No packet can loop for ever, even if relays misdirect it.
        let is_router = hop.arrives;
        if is_router && hop.scope.0 <= 1 {
            return;
        }
        let scope = Scope(hop.scope.0 - u8::from(is_router));
        let wanted = |port: PortId| only.is_none_or(|only| only.contains(port));
        match hop.packet.group {
            None => {
                let Graph { topology, up, routes, .. } = self;
                let port = routes.port(topology, |link| up[link as usize], hop.to, hop.target);
                if let Some(port) = port.filter(|&port| wanted(port)) {
                    self.put(now, port, hop, scope, observer);
                }
            }
            Some(_) => self.with_tree(&hop.packet, |graph, tree| {
                for &port in tree.downstream(hop.to).iter().filter(|&&port| wanted(port)) {
                    graph.put(now, port, hop, scope, observer);
                }
            }),
        }
    }

    /// Calls `act` with the tree of a multicast packet.
    fn with_tree<T: Default>(
        &mut self,
        packet: &Packet,
        act: impl FnOnce(&mut Self, &DeliveryTree) -> T,
    ) -> T {
        match (&packet.tree, &packet.group) {
            (Some((epoch, tree)), _) if *epoch == self.epoch => act(self, tree),
            (_, Some((group, _))) => {
                let tree = self.tree(packet.source, *group);
                act(self, &tree)
            }
            _ => T::default(),
        }
    }

    /// Makes a packet at node `at` from `source`, its sender or the node that a relay names as the sender.
    fn begin(
        &mut self,
        (source, at): (NodeId, NodeId),
        dest: &Dest,
        bytes: Bytes,
        original: Option<SingleLoss>,
    ) -> Option<Hop> {
        let (target, group, scope) = match *dest {
            Dest::Node(node) => (node, None, Scope::GLOBAL),
            Dest::Group { group, scope } => (source, Some((group, scope)), scope),
            Dest::Ports { .. } => return None,
        };
        let tree = group.map(|(group, _)| (self.epoch, self.tree(source, group)));
        let packet = match group {
            None => self.unicasts.packet(Packet { source, group, bytes, original, tree }),
            Some(_) => Arc::new(Packet { source, group, bytes, original, tree }),
        };
        Some(Hop { packet, to: at, target, slot: Slot::OF_WHOLE, port: PortId(0), arrives: false, scope })
    }

    /// Returns true if a packet is for the node where it arrived; `None` if it is a multicast packet from another
    /// port than that towards its source (reverse-path check).
    fn is_for(&mut self, hop: &Hop) -> Option<bool> {
        match hop.packet.group {
            None => Some(hop.target == hop.to),
            Some(_) => self.with_tree(&hop.packet, |_, tree| {
                let came_right = tree.upstream(hop.to) == hop.ingress();
                came_right.then(|| hop.to != hop.packet.source && tree.is_member(hop.to))
            }),
        }
    }

    fn start(
        &mut self,
        now: Time,
        from: NodeId,
        transmit: Transmit,
        bytes: Bytes,
        observer: &mut dyn Observer,
    ) {
        // The observer sees the datagram once, with the destination behind the ports of a relay.
        let original = transmit.original.map(|message| SingleLoss { source: from, message });
        match transmit.dest {
            Dest::Ports { ports, source, dest } => {
                observer.datagram(now, source, &dest, &bytes);
                let Some(hop) = self.begin((source, from), &dest, bytes, original) else { return };
                for port in ports.iter() {
                    self.put(now, port, &hop, hop.scope, observer);
                }
            }
            dest => {
                observer.datagram(now, from, &dest, &bytes);
                let Some(hop) = self.begin((from, from), &dest, bytes, original) else { return };
                self.send_on(now, &hop, None, observer);
            }
        }
    }

    fn give(hop: Hop, transit: bool, arrival: &mut Arrival) {
        arrival.receivers.clear();
        arrival.receivers.push(hop.to);
        arrival.source = hop.packet.source;
        arrival.dest = hop.dest();
        arrival.bytes = hop.packet.bytes.clone();
        arrival.ingress = hop.port;
        arrival.scope = hop.scope;
        arrival.original = hop.packet.original;
        arrival.transit = transit;
    }
}

impl Network for Graph {
    fn transmit(
        &mut self,
        now: Time,
        from: NodeId,
        transmit: Transmit,
        bytes: Bytes,
        observer: &mut dyn Observer,
    ) {
        if now >= self.next_change {
            self.change_routes(now);
        }
        match transmit.departure.filter(|&at| at > now) {
            None => self.start(now, from, transmit, bytes, observer),
            // The interface holds the datagram until its departure time.
            Some(at) => self.pending.push(
                at,
                Pending::Departs(Box::new(Departure { from, transmit, bytes, slot: Slot::OF_WHOLE })),
            ),
        }
    }

    fn is_ready(&mut self, now: Time, node: NodeId) -> bool {
        let Some(limit) = self.config.port_queue else { return true };
        let limit = |link: u32| self.queue(link).min(limit.get() as usize).max(1);
        let ports = self.ports(node);
        let full = self.behind[ports.clone()]
            .iter()
            .zip(&self.wires[ports])
            .filter(|(behind, _)| self.up[behind.link as usize])
            .filter_map(|(behind, wire)| wire.has_room_at(now, limit(behind.link)));
        // All ports share one socket, so the fullest one decides.
        let Some(at) = full.max() else { return true };
        if self.waiting.insert(node) {
            self.pending.push(at, Pending::Ready(node, Slot::OF_WHOLE));
        }
        false
    }

    fn next_ready(&mut self) -> Option<NodeId> {
        self.ready.pop_front()
    }

    fn next_time(&self) -> Option<(Time, Precedence)> {
        self.pending.next_time().map(|time| (time, Precedence::NetworkFirst))
    }

    fn advance(&mut self, now: Time, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool {
        if now >= self.next_change {
            self.change_routes(now);
        }
        let hop = match self.pending.pop() {
            None => return false,
            Some((_, Pending::Departs(held))) => {
                let Departure { from, transmit, bytes, .. } = *held;
                self.start(now, from, transmit, bytes, observer);
                return false;
            }
            Some((_, Pending::Ready(node, _))) => {
                self.waiting.remove(&node);
                self.ready.push_back(node);
                return false;
            }
            Some((_, Pending::Taken(hop))) => {
                Self::give(*hop, false, arrival);
                return true;
            }
            Some((_, Pending::Arrives(hop))) => hop,
        };
        let Some(here) = self.is_for(&hop) else { return false };
        // A unicast packet at its destination is not in transit; a relay sees everything else.
        let ends_here = here && hop.packet.group.is_none();
        if !ends_here && self.relays[hop.to.index()] {
            self.transit = Some(hop.clone());
            Self::give(hop, true, arrival);
            return true;
        }
        if !ends_here {
            self.send_on(now, &hop, None, observer);
        }
        // A node of limited speed takes the packet through its input buffer.
        if here && let Some(input) = self.inputs.get_mut(&hop.to) {
            match input.take(now) {
                Some(at) => self.pending.push(at, Pending::Taken(Box::new(hop))),
                None => {
                    let event = Event::Dropped { reason: DropReason::Implosion };
                    let link = hop.ingress().and_then(|ingress| self.link_to(hop.to, ingress));
                    let frame = Frame::new(link, &hop.packet.bytes).original(hop.packet.original.is_some());
                    observer.frame_event(now, hop.to, &event, &frame);
                }
            }
            return false;
        }
        if here {
            Self::give(hop, false, arrival);
        }
        here
    }

    fn link_to(&self, node: NodeId, ingress: PortId) -> Option<LinkDirection> {
        let behind = self.behind[self.ports(node)].get(usize::from(ingress.0))?;
        Some(LinkDirection { from: behind.node, to: node })
    }

    fn crossings(&mut self) -> Option<&mut Crossings> {
        self.pending.crossings()
    }

    fn forward(&mut self, now: Time, verdict: Verdict, observer: &mut dyn Observer) {
        let Some(mut hop) = self.transit.take() else { return };
        let only = match verdict {
            Verdict::Absorb => return,
            Verdict::Forward => None,
            Verdict::ForwardOn(these) => Some(these),
            Verdict::ForwardAs(bytes) => {
                let Packet { source, group, original, ref tree, .. } = *hop.packet;
                observer.datagram(now, source, &hop.dest(), &bytes);
                hop.packet = Arc::new(Packet { source, group, bytes, original, tree: tree.clone() });
                None
            }
        };
        self.send_on(now, &hop, only.as_ref(), observer);
    }
}
