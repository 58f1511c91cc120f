//! Fixture: one member of a group of three, driven by packets.

use carillon_core::{BuildContext, NodeId};
use carillon_testkit::{ASSOCIATION, PeerFixture, peer_context};
use carillon_wire::erramilli_singh::{Packet, Progress};

use super::super::ENTRY;

/// The nodes of the members by rank.
const MEMBERS: [NodeId; 3] = [NodeId(5), NodeId(9), NodeId(2)];

/// Build context of the member of a rank.
pub(super) fn context(rank: usize, rejoining: bool) -> BuildContext {
    peer_context(&MEMBERS, rank, rejoining)
}

/// A member on the bench.
pub(super) struct Member(PeerFixture);

impl Member {
    /// The first member, with K = 2, T1 = 10 ms, T2 = 100 ms, T3 = 20 ms, no pacing and no guard,
    /// and other settings on top.
    pub(super) fn new(settings: &[(&str, &str)]) -> Self {
        Member::of(context(0, false), settings)
    }

    pub(super) fn of(context: BuildContext, settings: &[(&str, &str)]) -> Self {
        let show = |bytes: &[u8]| {
            let packet = Packet::parse(bytes).unwrap().1.to_string();
            packet.strip_prefix("erramilli-singh ").unwrap().to_owned()
        };
        Member(PeerFixture::new(&ENTRY, &context, &[BASE, settings].concat(), show))
    }

    /// Receives a packet of the member that it names, and returns the packets sent.
    pub(super) fn receive(&mut self, packet: Packet<'_>) -> Vec<String> {
        self.receive_from(MEMBERS[usize::from(packet.sender())], packet)
    }

    /// Receives a packet from a node, and returns the packets sent.
    pub(super) fn receive_from(&mut self, source: NodeId, packet: Packet<'_>) -> Vec<String> {
        let mut bytes = Vec::new();
        packet.emit(ASSOCIATION, &mut bytes);
        self.receive_bytes(source, bytes)
    }

    /// The numbers of all messages that the application can take.
    pub(super) fn take_all(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.take()).map(|delivery| delivery.message.0).collect()
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

/// The member of a rank.
pub(super) fn node(rank: usize) -> NodeId {
    MEMBERS[rank]
}

/// Message `sequence` (from 1 on) of rank 1.
pub(super) fn data(sequence: u32) -> Packet<'static> {
    Packet::Data { source: 1, sequence, payload: b"x" }
}

/// Status of rank 1 with its next number and the number of messages that it holds.
pub(super) fn status(next: u32, held: u32) -> Packet<'static> {
    Packet::Status(Progress { source: 1, next, held })
}

/// Rank `from` asks rank 0 for a message.
pub(super) fn nak(from: u16, expected: u32) -> Packet<'static> {
    Packet::Nak { from, source: 0, expected }
}

const BASE: &[(&str, &str)] = &[
    ("k", "2"),
    ("t1", "10 ms"),
    ("t2", "100 ms"),
    ("t3", "20 ms"),
    ("send_interval", "0 bit"),
    ("repair_guard", "0 bit"),
];
