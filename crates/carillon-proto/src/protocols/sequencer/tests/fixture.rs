//! Fixture of one member of a group of four.

use carillon_core::{BuildContext, NodeId};
use carillon_testkit::{ASSOCIATION, PeerFixture, peer_context};
use carillon_wire::reformation::{self, Ranks};
use carillon_wire::sequencer::{Body, Packet, Report, Status};

use super::super::ENTRY;

/// Nodes of the members by rank.
pub(super) const MEMBERS: [NodeId; 4] = [NodeId(5), NodeId(9), NodeId(2), NodeId(7)];

/// Build context of the member with this rank.
pub(super) fn context(rank: usize, rejoining: bool) -> BuildContext {
    peer_context(&MEMBERS, rank, rejoining)
}

/// Fixture with a single member under test.
pub(super) struct Member(PeerFixture);

impl Member {
    /// Creates the member of a rank with resilience 0 and the given settings.
    pub(super) fn new(rank: usize, settings: &[(&str, &str)]) -> Self {
        Member::of(context(rank, false), settings)
    }

    pub(super) fn of(context: BuildContext, settings: &[(&str, &str)]) -> Self {
        let show = |bytes: &[u8]| {
            let packet = Packet::parse(bytes).unwrap().1.to_string();
            packet.strip_prefix("sequencer ").unwrap().to_owned()
        };
        Member(PeerFixture::new(&ENTRY, &context, &[&[("resilience", "0")], settings].concat(), show))
    }

    /// Receives a packet of view 0 from a rank. Returns the packets sent.
    pub(super) fn receive(&mut self, rank: usize, body: Body<'_>) -> Vec<String> {
        self.receive_in(0, rank, body)
    }

    /// Receives a packet of the given view from a rank. Returns the packets sent.
    pub(super) fn receive_in(&mut self, view: u32, rank: usize, body: Body<'_>) -> Vec<String> {
        self.receive_packet(MEMBERS[rank], Packet::Normal { view, body })
    }

    /// Receives a packet of the reformation. Returns the packets sent.
    pub(super) fn agree(&mut self, rank: usize, packet: reformation::Packet<'_>) -> Vec<String> {
        self.receive_packet(MEMBERS[rank], Packet::Reformation(packet))
    }

    /// Receives a packet from a node. Returns the packets sent.
    pub(super) fn receive_packet(&mut self, source: NodeId, packet: Packet<'_>) -> Vec<String> {
        let mut bytes = Vec::new();
        packet.emit(ASSOCIATION, &mut bytes);
        self.receive_bytes(source, bytes)
    }

    /// Takes all deliverable messages, each as the rank of its source and its number.
    pub(super) fn take_all(&mut self) -> Vec<(usize, u64)> {
        let mut taken = Vec::new();
        while let Some(delivery) = self.take() {
            taken.push((self.rank(delivery.source), delivery.message.0));
        }
        taken
    }
}

impl std::ops::Deref for Member {
    type Target = PeerFixture;
    fn deref(&self) -> &PeerFixture {
        &self.0
    }
}

impl std::ops::DerefMut for Member {
    fn deref_mut(&mut self) -> &mut PeerFixture {
        &mut self.0
    }
}

/// ORDERED packet of a member's message; `accepted` messages are accepted and none is purged.
pub(super) fn ordered(order: u32, accepted: u32, source: u8, message: u32) -> Body<'static> {
    Body::Ordered { order, accepted, purge: 0, source, message, payload: Some(b"m") }
}

/// Request of a member to order a message.
pub(super) fn request(ack: u32, message: u32) -> Body<'static> {
    Body::Request { ack, message, broadcast: false, payload: b"m" }
}

/// Report of a member.
pub(super) fn report(kind: Report, ack: u32) -> Body<'static> {
    Body::Report { kind, ack }
}

/// STATUS of the sequencer that polls these ranks.
pub(super) fn status(kind: Status, next: u32, accepted: u32, wanted: &[usize]) -> Body<'static> {
    let wanted: Ranks = wanted.iter().copied().collect();
    Body::Status { kind, next, accepted, purge: 0, wanted }
}
