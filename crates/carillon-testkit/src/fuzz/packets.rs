//! Datagrams made of fuzzed bytes, most of them well formed.

use carillon_core::{AssociationId, NodeId, PortId};
use carillon_wire::envelope::Envelope;
use carillon_wire::session::{
    Body, Identity, Invite, Name, Nonce, Packet, Peer, PeerList, Proof, RefuseReason, RosterPage, Settings,
    State, Text,
};
use carillon_wire::{
    chang_maxemchuk, erramilli_singh, lms, mbap, msaw, pgm, reformation, rra, sequencer, srm,
};

use super::Input;

/// What an attentive neighbour of the machine knows.
#[derive(Clone, Debug)]
pub struct Known {
    /// The session's number.
    pub association: AssociationId,
    /// The node of its sender.
    pub sender: NodeId,
    /// The protocol's name.
    pub protocol: &'static str,
    /// Settings for invitations, and how they were last changed.
    pub settings: &'static [&'static str],
    /// The last nonce the machine used.
    pub nonce: Nonce,
}

/// Makes a datagram.
pub type Source = fn(&mut Input<'_>, &Known, &mut Vec<u8>);

impl Known {
    /// What is known before the machine has said anything.
    pub const fn new(association: AssociationId, sender: NodeId, protocol: &'static str) -> Self {
        Known { association, sender, protocol, settings: &[], nonce: Nonce(0) }
    }

    /// Learns from a datagram of the machine.
    pub(super) fn overhear(&mut self, bytes: &[u8]) {
        if let Ok(Packet { body: Body::Join { nonce, .. }, .. }) = Packet::parse(bytes) {
            self.nonce = nonce;
        }
    }
}

/// Any bytes, or any behind a good envelope.
pub fn any(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    let form = input.byte();
    if form & 1 == 0 {
        Envelope {
            protocol: form >> 1 & 3,
            packet_type: form >> 3 & 15,
            association: association(input, known),
        }
        .emit(buf);
    }
    let len = input.below(24);
    buf.extend_from_slice(input.bytes(len));
}

/// Packets of stop-and-wait.
pub fn msaw(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), association(input, known));
    let sequence = form >> 1 & 1;
    let near = form >> 4 & 7;
    let packet = match (form & 1, form & 0x80, form >> 2 & 3) {
        (0, 0, 3) if form & 0x40 != 0 => {
            let ack_wait = u32::from_be_bytes([input.byte(), input.byte(), input.byte(), input.byte()]);
            msaw::Packet::Timed { sequence, ack_wait, payload: input.bytes(near.into()) }
        }
        (0, 0, _) => msaw::Packet::Data { sequence, payload: input.bytes(near.into()) },
        (_, 0, _) => msaw::Packet::Ack { sequence },
        (0, _, 0) => msaw::Packet::Announce { sequence: near, first: input.byte() & 7, round: sequence },
        (0, _, 1) => msaw::Packet::Poll { sequence: near, first: input.byte() & 7, round: sequence },
        (0, _, _) => msaw::Packet::Numbered { sequence: near, payload: input.bytes(near.into()) },
        (_, _, 0) => msaw::Packet::AckUpTo { sequence: input.byte() },
        (_, _, 1) => msaw::Packet::AckUpTo { sequence: near },
        (_, _, _) => msaw::Packet::Nak { sequence: near, round: input.byte() & 3 },
    };
    packet.emit(association, buf);
    buf.resize(buf.len() + usize::from(form >> 2 & 3), 0);
}

