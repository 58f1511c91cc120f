//! Fixture: one member of a group of three, driven by packets.

use carillon_core::NodeId;
use carillon_testkit::{ASSOCIATION, PeerFixture, peer_context};
use carillon_wire::rmp::{Batch, Body, Datagram, Id, Ids, Message, Packet, Quality};

use super::super::ENTRY;

/// The nodes of the members by rank.
const NODES: [NodeId; 3] = [NodeId(5), NodeId(9), NodeId(2)];

/// Fixture of one member.
pub(super) struct Member(PeerFixture);

impl Member {
    /// Creates the member of a rank. An ACK is repeated after 30 ms, a NACK is sent at once and repeated after 30 ms,
    /// and the group is confirmed after 2 ms; `settings` come on top.
    pub(super) fn new(rank: usize, settings: &[(&str, &str)]) -> Self {
        Member::with(rank, settings, false)
    }

    /// Creates a member that has lost its state.
    pub(super) fn rejoining(rank: usize, settings: &[(&str, &str)]) -> Self {
        Member::with(rank, settings, true)
    }

    fn with(rank: usize, settings: &[(&str, &str)], rejoining: bool) -> Self {
        let show = |bytes: &[u8]| {
            let packet = Datagram::parse(bytes).unwrap().1.to_string();
            packet.strip_prefix("rmp ").unwrap().replace("view 0 ", "")
        };
        let settings = [&[("nack_delay", "0 ms"), ("retries", "3")], settings].concat();
        Member(PeerFixture::new(&ENTRY, &peer_context(&NODES, rank, rejoining), &settings, show))
    }

    /// Offers a message of the application and returns the packets sent.
    pub(super) fn offer(&mut self, payload: &'static str) -> Vec<String> {
        self.0.offer(payload).unwrap();
        self.sent()
    }

    /// Receives a packet and returns the packets sent.
    pub(super) fn receive(&mut self, from: usize, body: Body<'_>) -> Vec<String> {
        self.receive_packet(from, Datagram::Normal(Packet { view: 0, body }))
    }

    /// Receives any packet and returns the packets sent.
    pub(super) fn receive_packet(&mut self, from: usize, packet: Datagram<'_>) -> Vec<String> {
        let mut bytes = Vec::new();
        packet.emit(ASSOCIATION, &mut bytes);
        self.receive_bytes(NODES[from], bytes)
    }

    /// Takes all deliverable messages as "source:number".
    pub(super) fn take(&mut self) -> Vec<String> {
        let deliveries = std::iter::from_fn(|| self.0.take()).collect::<Vec<_>>();
        deliveries.iter().map(|d| format!("{}:{}", self.0.rank(d.source), d.message.0)).collect()
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

/// Message of this quality with the payload "m"; sequence and number are equal.
pub(super) fn data(source: u16, number: u64, quality: Quality) -> Body<'static> {
    let id = Id { source, sequence: number };
    Body::Data(Message { id, quality, number, payload: b"m" })
}

/// Acknowledgment of these messages, which passes the token on.
pub(super) fn ack(
    member: &mut Member,
    timestamp: u64,
    (site, next): (u16, u16),
    ids: &[(u16, u64)],
) -> Vec<String> {
    let mut bytes = Vec::new();
    ids.iter().for_each(|&(source, sequence)| Id { source, sequence }.emit(&mut bytes));
    let batch = if ids.is_empty() { Batch::Null } else { Batch::Messages(Ids::new(&bytes)) };
    member.receive(site.into(), Body::Ack { timestamp, site, next, batch })
}
