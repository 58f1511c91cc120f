//! One site of a group of three, alone on the bench.

use bytes::Bytes;
use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, Dest, DropReason, Event, GroupId, Host, Machine, NodeId,
    OfferError, PortId, Received, Receiver, Scope, Seeds, Sender, Time, Transmit, drain,
};
use carillon_wire::chang_maxemchuk::{Ack, Body, Datagram, Id, Packet};
use carillon_wire::reformation;

use super::super::{ENTRY, Peer};

const ASSOCIATION: AssociationId = AssociationId(7);
/// The nodes of the sites by rank: not in order, so that a rank is not taken for a node.
const NODES: [NodeId; 3] = [NodeId(5), NodeId(9), NodeId(2)];

/// What the site of a rank is told.
pub(super) fn context(rank: usize) -> BuildContext {
    BuildContext {
        association: ASSOCIATION,
        node: NODES[rank],
        sender: NODES[0],
        members: NODES.into(),
        identities: Default::default(),
        group: GroupId(0),
        seeds: Seeds::new(1),
        bit_rate: BitRate::mbps(10),
        link_overhead: 18,
        max_payload: 100,
        rejoining: false,
    }
}

/// A site, the time in milliseconds, and what came out.
pub(super) struct Site {
    machine: Peer,
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
            Dest::Node(node) => format!("rank {}", NODES.iter().position(|other| *other == node).unwrap()),
            _ => "all".to_owned(),
        };
        let packet = Datagram::parse(bytes).unwrap().1.to_string();
        self.sent.push(format!("{} to {to}", packet.strip_prefix("cm ").unwrap()));
    }
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

impl Site {
    /// The site of a rank: L = 1, R = 3, a message repeated after 100 ms, a transfer after 30 ms, a
    /// request after 20 ms, idle after 10 ms, no round of the idle token; other settings on top.
    pub(super) fn new(rank: usize, settings: &[(&str, &str)]) -> Self {
        let mut config = Config::defaults(ENTRY.parameters);
        for (key, value) in [("tail", "none"), ("retries", "3")].iter().chain(settings) {
            config.set(ENTRY.parameters, key, value).unwrap();
        }
        let machine = Peer::new(&context(rank), &config).unwrap();
        let mut site = Site { machine, now: 0, out: Out::default() };
        site.drain();
        site
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

    /// The application offers a message. Returns what was sent.
    pub(super) fn offer(&mut self, payload: &'static str) -> Result<Vec<String>, OfferError> {
        self.machine.offer(time(self.now), Bytes::from_static(payload.as_bytes()))?;
        self.drain();
        Ok(self.sent())
    }

    /// The site of this rank is gone for good. Returns what was sent.
    pub(super) fn expel(&mut self, rank: usize) -> Vec<String> {
        self.machine.expel(time(self.now), NODES[rank]);
        self.drain();
        self.sent()
    }

    pub(super) fn is_finished(&mut self) -> bool {
        self.machine.finish(time(self.now));
        self.drain();
        self.machine.is_finished()
    }

    /// A packet of the normal phase comes in. Returns what was sent.
    pub(super) fn hear(&mut self, from: usize, body: Body<'_>) -> Vec<String> {
        self.hear_in(from, 0, body)
    }

    /// A packet of some list comes in.
    pub(super) fn hear_in(&mut self, from: usize, view: u32, body: Body<'_>) -> Vec<String> {
        self.hear_datagram(from, Datagram::Normal(Packet { view, body }))
    }

    /// A packet of the reformation comes in.
    pub(super) fn agree(&mut self, from: usize, packet: reformation::Packet<'_>) -> Vec<String> {
        self.hear_datagram(from, Datagram::Reformation(packet))
    }

    fn hear_datagram(&mut self, from: usize, datagram: Datagram<'_>) -> Vec<String> {
        let mut bytes = Vec::new();
        datagram.emit(ASSOCIATION, &mut bytes);
        let (bytes, destination) = (Bytes::from(bytes), Dest::group(GroupId(0)));
        let (ingress, scope, source) = (PortId(0), Scope::GLOBAL, NODES[from]);
        let received = Received { source, destination: &destination, ingress, scope, bytes: &bytes };
        self.machine.handle_datagram(time(self.now), received);
        self.drain();
        self.sent()
    }

    /// What the application can take, and takes: "source:number payload".
    pub(super) fn take(&mut self) -> Vec<String> {
        let mut taken = Vec::new();
        while let Some(delivery) = self.machine.poll_delivery() {
            let rank = NODES.iter().position(|node| *node == delivery.source).unwrap();
            let payload = String::from_utf8_lossy(&delivery.payload);
            taken.push(format!("{rank}:{} {payload}", delivery.message.0));
            self.drain();
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

    fn drain(&mut self) {
        self.out.fired = false;
        drain(&mut self.machine, time(self.now), &mut Vec::new(), &mut self.out);
    }
}

pub(super) fn msg(source: u16, number: u64, payload: &str) -> Body<'_> {
    Body::Msg { id: Id { source, number }, payload: payload.as_bytes() }
}

/// The acknowledgment of a message; the token goes from one site to the other.
pub(super) fn ack(timestamp: u64, (source, number): (u16, u64), (site, next): (u16, u16)) -> Body<'static> {
    Body::Ack(Ack { timestamp, site, next, message: Some(Id { source, number }) })
}

/// A transfer of the token that acknowledges nothing.
pub(super) fn transfer(timestamp: u64, (site, next): (u16, u16)) -> Body<'static> {
    Body::Ack(Ack { timestamp, site, next, message: None })
}

/// An acknowledgment with its message.
pub(super) fn repair<'a>(
    timestamp: u64,
    (source, number): (u16, u64),
    (site, next): (u16, u16),
    payload: &'a str,
) -> Body<'a> {
    let ack = Ack { timestamp, site, next, message: Some(Id { source, number }) };
    Body::Repair { ack, payload: payload.as_bytes() }
}

fn time(ms: u64) -> Time {
    Time::ZERO + std::time::Duration::from_millis(ms)
}