/// Packets of block acknowledgment; most sequence numbers are small.
pub fn mbap(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), association(input, known));
    let sequence = match form >> 1 & 7 {
        0 => u16::from_be_bytes([input.byte(), input.byte()]),
        _ => u16::from(input.byte() % 24),
    };
    let packet = match (form & 1, form >> 4 & 1) {
        (0, _) if form & 0xe0 == 0 => mbap::Packet::Poll { sequence, payload: b"poll" },
        (0, _) if form & 0xe0 == 0x20 => {
            let ack_wait = u32::from_be_bytes([input.byte(), input.byte(), input.byte(), input.byte()]);
            mbap::Packet::Timed { sequence, ack_wait, payload: b"timed" }
        }
        (0, _) => mbap::Packet::Data { sequence, payload: input.bytes(usize::from(form >> 4)) },
        (_, 0) => mbap::Packet::Ack { sequence },
        _ => mbap::Packet::Nak { sequence },
    };
    packet.emit(association, buf);
}

/// Packets of round-robin acknowledgment with fuzzed fields, near the start of the numbers.
pub fn rra(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), association(input, known));
    let number = |input: &mut Input<'_>| match form >> 2 & 7 {
        0 => u32::from_be_bytes([input.byte(), input.byte(), input.byte(), input.byte()]),
        _ => u32::from(input.byte() % 24),
    };
    let (sequence, first) = (number(input), number(input));
    let asks = rra::Asks { acker: input.pick(&[1, 2, 3]), question: u32::from(input.byte() % 24) + 1 };
    let short = usize::from(form >> 5);
    let packet = match form & 3 {
        0 => rra::Packet::Data { sequence, first, asks: None, payload: input.bytes(short) },
        1 => rra::Packet::Data { sequence, first, asks: Some(asks), payload: input.bytes(short) },
        2 => rra::Packet::Poll { sequence, first, asks },
        _ => rra::Packet::Ack {
            expected: sequence,
            question: asks.question,
            arrived: first,
            room: asks.acker as u16 * 8,
            received: rra::Map::new(input.bytes(8 * (short & 3))),
        },
    };
    packet.emit(association, buf);
}

/// Packets of PGM with fuzzed fields, near the start of the numbers or anywhere.
pub fn pgm(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    use pgm::{Body, Data, Nak, NakList, Options, Packet, Poll, Spm, Tsi};
    let (form, association) = (input.byte(), association(input, known).0);
    let number = |input: &mut Input<'_>| match form >> 5 {
        0 => input.u32(),
        1 => u32::from(input.byte()).wrapping_sub(128),
        _ => u32::from(input.byte() % 32),
    };
    let [a, b, c, d] = association.to_be_bytes();
    let tsi = Tsi { gsi: [b'C', b'L', a, b, c, d], port: 20_000 + (association % 10_000) as u16 };
    let address = |node: u8| std::net::IpAddr::from([10, 0, 0, node]);
    let (sqn, trail) = (number(input), number(input));
    let group = std::net::IpAddr::from([239, 255, 0, 1]);
    let nak = Nak { sqn, source: address(3), group };
    let more = 4 * input.below(4);
    let list = input.bytes(more);
    let payload = list;
    let body = match form & 15 {
        0..=2 => Body::Odata(Data { sqn, trail, payload }),
        3 | 4 => Body::Rdata(Data { sqn, trail, payload }),
        5..=8 => {
            Body::Spm(Spm { sqn: input.byte().into(), trail, lead: sqn, path: address(input.byte() % 12) })
        }
        9..=11 => Body::Nak(nak),
        12 | 13 => Body::Ncf(nak),
        14 => Body::Nnak(nak),
        _ => match trail % 4 {
            0 => Body::Spmr,
            1 => {
                let (subtype, path) = (1 - (trail >> 2 & 1) as u16, address(input.byte() % 12));
                let (back_off_us, mask) = (input.u32(), trail >> 3 & 1);
                Body::Poll(Poll { sqn: sqn % 8, round: 0, subtype, path, back_off_us, random: 0, mask })
            }
            _ => Body::Polr { sqn: sqn % 8, round: 0 },
        },
    };
    let redirect = matches!(body, Body::Polr { .. }).then(|| address((trail >> 2) as u8 % 12));
    let extra = input.byte();
    let options = Options {
        nak_list: NakList::from_bytes(if extra & 1 == 1 { list } else { &[] }).unwrap_or_default(),
        join: (extra & 2 != 0).then_some(trail),
        fin: extra & 4 != 0,
        reset: (extra & 56 == 56).then_some(extra),
        neighbour_unreachable: extra & 0xc0 == 0xc0,
        redirect,
        ..Options::default()
    };
    Packet { tsi, destination_port: 7500, body, options }.emit(buf);
}

