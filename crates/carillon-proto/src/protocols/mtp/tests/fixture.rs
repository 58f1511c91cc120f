//! Fixture of one member of a web of four. Rank 0 is the master.

use carillon_core::{BuildContext, NodeId, ProtocolEntry};
use carillon_testkit::{ASSOCIATION, PeerFixture, peer_context};
use carillon_wire::mtp::{
    Acceptance, Body, Empty, HORIZON, Header, Identifiers, Mark, Packet, Range, Ranges, Reply, Status, Terms,
    member_id,
};

use super::super::{ENTRY, MTP2_ENTRY};

/// Nodes of the members by rank.
pub(super) const MEMBERS: [NodeId; 4] = [NodeId(5), NodeId(9), NodeId(2), NodeId(7)];

/// Heartbeat of the fixture in milliseconds.
pub(super) const HEARTBEAT: u64 = 200;

/// Fixture with a single member under test.
pub(super) struct Member {
    fixture: PeerFixture,
    rank: usize,
    view: Option<u32>,
}

/// Acceptance record as text: the message and packet, and the status of the messages before, such as `ap`. The status
/// of further messages is pending.
pub(super) fn record(message: u16, packet: u16, before: &str) -> Acceptance {
    let mut status = [Status::Pending; HORIZON];
    for (status, letter) in status.iter_mut().zip(before.chars()) {
        *status = match letter {
            'a' => Status::Accepted,
            'r' => Status::Rejected,
            _ => Status::Pending,
        };
    }
    Acceptance { synchro: 0, status, message, packet }
}

impl Member {
    /// Creates a member of MTP that has not joined.
    pub(super) fn joining(rank: usize, settings: &[(&str, &str)]) -> Self {
        Member::of(&ENTRY, &peer_context(&MEMBERS, rank, false), rank, settings, None)
    }

    /// Creates a member of MTP in a web that all members have joined.
    pub(super) fn new(rank: usize, settings: &[(&str, &str)]) -> Self {
        let mut member = Member::joining(rank, settings);
        match rank {
            0 => (1..4).for_each(|other| _ = member.receive(other, record(0, 0, ""), join(Reply::Request))),
            _ => _ = member.receive(0, record(0, 0, ""), join(Reply::Confirm)),
        }
        member.sent();
        member.events();
        member
    }

    /// Creates a member of MTP-2 in its first view.
    pub(super) fn of_view(rank: usize, settings: &[(&str, &str)]) -> Self {
        Member::of(&MTP2_ENTRY, &peer_context(&MEMBERS, rank, false), rank, settings, Some(0))
    }

    fn of(
        entry: &'static ProtocolEntry,
        context: &BuildContext,
        rank: usize,
        settings: &[(&str, &str)],
        view: Option<u32>,
    ) -> Self {
        let show = |bytes: &[u8]| {
            let line = Packet::parse(bytes).unwrap().to_string();
            // The status of messages that do not exist yet is of no interest.
            let words = line.split(' ').skip(1).filter(|word| *word != "status");
            let short = words.map(|word| {
                let is_vector = word.len() == HORIZON && word.chars().all(|letter| "apr".contains(letter));
                if is_vector { word[..3].to_owned() } else { word.to_owned() }
            });
            short.collect::<Vec<_>>().join(" ")
        };
        Member { fixture: PeerFixture::new(entry, context, settings, show), rank, view }
    }

    /// Receives a packet from a rank. Returns the packets sent.
    pub(super) fn receive(&mut self, from: usize, acceptance: Acceptance, body: Body<'_>) -> Vec<String> {
        self.receive_stream(from, acceptance, body, 0)
    }

    /// Sets the view of the packets to receive.
    pub(super) fn set_view(&mut self, view: u32) {
        self.view = Some(view);
    }

    /// Receives a packet of a stream from a rank. Returns the packets sent.
    pub(super) fn receive_stream(
        &mut self,
        from: usize,
        acceptance: Acceptance,
        body: Body<'_>,
        subchannel: u8,
    ) -> Vec<String> {
        let destination = match body {
            Body::Data(..) | Body::Empty(_) => ASSOCIATION.0,
            Body::Join(Reply::Request, _) => 0,
            _ => member_id(ASSOCIATION, self.rank),
        };
        let source = member_id(ASSOCIATION, from);
        let header = Header {
            view: self.view,
            subchannel,
            source,
            destination,
            acceptance,
            heartbeat: HEARTBEAT as u32,
            window: 20,
            retention: 3,
        };
        self.receive_packet(from, Packet { header, body })
    }

    /// Receives a whole packet from a rank. Returns the packets sent.
    pub(super) fn receive_packet(&mut self, from: usize, packet: Packet<'_>) -> Vec<String> {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        self.fixture.receive_bytes(MEMBERS[from], bytes)
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
        &self.fixture
    }
}

impl std::ops::DerefMut for Member {
    fn deref_mut(&mut self) -> &mut PeerFixture {
        &mut self.fixture
    }
}

/// Join packet.
pub(super) fn join(reply: Reply) -> Body<'static> {
    let terms =
        Terms { class: 1, reliability: 0, kind: 0, throughput: 0, data_unit: 1000, web: ASSOCIATION.0 };
    Body::Join(reply, terms)
}

/// Last packet of a message, with the first message of its source.
pub(super) fn eom() -> Body<'static> {
    Body::Data(Mark::EndOfMessage, &[0, 0, 0, 0, b'm'])
}

/// Data packet with this number of the application's message.
pub(super) fn data(mark: Mark, number: u8) -> Body<'static> {
    const DATA: [[u8; 5]; 4] =
        [[0, 0, 0, 0, b'm'], [0, 0, 0, 1, b'm'], [0, 0, 0, 2, b'm'], [0, 0, 0, 3, b'm']];
    Body::Data(mark, &DATA[usize::from(number)])
}

/// Confirm of a token.
pub(super) fn token() -> Body<'static> {
    Body::TokenConfirm(Identifiers::new(&[[0, 0, 0, 7]]))
}

/// Empty packet of the master.
pub(super) fn dally() -> Body<'static> {
    Body::Empty(Empty::Dally)
}

/// Bytes of a NAK of one range: packets of one message.
pub(super) fn range(message: u16, low: u16, high: u16) -> [[u8; 8]; 1] {
    [Range { low: (message, low), high: (message, high) }.bytes()]
}

/// NAK of these ranges.
pub(super) fn nak(bytes: &[[u8; 8]]) -> Body<'_> {
    Body::Nak(Ranges::new(bytes))
}
