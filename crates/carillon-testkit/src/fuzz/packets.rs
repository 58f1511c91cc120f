//! Generators of datagrams from fuzzed bytes, most of them well-formed.

use carillon_core::{AssociationId, Format, NodeId};
use carillon_wire::envelope::Envelope;
use carillon_wire::session::{
    Attachment, Body, Cookie, DatagramSizes, Identity, Invite, MemberRole, Name, Nonce, Packet, Padding,
    Peer, PeerList, Proof, RefuseReason, RosterPage, Settings, State, Terms, Text, Verdict,
};

use super::Input;
use crate::format_tests;

/// Knowledge of an attacker that overhears the machine.
#[derive(Clone, Debug)]
pub struct Known {
    /// Association id of the session.
    pub association: AssociationId,
    /// Node of the sender.
    pub sender: NodeId,
    /// Name of the protocol.
    pub protocol: &'static str,
    /// Settings for invitations, with changes of the last ones.
    pub settings: &'static [&'static str],
    /// Last nonce that the machine used.
    pub nonce: Nonce,
    /// Terms of the last invitation to the machine.
    pub terms: Terms,
    /// Cookie of the last challenge that the machine sent.
    pub cookie: Option<Cookie>,
}

/// Generator of a datagram.
pub type Source<'a> = &'a dyn Fn(&mut Input<'_>, &Known, &mut Vec<u8>);

/// Generator of a protocol's own packets.
pub fn own(format: &Format) -> impl Fn(&mut Input<'_>, &Known, &mut Vec<u8>) + use<> {
    let fuzzed = format_tests(format).fuzzed;
    move |input, known, buf| fuzzed(input, known.association, buf)
}

impl Known {
    /// Knowledge before the first datagram.
    pub const fn new(association: AssociationId, sender: NodeId, protocol: &'static str) -> Self {
        Known { association, sender, protocol, settings: &[], nonce: Nonce(0), terms: Terms(0), cookie: None }
    }

    /// Learns from a datagram of the machine.
    pub(super) fn overhear(&mut self, bytes: &[u8]) {
        match Packet::parse(bytes).map(|packet| packet.body) {
            Ok(Body::Join { nonce, .. }) => self.nonce = nonce,
            Ok(Body::Challenge { cookie, .. }) => self.cookie = Some(cookie),
            _ => {}
        }
    }

    /// Remembers a datagram for the machine.
    pub(super) fn tell(&mut self, bytes: &[u8]) {
        if let Ok(Packet { body: Body::Invite(invite), .. }) = Packet::parse(bytes) {
            self.terms = invite.terms();
        }
    }
}

/// Makes any bytes, or any bytes behind a valid envelope.
pub fn any(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    let form = input.byte();
    if form & 1 == 0 {
        Envelope {
            protocol: form >> 1 & 3,
            packet_type: form >> 3 & 15,
            association: input.association(known.association),
        }
        .emit(buf);
    }
    let len = input.below(24);
    buf.extend_from_slice(input.bytes(len));
}

/// Makes packets of the session with fuzzed fields.
pub fn session(input: &mut Input<'_>, known: &Known, buf: &mut Vec<u8>) {
    let kind = input.below(17);
    let mut list = Vec::new();
    let association = input.association(known.association);
    let nonce = match input.byte() {
        0..=127 => known.nonce,
        byte @ 128..=250 => Nonce(u64::from(byte & 3)),
        _ => Nonce(input.u64()),
    };
    let body = match kind {
        0 | 1 => Body::Invite(Invite {
            job: None,
            asks: false,
            job_name: None,
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
            sizes: input.pick(&[
                DatagramSizes::default(),
                DatagramSizes { longest: 120, least: 60 },
                DatagramSizes { longest: 1472, least: 1472 },
            ]),
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
            part: [MemberRole::Receives, MemberRole::Offers, MemberRole::Helps, MemberRole::Offers]
                [usize::from(input.byte() & 3)],
            largest: input.pick(&[0, 60, 120, 1472]),
            name: name(input),
            attached: {
                let len = input.below(Attachment::MAX_LEN + 1);
                Attachment::new(input.bytes(len)).unwrap_or_default()
            },
            cookie: known.cookie,
            origin: None,
            list: None,
        },
        3 => Body::Welcome { nonce, member: input.u32(), terms: known.terms },
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
        6 => {
            let verdict = match input.byte() & 3 {
                0 => Verdict::Failed,
                1 => Verdict::Damaged,
                _ => Verdict::Verified,
            };
            Body::Report { nonce, bytes: count(input), verdict, text: text(input) }
        }
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
            terms: known.terms,
            text: text(input),
        },
        14 => Body::Size(Padding(input.pick(&[0, 52, 112, 1464]))),
        15 => Body::Challenge { nonce, cookie: Cookie(u64::from(input.byte())) },
        11 => Body::Decline { name: name(input), text: text(input) },
        _ => Body::Ready { nonce, edition: u32::from(input.byte() & 3) },
    };
    Packet { association, body }.emit(buf);
}

/// Makes a page of a small roster: the members 1 to 3 and the one with this nonce.
fn roster<'b>(input: &mut Input<'_>, nonce: Nonce, list: &'b mut Vec<u8>) -> Option<RosterPage<'b>> {
    let form = input.byte();
    let total = u16::from(form >> 6) + 1;
    let first = u16::from(form >> 4 & 3) % total;
    let identities = [1, nonce.0, 2, 3].into_iter().map(Identity).cycle().skip(first.into());
    let peer = |identity: Identity| Peer {
        identity,
        part: match (form & 14 == 4, form & 1 == 1) {
            (true, true) => MemberRole::ReceivesAndHelps,
            (true, false) => MemberRole::Helps,
            (false, true) => MemberRole::Offers,
            (false, false) => MemberRole::Receives,
        },
        gone: form & 14 == 2,
        parent: u16::from(form & 14 == 6),
        name: Name::new(NAMES[identity.0 as usize % NAMES.len()]).unwrap_or_else(fallback),
    };
    PeerList::encode(identities.take(usize::from(total - first)).map(peer), list);
    let edition = u32::from(input.byte() & 3);
    Some(RosterPage { edition, total, first, peers: PeerList::new(list)? })
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