/// Packets of Erramilli and Singh with fuzzed fields; most ranks are those of other members, most
/// numbers near the start of the range.
pub fn erramilli_singh(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    use erramilli_singh::{Packet, Progress};
    let (form, association) = (input.byte(), association(input, known));
    let rank = |input: &mut Input<'_>| u16::from(input.byte() % 6);
    let number = |input: &mut Input<'_>| match form >> 3 & 7 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 24),
    };
    let from = rank(input);
    let packet = match form & 7 {
        0..=2 => {
            let sequence = number(input);
            Packet::Data { source: from, sequence, payload: input.bytes(usize::from(form >> 6)) }
        }
        3 => Packet::Status(Progress { source: from, next: number(input), held: number(input) }),
        4 => Packet::Sanity(Progress { source: from, next: number(input), held: number(input) }),
        5 | 6 => Packet::Nak { from, source: rank(input), expected: number(input) },
        _ => Packet::Choke { from, pause_us: number(input) },
    };
    packet.emit(association, buf);
}

/// Packets of SRM: from any member, and one who is none.
pub fn srm(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    use srm::{Answer, Data, Entries, Entry, Packet, Request, Session};
    let (form, association) = (input.byte(), association(input, known));
    let rank = |input: &mut Input<'_>| u32::from(input.byte() % 6);
    let number = |input: &mut Input<'_>| match form >> 3 & 7 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 40),
    };
    let (from, sequence) = (rank(input), number(input));
    let (round, scope) = (input.byte() % 4, input.pick(&[255, 255, 1, 4]));
    let mut entries = Vec::new();
    match form & 7 {
        0 | 1 => {
            let payload = input.bytes(usize::from(form >> 6));
            Packet::Data(Data { from, source: from, sequence, payload }).emit(association, buf);
        }
        2 | 3 => {
            let (source, requester, distance_us) = (rank(input), rank(input), number(input));
            let data = Data { from, source, sequence, payload: input.bytes(usize::from(form >> 6)) };
            let answer = Answer { round, scope, again: input.byte() % 3, distance_us, requester };
            Packet::Repair { data, answer }.emit(association, buf);
        }
        4 | 5 => {
            let (source, distance_us) = (rank(input), number(input));
            let request = Request { from, source, sequence, round, scope, distance_us };
            Packet::Request(request).emit(association, buf);
        }
        _ => {
            let (clock_us, next, oldest) = (number(input), number(input), number(input));
            for _ in 0..input.below(6) {
                let (member, next) = (rank(input), number(input));
                let (came_us, sent_us) = (number(input), number(input));
                entries.push(Entry { member, next, came_us, sent_us }.to_bytes());
            }
            let (sources, others) = entries.split_at(input.below(entries.len() + 1));
            let (sources, others) = (Entries::new(sources), Entries::new(others));
            let session = Session { from, number: sequence, clock_us, next, oldest, sources, others };
            Packet::Session(session).emit(association, buf);
        }
    }
}

