//! Fixture: one site of a group of three, driven by packets.

use carillon_core::{BuildContext, NodeId, OfferError};
use carillon_testkit::{ASSOCIATION, PeerFixture, peer_context};
use carillon_wire::chang_maxemchuk::{Ack, Body, Datagram, Id, Packet};
use carillon_wire::reformation;

use super::super::ENTRY;

/// The nodes of the sites by rank.
const NODES: [NodeId; 3] = [NodeId(5), NodeId(9), NodeId(2)];

/// Build context of the site of a rank.
pub(super) fn context(rank: usize) -> BuildContext {
    peer_context(&NODES, rank, false)
}

/// Fixture of one site.
pub(super) struct Site(PeerFixture);

impl Site {
    /// Creates the site of a rank with L = 1 and R = 3. A message is repeated after 100 ms, a transfer after 30 ms
    /// and a request after 20 ms. The group is idle after 10 ms and the idle token does not go around; `settings`
    /// come on top.
    pub(super) fn new(rank: usize, settings: &[(&str, &str)]) -> Self {
        let show = |bytes: &[u8]| {
            let packet = Datagram::parse(bytes).unwrap().1.to_string();
            packet.strip_prefix("cm ").unwrap().to_owned()
        };
        let settings = [&[("tail", "none"), ("retries", "3")], settings].concat();
        Site(PeerFixture::new(&ENTRY, &context(rank), &settings, show))
    }

    /// Offers a message of the application and returns the packets sent.
    pub(super) fn offer(&mut self, payload: &'static str) -> Result<Vec<String>, OfferError> {
        self.0.offer(payload)?;
        Ok(self.sent())
    }

    pub(super) fn is_finished(&mut self) -> bool {
        self.finish();
        self.0.is_finished()
    }

    /// Receives a packet of the normal phase and returns the packets sent.
    pub(super) fn receive(&mut self, from: usize, body: Body<'_>) -> Vec<String> {
        self.receive_in(from, 0, body)
    }

    /// Receives a packet of the given list and returns the packets sent.
    pub(super) fn receive_in(&mut self, from: usize, view: u32, body: Body<'_>) -> Vec<String> {
        self.receive_datagram(from, Datagram::Normal(Packet { view, body }))
    }

    /// Receives a packet of the reformation and returns the packets sent.
    pub(super) fn agree(&mut self, from: usize, packet: reformation::Packet<'_>) -> Vec<String> {
        self.receive_datagram(from, Datagram::Reformation(packet))
    }

    fn receive_datagram(&mut self, from: usize, datagram: Datagram<'_>) -> Vec<String> {
        let mut bytes = Vec::new();
        datagram.emit(ASSOCIATION, &mut bytes);
        self.receive_bytes(NODES[from], bytes)
    }

    /// Takes all deliverable messages as "source:number payload".
    pub(super) fn take(&mut self) -> Vec<String> {
        let mut taken = Vec::new();
        while let Some(delivery) = self.0.take() {
            let payload = String::from_utf8_lossy(&delivery.payload);
            taken.push(format!("{}:{} {payload}", self.rank(delivery.source), delivery.message.0));
        }
        taken
    }
}

impl std::ops::Deref for Site {
    type Target = PeerFixture;
    fn deref(&self) -> &PeerFixture {
        &self.0
    }
}

impl std::ops::DerefMut for Site {
    fn deref_mut(&mut self) -> &mut PeerFixture {
        &mut self.0
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
