//! One member of a group of three, alone on the bench.

use bytes::Bytes;
use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, Delivery, Dest, DropReason, Event, GroupId, Host, Machine,
    NodeId, OfferError, PortId, Received, Receiver, Scope, Seeds, Sender, Time, Transmit, drain,
};
use carillon_wire::erramilli_singh::{Packet, Progress};

use super::super::{ENTRY, ErramilliSinghPeer};

const ASSOCIATION: AssociationId = AssociationId(7);
/// The nodes of the members by rank: not in order, so that a rank is not taken for a node.
const MEMBERS: [NodeId; 3] = [NodeId(5), NodeId(9), NodeId(2)];

/// What the member of a rank is told.
pub(super) fn context(rank: usize, rejoining: bool) -> BuildContext {
    BuildContext {
        association: ASSOCIATION,
        node: MEMBERS[rank],
        sender: MEMBERS[0],
        members: MEMBERS.into(),
        identities: Default::default(),
        group: GroupId(0),
        seeds: Seeds::new(1),
        bit_rate: BitRate::mbps(10),
        link_overhead: 18,
        max_payload: 100,
        rejoining,
    }
}

/// A member, the time in milliseconds, and what came out.
pub(super) struct Member {
    machine: ErramilliSinghPeer,
    now: u64,
    out: Out,
}

#[derive(Default)]
struct Out {
    sent: Vec<String>,
    events: Vec<Event>,
    fired: bool,
}

impl Host for Out {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        let to = match transmit.dest {
            Dest::Node(node) => {
                format!("rank {}", MEMBERS.iter().position(|member| *member == node).unwrap())
            }
            _ => "all".to_owned(),
        };
        let packet = Packet::parse(bytes).unwrap().1.to_string();
        self.sent.push(format!("{} to {to}", packet.strip_prefix("erramilli-singh ").unwrap()));
    }
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

impl Member {
    /// The first member, with K = 2, T1 = 10 ms, T2 = 100 ms, T3 = 20 ms, no pacing and no guard,
    /// and other settings on top.
    pub(super) fn new(settings: &[(&str, &str)]) -> Self {
        Member::of(context(0, false), settings)
    }

    pub(super) fn of(context: BuildContext, settings: &[(&str, &str)]) -> Self {
        let mut config = Config::defaults(ENTRY.parameters);
        for (key, value) in BASE.iter().chain(settings) {
            config.set(ENTRY.parameters, key, value).unwrap();
        }
        let machine = ErramilliSinghPeer::new(&context, &config).unwrap();
        let mut member = Member { machine, now: 0, out: Out::default() };
        member.drain(false);
        member
    }

    /// Lets time pass until then; timers fire when they are due. Returns what was sent.
    pub(super) fn at(&mut self, ms: u64) -> Vec<String> {
        let end = time(ms);
        while let Some(due) = self.machine.poll_timeout().filter(|&due| due <= end) {
            self.machine.handle_timeout(due);
            self.out.fired = true;
            drain(&mut self.machine, due, &mut Vec::new(), &mut self.out);
        }
        self.now = ms;
        self.sent()
    }

    pub(super) fn offer(&mut self, payload: &'static str) -> Result<u64, OfferError> {
        let id = self.machine.offer(time(self.now), Bytes::from_static(payload.as_bytes()));
        self.drain(false);
        id.map(|id| id.0)
    }

    pub(super) fn finish(&mut self) {
        self.machine.finish(time(self.now));
        self.drain(false);
    }

    pub(super) fn is_finished(&self) -> bool {
        self.machine.is_finished()
    }

    /// A packet of the member that it names comes in. Returns what was sent.
    pub(super) fn hear(&mut self, packet: Packet<'_>) -> Vec<String> {
        self.hear_from(MEMBERS[usize::from(packet.sender())], packet)
    }

    /// A packet comes in from a node.
    pub(super) fn hear_from(&mut self, source: NodeId, packet: Packet<'_>) -> Vec<String> {
        let mut bytes = Vec::new();
        packet.emit(ASSOCIATION, &mut bytes);
        let (bytes, destination) = (Bytes::from(bytes), Dest::group(GroupId(0)));
        let (ingress, scope) = (PortId(0), Scope::GLOBAL);
        let received = Received { source, destination: &destination, ingress, scope, bytes: &bytes };
        self.machine.handle_datagram(time(self.now), received);
        self.drain(false);
        self.sent()
    }

    /// The application takes a message.
    pub(super) fn take(&mut self) -> Option<Delivery> {
        let delivery = self.machine.poll_delivery();
        self.drain(false);
        delivery
    }

    /// The numbers of all messages that the application can take.
    pub(super) fn take_all(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.take()).map(|delivery| delivery.message.0).collect()
    }

    /// What was sent since it was last asked for.
    pub(super) fn sent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.out.sent)
    }

    /// The events since they were last asked for.
    pub(super) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.out.events)
    }

    /// Why packets were dropped since events were last asked for.
    pub(super) fn drops(&mut self) -> Vec<DropReason> {
        let reason = |event| match event {
            Event::Dropped { reason } => Some(reason),
            _ => None,
        };
        self.events().into_iter().filter_map(reason).collect()
    }

    fn drain(&mut self, fired: bool) {
        self.out.fired = fired;
        drain(&mut self.machine, time(self.now), &mut Vec::new(), &mut self.out);
    }
}

/// The member of a rank.
pub(super) fn node(rank: usize) -> NodeId {
    MEMBERS[rank]
}

/// Message `sequence` (from 1 on) of rank 1.
pub(super) fn data(sequence: u32) -> Packet<'static> {
    Packet::Data { source: 1, sequence, payload: b"x" }
}

/// Rank 1 says what it will send next, and how many messages before that it holds.
pub(super) fn status(next: u32, held: u32) -> Packet<'static> {
    Packet::Status(Progress { source: 1, next, held })
}

/// Rank `from` asks rank 0 for a message.
pub(super) fn nak(from: u16, expected: u32) -> Packet<'static> {
    Packet::Nak { from, source: 0, expected }
}

fn time(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

const BASE: &[(&str, &str)] = &[
    ("k", "2"),
    ("t1", "10 ms"),
    ("t2", "100 ms"),
    ("t3", "20 ms"),
    ("send_interval", "0 bit"),
    ("repair_guard", "0 bit"),
];