/// Packets of the sequencer protocol, of small views and places for the most part.
pub fn sequencer(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    use sequencer::{Body, Packet, Report, Status};
    let (form, association) = (input.byte(), association(input, known));
    let view = number(input) >> 3;
    let (a, b, c) = (number(input), number(input), number(input));
    let source = input.byte() % 6;
    let wanted = input.byte();
    let wanted = (0..8).filter(|bit| wanted >> bit & 1 == 1).collect();
    let len = input.below(12);
    let payload = input.bytes(len);
    let body = match form % 16 {
        0 | 1 => Body::Request { ack: a, message: b, broadcast: form & 16 != 0, payload },
        2..=4 => {
            Body::Ordered { order: a, accepted: b, purge: c, source, message: c, payload: Some(payload) }
        }
        5 => Body::Ordered { order: a, accepted: b, purge: c, source, message: c, payload: None },
        6 => Body::Retrans { ack: a, order: b },
        7 | 8 => {
            let kinds = [Report::Ack, Report::Dummy, Report::AckCommit, Report::AckPhase2, Report::AliveReq];
            Body::Report { kind: kinds[usize::from(source) % 5], ack: a }
        }
        9 | 10 => {
            let kinds = [Status::Accept, Status::Alive, Status::Phase1, Status::Phase2];
            Body::Status { kind: kinds[usize::from(source) % 4], next: a, accepted: b, purge: c, wanted }
        }
        11 => Body::Fetch { order: a },
        12 => Body::Fetched { order: a, source, message: b, payload },
        13 => Body::Gone { order: a, state: &[0; 40] },
        _ => {
            let mut state = Vec::new();
            let packet = agreement(form >> 4, input, &mut state);
            return Packet::Reformation(packet).emit(association, buf);
        }
    };
    Packet::Normal { view, body }.emit(association, buf);
}

/// A small number, or any.
fn number(input: &mut Input<'_>) -> u32 {
    match input.byte() {
        255 => input.u32(),
        byte => u32::from(byte & 15),
    }
}

/// Packets of Chang and Maxemchuk with fuzzed fields; most ranks are those of other members, most
/// numbers near the start of the range.
pub fn chang_maxemchuk(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    use chang_maxemchuk::{Ack, Body, Datagram, Id, Packet};
    let (form, association) = (input.byte(), association(input, known));
    if form & 3 == 0 {
        let mut state = Vec::new();
        let packet = agreement(form >> 2, input, &mut state);
        return Datagram::Reformation(packet).emit(association, buf);
    }
    let number = |input: &mut Input<'_>| match form >> 5 {
        0 => u64::from(input.u32()).pow(2),
        _ => u64::from(input.byte() % 16),
    };
    let rank = |input: &mut Input<'_>| u16::from(input.byte() % 6);
    let view = u32::from(input.byte() % 4);
    let (site, next, timestamp) = (rank(input), rank(input), number(input));
    let id = Id { source: rank(input), number: number(input) };
    let ack = Ack { timestamp, site, next, message: (input.byte() & 3 > 0).then_some(id) };
    let payload = if ack.message.is_some() { input.bytes(usize::from(form >> 6)) } else { &[] };
    let body = match form >> 2 & 7 {
        0 | 1 => Body::Msg { id, payload },
        2 | 3 => Body::Ack(ack),
        4 => Body::Repair { ack, payload },
        5 => Body::Confirm { site, below: timestamp },
        6 => Body::Retrans { from: timestamp, below: id.number },
        _ if next & 1 == 0 => Body::RetransMessage(id),
        _ => Body::Purged { below: timestamp },
    };
    Datagram::Normal(Packet { view, body }).emit(association, buf);
}

