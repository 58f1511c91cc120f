//! One member of a group of four, alone on the bench.

use bytes::Bytes;
use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, Dest, DropReason, Duration, Event, GroupId, Host, Machine,
    NodeId, OfferError, PortId, Received, Receiver, Scope, Seeds, Sender, Time, Transmit, drain,
};
use carillon_wire::reformation::{self, Ranks};
use carillon_wire::sequencer::{Body, Packet, Report, Status};

use super::super::{ENTRY, SequencerPeer};

const ASSOCIATION: AssociationId = AssociationId(7);
/// The nodes of the members by rank: not in order, so that a rank is not taken for a node.
pub(super) const MEMBERS: [NodeId; 4] = [NodeId(5), NodeId(9), NodeId(2), NodeId(7)];

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
    machine: SequencerPeer,
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
        self.sent.push(format!("{} to {to}", packet.strip_prefix("sequencer ").unwrap()));
    }
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

impl Member {
    /// The member of a rank, with resilience 0 and other settings on top.
    pub(super) fn new(rank: usize, settings: &[(&str, &str)]) -> Self {
        Member::of(context(rank, false), settings)
    }

    pub(super) fn of(context: BuildContext, settings: &[(&str, &str)]) -> Self {
        let mut config = Config::defaults(ENTRY.parameters);
        for (key, value) in [("resilience", "0")].iter().chain(settings) {
            config.set(ENTRY.parameters, key, value).unwrap();
        }
        let machine = SequencerPeer::new(&context, &config).unwrap();
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

    /// The member of this rank is gone for good. Returns what was sent.
    pub(super) fn expel(&mut self, rank: usize) -> Vec<String> {
        self.machine.expel(time(self.now), MEMBERS[rank]);
        self.drain(false);
        self.sent()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.machine.is_finished()
    }

    /// A packet of view 0 comes in from the member of a rank. Returns what was sent.
    pub(super) fn hear(&mut self, rank: usize, body: Body<'_>) -> Vec<String> {
        self.hear_in(0, rank, body)
    }

    /// The same of another view.
    pub(super) fn hear_in(&mut self, view: u32, rank: usize, body: Body<'_>) -> Vec<String> {
        self.take_in(MEMBERS[rank], Packet::Normal { view, body })
    }

    /// A packet of the agreement on a view.
    pub(super) fn agree(&mut self, rank: usize, packet: reformation::Packet<'_>) -> Vec<String> {
        self.take_in(MEMBERS[rank], Packet::Reformation(packet))
    }

    /// A packet comes in from a node.
    pub(super) fn take_in(&mut self, source: NodeId, packet: Packet<'_>) -> Vec<String> {
        let mut bytes = Vec::new();
        packet.emit(ASSOCIATION, &mut bytes);
        self.hear_bytes(source, bytes)
    }

    pub(super) fn hear_bytes(&mut self, source: NodeId, bytes: Vec<u8>) -> Vec<String> {
        let (bytes, destination) = (Bytes::from(bytes), Dest::group(GroupId(0)));
        let (ingress, scope) = (PortId(0), Scope::GLOBAL);
        let received = Received { source, destination: &destination, ingress, scope, bytes: &bytes };
        self.machine.handle_datagram(time(self.now), received);
        self.drain(false);
        self.sent()
    }

    /// All messages that the application can take: the rank of the source and the number.
    pub(super) fn take_all(&mut self) -> Vec<(usize, u64)> {
        let mut taken = Vec::new();
        while let Some(delivery) = self.machine.poll_delivery() {
            let rank = MEMBERS.iter().position(|member| *member == delivery.source).unwrap();
            taken.push((rank, delivery.message.0));
            self.drain(false);
        }
        taken
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

fn time(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// A message of a member in its place, when so many are accepted and none is purged.
pub(super) fn ordered(order: u32, accepted: u32, source: u8, message: u32) -> Body<'static> {
    Body::Ordered { order, accepted, purge: 0, source, message, payload: Some(b"m") }
}

/// A member asks for the next place.
pub(super) fn request(ack: u32, message: u32) -> Body<'static> {
    Body::Request { ack, message, broadcast: false, payload: b"m" }
}

/// What a member has.
pub(super) fn report(kind: Report, ack: u32) -> Body<'static> {
    Body::Report { kind, ack }
}

/// What the sequencer says to these ranks.
pub(super) fn status(kind: Status, next: u32, accepted: u32, wanted: &[usize]) -> Body<'static> {
    let wanted: Ranks = wanted.iter().copied().collect();
    Body::Status { kind, next, accepted, purge: 0, wanted }
}
