//! Fixture of one member of a group of four.

use carillon_core::{BuildContext, Event, NodeId};
use carillon_testkit::{ASSOCIATION, PeerFixture, peer_context};
use carillon_wire::srm::{Answer, Data, Entries, Packet, Request, Session};

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
    /// Creates the member of rank 0 with the given settings. The others are 10 ms away; requests wait for 2 d = 20 ms
    /// and repairs for d = 10 ms. Session messages are 1000 s apart.
    pub(super) fn new(settings: &[(&str, &str)]) -> Self {
        Member::of(context(0, false), settings)
    }

    pub(super) fn of(context: BuildContext, settings: &[(&str, &str)]) -> Self {
        let show = |bytes: &[u8]| {
            let packet = Packet::parse(bytes).unwrap().1.to_string();
            packet.strip_prefix("srm ").unwrap().to_owned()
        };
        Member(PeerFixture::new(&ENTRY, &context, &[BASE, settings].concat(), show))
    }

    /// Receives a packet from the member named in it. Returns the packets sent.
    pub(super) fn receive(&mut self, packet: Packet<'_>) -> Vec<String> {
        let mut bytes = Vec::new();
        packet.emit(ASSOCIATION, &mut bytes);
        self.receive_bytes(MEMBERS[packet.sender() as usize], bytes)
    }

    /// Receives an original of rank 1.
    pub(super) fn data(&mut self, sequence: u32) -> Vec<String> {
        self.receive(Packet::Data(Data { from: 1, source: 1, sequence, payload: &[sequence as u8] }))
    }

    /// Receives a repair of a message of rank 1.
    pub(super) fn repair(&mut self, from: u32, sequence: u32, requester: u32) -> Vec<String> {
        let data = Data { from, source: 1, sequence, payload: &[sequence as u8] };
        let answer = Answer { round: 1, scope: 255, again: 0, distance_us: 10_000, requester };
        self.receive(Packet::Repair { data, answer })
    }

    /// Receives a request for a message of rank 1.
    pub(super) fn request(&mut self, from: u32, sequence: u32) -> Vec<String> {
        self.request_of(1, from, sequence)
    }

    /// Receives a request for a message of the given source.
    pub(super) fn request_of(&mut self, source: u32, from: u32, sequence: u32) -> Vec<String> {
        let (round, scope, distance_us) = (1, 255, 10_000);
        self.receive(Packet::Request(Request { from, source, sequence, round, scope, distance_us }))
    }

    /// Receives a session message: messages before `next` were sent, and those from `oldest` on are held.
    pub(super) fn session(&mut self, from: u32, number: u32, next: u32, oldest: u32) -> Vec<String> {
        let (sources, others) = (Entries::default(), Entries::default());
        let clock_us = number * 1_000_000;
        self.receive(Packet::Session(Session { from, number, clock_us, next, oldest, sources, others }))
    }

    /// Takes the numbers of all deliverable messages.
    pub(super) fn take_all(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.take()).map(|delivery| delivery.message.0).collect()
    }

    /// Takes the events about losses since the last call, as name and message.
    pub(super) fn losses(&mut self) -> Vec<(&'static str, u64)> {
        let told = |event| match event {
            Event::LossFound { message, .. } => Some(("found", message.0)),
            Event::LossRepaired { message, .. } => Some(("repaired", message.0)),
            Event::LossFinal { message, .. } => Some(("final", message.0)),
            Event::Requested { message, .. } => Some(("requested", message.0)),
            Event::RequestSuppressed { message } => Some(("suppressed", message.0)),
            Event::Dropped { reason: carillon_core::DropReason::Redundant } => Some(("redundant", 0)),
            Event::Dropped { reason: carillon_core::DropReason::Duplicate } => Some(("duplicate", 0)),
            _ => None,
        };
        self.events().into_iter().filter_map(told).collect()
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

/// Expected request in text form.
pub(super) fn request(round: u32, sequence: u32) -> String {
    format!("request from 0 source 1 seq {sequence} round {round} distance 10000 us scope 255 to all")
}

/// Expected repair in text form.
pub(super) fn repair(sequence: u32, requester: u32, round: u32) -> String {
    format!(
        "repair from 0 source 1 seq {sequence} for {requester} round {round} distance 10000 us scope 255 again 0 len 1 to all"
    )
}

const BASE: &[(&str, &str)] = &[
    ("timers", "deterministic"),
    ("initial_distance", "10 ms"),
    ("session_ivl", "1000 s"),
    ("request_bytes", "0 byte"),
    ("request_ivl", "0 bit"),
];