/// Packets of LMS with fuzzed fields, near the start of the numbers; most turning points are nodes.
pub fn lms(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    use lms::{Data, Offer, Packet, Progress, Request, TurningPoint};
    let (form, association) = (input.byte(), association(input, known));
    let number = |input: &mut Input<'_>| match form >> 4 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 24),
    };
    let address = |input: &mut Input<'_>| match input.byte() {
        byte @ 0..=199 => Some([10, 0, 0, byte % 12].into()),
        byte @ 200..=240 => Some([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(byte)].into()),
        _ => None,
    };
    let (a, b) = (number(input), number(input));
    let payload = input.bytes(usize::from(form >> 6));
    let (data, progress) = (Data { sequence: a, oldest: b, payload }, Progress { next: a, oldest: b });
    let interface = PortId(u16::from(input.byte() & 7));
    let offer = Offer { cost: a, hops: u16::from(input.byte()) };
    let packet = match form & 15 {
        0 => Packet::SrcRefresh(offer),
        1 => Packet::Refresh(offer),
        2 => Packet::Leave,
        3..=5 => Packet::Req(Request {
            turning_point: address(input).map(|address| TurningPoint { address, interface }),
            direct: form & 16 != 0,
            past: input.byte() & 3,
            hops_left: input.byte() & 3,
            lo: a,
            hi: b,
            attempt: u32::from(input.byte() & 3),
        }),
        6 | 7 => Packet::Dmcast { interface, data },
        8 => Packet::Setup { previous: address(input), progress, timestamp: input.u64() },
        9 => Packet::Spm { previous: address(input), progress },
        10..=12 => Packet::Data(data),
        _ => Packet::Repair(data),
    };
    packet.emit(association, buf);
}

/// Packets of the agreement on a new view of a group, with fuzzed fields.
fn agreement<'a>(form: u8, input: &mut Input<'_>, state: &'a mut Vec<u8>) -> reformation::Packet<'a> {
    use reformation::{Ballot, Packet, Ranks};
    let ballot =
        |input: &mut Input<'_>| Ballot { number: u32::from(input.byte() % 8), coordinator: input.byte() % 6 };
    let ranks = |input: &mut Input<'_>| {
        let bits = input.byte();
        (0..8).filter(|rank| bits >> rank & 1 == 1).collect::<Ranks>()
    };
    let (first, accepted, length) = (ballot(input), u32::from(input.byte() % 4), u64::from(input.byte()));
    match form & 7 {
        0 => Packet::Invite { ballot: first },
        1 => {
            let members = ranks(input);
            Packet::Vote { ballot: first, accepted, length, members, joiners: ranks(input).and(&members) }
        }
        2 => Packet::Refuse { ballot: first, promised: ballot(input) },
        3 => {
            let (members, joiners) = (ranks(input), ranks(input));
            let number = u64::from(input.byte());
            let numbers = usize::from(input.byte() % 8);
            state.extend(std::iter::repeat_n(number.to_be_bytes(), numbers).flatten());
            let joiners = joiners.and(&members);
            Packet::Start { ballot: first, base: accepted, length, members, joiners, state }
        }
        4 => Packet::Ready { ballot: first },
        5 => Packet::Active { ballot: first },
        6 => Packet::Installed { ballot: first },
        _ => Packet::Join { lost: accepted & 1 == 1 },
    }
}

