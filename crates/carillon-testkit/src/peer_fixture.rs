//! Fixture of one peer of a group, with packets in and out at times in milliseconds.

use bytes::Bytes;
use carillon_core::{
    BitRate, BuildContext, Config, Delivery, Dest, DropReason, Duration, Event, GroupId, Host, Machine,
    NodeId, OfferError, PortId, ProtocolEntry, Received, Role, Scope, Seeds, Time, Transmit, drain,
};

use crate::{ASSOCIATION, CheckedMachine};

/// Context of the peer of this rank in a group of these nodes. The nodes should not ascend, so that a rank is not
/// mistaken for a node.
pub fn peer_context(nodes: &[NodeId], rank: usize, rejoining: bool) -> BuildContext {
    BuildContext {
        association: ASSOCIATION,
        node: nodes[rank],
        sender: nodes[0],
        members: nodes.into(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Default::default(),
        group: GroupId(0),
        seeds: Seeds::new(1),
        bit_rate: BitRate::mbps(10),
        link_overhead: 18,
        max_payload: 100,
        memory: usize::MAX,
        rejoining,
    }
}

/// Fixture of one peer.
#[derive(Debug)]
pub struct PeerFixture {
    machine: Box<dyn Machine>,
    now: u64,
    out: Output,
}

#[derive(Debug)]
struct Output {
    nodes: Vec<NodeId>,
    show: fn(&[u8]) -> String,
    sent: Vec<String>,
    events: Vec<Event>,
    fired: bool,
}

impl Host for Output {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        let to = match transmit.dest {
            Dest::Node(node) => format!("rank {}", rank(&self.nodes, node)),
            _ => "all".to_owned(),
        };
        self.sent.push(format!("{} to {to}", (self.show)(bytes)));
    }
    fn event(&mut self, event: &Event) {
        self.events.push(event.clone());
    }
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

impl PeerFixture {
    /// Builds the peer of this context, with these settings on top of the defaults; `show` formats a packet in a word
    /// or two.
    ///
    /// # Panics
    ///
    /// Panics if the protocol does not take the settings.
    pub fn new(
        entry: &'static ProtocolEntry,
        context: &BuildContext,
        settings: &[(&str, &str)],
        show: fn(&[u8]) -> String,
    ) -> Self {
        let mut config = Config::defaults(entry.parameters);
        for (key, value) in settings {
            config.set(entry.parameters, key, value).unwrap_or_else(|error| panic!("{error}"));
        }
        let machine = (entry.build)(Role::Peer, context, &config).unwrap_or_else(|error| panic!("{error}"));
        let nodes = context.members.to_vec();
        let out = Output { nodes, show, sent: Vec::new(), events: Vec::new(), fired: false };
        let mut bench = PeerFixture { machine: Box::new(CheckedMachine::new(machine)), now: 0, out };
        bench.machine.start(Time::ZERO);
        bench.drain();
        bench
    }

    /// Advances time, fires due timers, and returns the packets sent.
    pub fn at(&mut self, ms: u64) -> Vec<String> {
        let end = time(ms);
        while let Some(due) = self.machine.poll_timeout().filter(|&due| due <= end) {
            self.machine.handle_timeout(due);
            self.out.fired = true;
            drain(&mut *self.machine, due, &mut Vec::new(), &mut self.out);
        }
        self.now = ms;
        self.sent()
    }

    /// Offers a message and returns its number.
    pub fn offer(&mut self, payload: &'static str) -> Result<u64, OfferError> {
        let (now, payload) = (self.time(), Bytes::from_static(payload.as_bytes()));
        let message = self.sender().offer(now, payload);
        self.drain();
        message.map(|message| message.0)
    }

    /// Ends the stream of messages.
    pub fn finish(&mut self) {
        let now = self.time();
        self.sender().finish(now);
        self.drain();
    }

    /// Returns true if the peer has finished.
    pub fn is_finished(&mut self) -> bool {
        self.sender().is_finished()
    }

    /// Ranks for which the peer waits.
    pub fn awaited(&mut self) -> Vec<usize> {
        let nodes = self.out.nodes.clone();
        let sender = self.sender();
        (0..nodes.len()).filter(|&rank| sender.awaits(nodes[rank])).collect()
    }

    /// Expels the peer of this rank and returns the packets sent.
    pub fn expel(&mut self, rank: usize) -> Vec<String> {
        let (now, member) = (self.time(), self.out.nodes[rank]);
        self.sender().expel(now, member);
        self.drain();
        self.sent()
    }

    /// Receives a datagram and returns the packets sent.
    pub fn receive_bytes(&mut self, source: NodeId, bytes: Vec<u8>) -> Vec<String> {
        let (bytes, destination) = (Bytes::from(bytes), Dest::group(GroupId(0)));
        let (ingress, scope) = (PortId(0), Scope::GLOBAL);
        let received = Received { source, destination: &destination, ingress, scope, bytes: &bytes };
        self.machine.handle_datagram(self.time(), received);
        self.drain();
        self.sent()
    }

    /// Takes the next delivered message.
    pub fn take(&mut self) -> Option<Delivery> {
        let delivery = self.machine.as_receiver()?.poll_delivery();
        self.drain();
        delivery
    }

    /// Rank of a node.
    pub fn rank(&self, node: NodeId) -> usize {
        rank(&self.out.nodes, node)
    }

    /// Takes the packets sent since the last call.
    pub fn sent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.out.sent)
    }

    /// Takes the events since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.out.events)
    }

    /// Takes the events since the last call and returns the reasons of drops.
    pub fn drops(&mut self) -> Vec<DropReason> {
        let reason = |event| match event {
            Event::Dropped { reason } => Some(reason),
            _ => None,
        };
        self.events().into_iter().filter_map(reason).collect()
    }

    fn sender(&mut self) -> &mut dyn carillon_core::Sender {
        self.machine.as_sender().expect("a peer sends")
    }

    fn time(&self) -> Time {
        time(self.now)
    }

    fn drain(&mut self) {
        self.out.fired = false;
        let now = self.time();
        drain(&mut *self.machine, now, &mut Vec::new(), &mut self.out);
    }
}

fn rank(nodes: &[NodeId], node: NodeId) -> usize {
    nodes.iter().position(|other| *other == node).expect("a node of the group")
}

fn time(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}
