//! Harness for one machine: it gives the machine datagrams and keeps its packets and events.

use bytes::Bytes;
use carillon_core::{
    Dest, DropReason, Event, Host, Machine, NodeId, PortId, Received, Scope, Seeds, Time, Transmit, drain,
};
use carillon_session::LOCAL_NODE;
use carillon_wire::session::{Body, Packet};

use super::harness::GROUP;

/// Takes what a machine sends and says.
#[derive(Default)]
pub struct Outbox {
    pub sent: Vec<(Dest, Vec<u8>)>,
    pub events: Vec<Event>,
}

impl Host for Outbox {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.sent.push((transmit.dest, std::mem::take(bytes)));
    }
    fn event(&mut self, event: &Event) {
        self.events.push(event.clone());
    }
}

impl Outbox {
    /// Drains a machine after its timers, which keeps its side of the contract.
    pub fn drain(machine: &mut dyn Machine, now: Time) -> Outbox {
        let (outbox, next) = Outbox::drained(machine, now);
        assert!(next.is_none_or(|at| at > now), "a timer at {next:?} after the drain at {now}");
        outbox
    }

    /// Drains a machine after a datagram, which can arm a timer that is due at once.
    fn drain_datagram(machine: &mut dyn Machine, now: Time) -> Outbox {
        let (outbox, next) = Outbox::drained(machine, now);
        assert!(next.is_none_or(|at| at >= now), "a timer at {next:?} after the datagram at {now}");
        outbox
    }

    fn drained(machine: &mut dyn Machine, now: Time) -> (Outbox, Option<Time>) {
        let mut outbox = Outbox::default();
        let next = drain(machine, now, &mut Vec::new(), &mut outbox);
        (outbox, next)
    }

    /// Its session packets as text.
    pub fn packets(&self) -> Vec<String> {
        self.sent.iter().filter_map(|(_, bytes)| Some(Packet::parse(bytes).ok()?.to_string())).collect()
    }

    pub fn drops(&self, wanted: DropReason) -> usize {
        self.events.iter().filter(|event| **event == Event::Dropped { reason: wanted }).count()
    }
}

/// Natural destination of a datagram: the group for announcements, else one node.
pub fn natural(bytes: &[u8]) -> Dest {
    match Packet::parse(bytes).map(|packet| packet.body) {
        Ok(
            Body::Invite(_) | Body::Roster(_) | Body::Present { .. } | Body::Measure { .. } | Body::Size(_),
        ) => Dest::group(GROUP),
        _ => Dest::Node(LOCAL_NODE),
    }
}

/// Identity of the member with this nonce.
pub fn identity(nonce: u64) -> u64 {
    named(Seeds::new(nonce).stream("session.proof").bits())
}

/// Identity derived from this proof.
pub fn named(proof: u64) -> u64 {
    Seeds::new(proof).stream("session.identity").bits()
}

/// A member's packet to the sender as it goes out: marked by what only the two know.
pub fn sealed(nonce: u64, mut packet: Vec<u8>) -> Vec<u8> {
    let token = Seeds::new(nonce).stream("session.token").bits() as u32;
    packet[4..8].copy_from_slice(&token.to_be_bytes());
    packet
}

/// Hands a machine a datagram, after the timers due before it, and drains it.
pub fn give(machine: &mut dyn Machine, now: Time, source: NodeId, bytes: &[u8]) -> Outbox {
    give_to(machine, now, source, natural(bytes), bytes)
}

/// Hands over a datagram with another destination than its natural one.
pub fn give_to(
    machine: &mut dyn Machine,
    now: Time,
    source: NodeId,
    destination: Dest,
    bytes: &[u8],
) -> Outbox {
    let outbox = give_unanswered(machine, now, source, &destination, bytes);
    let Some(joins) = answer_to_challenge(bytes, source, &outbox) else { return outbox };
    give_unanswered(machine, now, source, &destination, &joins)
}

/// Hands over a datagram in the name of a node that receives nothing, so that a challenge stays unanswered.
pub fn give_unanswered(
    machine: &mut dyn Machine,
    now: Time,
    source: NodeId,
    destination: &Dest,
    bytes: &[u8],
) -> Outbox {
    machine.handle_timeout(now);
    let bytes = Bytes::copy_from_slice(bytes);
    let datagram = Received { source, destination, ingress: PortId(0), scope: Scope::GLOBAL, bytes: &bytes };
    machine.handle_datagram(now, datagram);
    Outbox::drain_datagram(machine, now)
}

/// The JOIN again with the cookie, as whoever receives at the address says it; nothing if it was not challenged.
pub fn answer_to_challenge(join: &[u8], source: NodeId, outbox: &Outbox) -> Option<Vec<u8>> {
    let Ok(Packet {
        association,
        body: Body::Join { nonce, receive_buffer, part, largest, name, attached, list, .. },
    }) = Packet::parse(join)
    else {
        return None;
    };
    let cookie = outbox.sent.iter().find_map(|(dest, bytes)| match Packet::parse(bytes) {
        Ok(Packet { body: Body::Challenge { nonce: of, cookie }, .. })
            if of == nonce && *dest == Dest::Node(source) =>
        {
            Some(cookie)
        }
        _ => None,
    })?;
    let body = Body::Join {
        nonce,
        receive_buffer,
        part,
        largest,
        name,
        attached,
        cookie: Some(cookie),
        origin: None,
        list,
    };
    let mut bytes = Vec::new();
    Packet { association, body }.emit(&mut bytes);
    Some(bytes)
}

/// Fires a machine's timers and drains it.
pub fn wake(machine: &mut dyn Machine, now: Time) -> Outbox {
    machine.handle_timeout(now);
    Outbox::drain(machine, now)
}