/// Packets of the session with fuzzed fields.
pub fn session(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    let kind = input.below(15);
    let mut list = Vec::new();
    let association = association(input, known);
    let nonce = match input.byte() {
        0..=127 => known.nonce,
        byte @ 128..=250 => Nonce(u64::from(byte & 3)),
        _ => Nonce(input.u64()),
    };
    let body = match kind {
        0 | 1 => Body::Invite(Invite {
            state: input.pick(&[
                State::Gathering,
                State::Assembling,
                State::Running,
                State::Closing,
                State::Finished,
                State::Aborted,
            ]),
            max_payload: input.pick(&[100, 1, 1472, 1 << 24, u32::MAX]),
            progress_interval: input.pick(&[500, 0, 1, u16::MAX]),
            relays: input.byte() & 3 == 3,
            protocol: match input.byte() {
                0..=200 => Name::new(known.protocol).unwrap_or_else(fallback),
                _ => name(input),
            },
            sender: name(input),
            settings: match input.byte() {
                0..=63 => Settings::default(),
                byte @ 64..=200 if !known.settings.is_empty() => {
                    let text = known.settings[usize::from(byte) % known.settings.len()];
                    Settings::new(text).unwrap_or_default()
                }
                _ => {
                    let len = input.below(64);
                    let text = std::str::from_utf8(input.bytes(len)).unwrap_or_default();
                    Settings::new(text).unwrap_or_default()
                }
            },
            reason: text(input),
        }),
        2 => Body::Join {
            nonce,
            receive_buffer: input.u32(),
            offers: input.byte() & 1 == 1,
            name: name(input),
        },
        3 => Body::Welcome { nonce, member: input.u32() },
        4 => Body::Refuse {
            nonce,
            reason: input.pick(&[
                RefuseReason::AlreadyStarted,
                RefuseReason::NameTaken,
                RefuseReason::NotExpected,
                RefuseReason::Full,
                RefuseReason::Expelled,
                RefuseReason::Nonce,
            ]),
            text: text(input),
        },
        5 => Body::Progress { nonce, bytes: count(input) },
        6 => Body::Report { nonce, bytes: count(input), verified: input.byte() & 3 != 0, text: text(input) },
        7 => Body::ReportAck { nonce },
        8 => Body::Leave { nonce, text: text(input) },
        9 => match roster(input, nonce, &mut list) {
            Some(page) => Body::Roster(page),
            None => return,
        },
        10 => Body::Present { proof: Proof(nonce.0) },
        12 => Body::Ask { nonce },
        13 => Body::Answer {
            nonce,
            state: input.pick(&[State::Running, State::Closing, State::Finished, State::Aborted]),
            text: text(input),
        },
        11 => Body::Decline { name: name(input), text: text(input) },
        _ => Body::Ready { nonce, edition: u32::from(input.byte() & 3) },
    };
    Packet { association, body }.emit(buf);
}

/// A page of a small roster: of the members 1 to 3 and the one with this nonce.
fn roster<'b>(input: &mut Input<'_>, nonce: Nonce, list: &'b mut Vec<u8>) -> Option<RosterPage<'b>> {
    let form = input.byte();
    let total = u16::from(form >> 6) + 1;
    let first = u16::from(form >> 4 & 3) % total;
    let identities = [1, nonce.0, 2, 3].into_iter().map(Identity).cycle().skip(first.into());
    let peer = |identity: Identity| Peer {
        identity,
        offers: form & 1 == 1,
        gone: form & 14 == 2,
        name: Name::new(NAMES[identity.0 as usize % NAMES.len()]).unwrap_or_else(fallback),
    };
    PeerList::encode(identities.take(usize::from(total - first)).map(peer), list);
    let edition = u32::from(input.byte() & 3);
    Some(RosterPage { edition, total, first, peers: PeerList::new(list)? })
}

/// The right association, but for a few.
fn association(input: &mut Input<'_>, known: &Known) -> AssociationId {
    match input.byte() {
        255 => AssociationId(known.association.0 ^ 1),
        _ => known.association,
    }
}

fn count(input: &mut Input<'_>) -> u64 {
    match input.byte() {
        255 => u64::MAX,
        byte => u64::from(byte),
    }
}

fn name<'a>(input: &mut Input<'a>) -> Name<'a> {
    match input.byte() {
        byte @ 0..=239 => Name::new(NAMES[usize::from(byte) % NAMES.len()]).unwrap_or_else(fallback),
        byte => {
            let text = std::str::from_utf8(input.bytes(usize::from(byte) - 239)).unwrap_or_default();
            Name::new(text).unwrap_or_else(fallback)
        }
    }
}

fn text<'a>(input: &mut Input<'a>) -> Text<'a> {
    let len = input.below(8);
    std::str::from_utf8(input.bytes(len)).ok().and_then(Text::new).unwrap_or_default()
}

const NAMES: &[&str] = &["a", "b", "c", "d", "e"];

fn fallback<'a>() -> Name<'a> {
    Name::new("x").expect("a letter is a name")
}
