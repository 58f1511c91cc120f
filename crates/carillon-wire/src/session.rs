//! Packets of the session: the opening and closing exchange shared by protocols with a member list.
//!
//! Every packet stands behind the [common envelope](crate::envelope) with the protocol number `SESSION`; the figures
//! show what follows it. Texts are UTF-8 without hidden characters. A datagram ends with the last field of its packet
//! and has no padding: more bytes are refused, so that an accepted packet is emitted again byte for byte.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!
//! INVITE (1), sender to group: the opening with the sender's name, then
//! +---------------+---------------+---------------+---------------+
//! |     state     | protocol len  |  reason len   |    relays     |
//! +---------------+---------------+---------------+---------------+
//! |                          max payload                          |
//! +-------------------------------+-------------------------------+
//! |         settings len          |     progress interval, ms     |
//! +-------------------------------+-------------------------------+
//! |       longest datagram        |        least datagram         |
//! +-------------------------------+-------------------------------+
//! |  protocol name, settings ("key=value" lines parted by line
//! +---------------------------------------------------------------+
//!    feeds), reason, extensions                                   |
//! +---------------------------------------------------------------+
//!
//! JOIN (2), receiver to sender: the opening with the receiver's name, then
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                     receive buffer, bytes                     |
//! +---------------+-------------------------------+---------------+
//! |     part      |    largest datagram heard     |  extensions ...
//! +---------------+-------------------------------+---------------+
//!    part: 0 receives, 1 offers too, 2 only helps, 3 receives and helps
//!
//! WELCOME (3), sender to receiver
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                         member number                         |
//! +---------------------------------------------------------------+
//! |                             terms                             |
//! |                                                               |
//! +---------------------------------------------------------------+
//!
//! REFUSE (4), sender to receiver
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------+---------------+-------------------------------+
//! |    reason     |   text len    |  text ...
//! +---------------+---------------+-------------------------------+
//!
//! PROGRESS (5), receiver to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                         bytes so far                          |
//! |                                                               |
//! +---------------------------------------------------------------+
//!
//! REPORT (6), receiver to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                             bytes                             |
//! |                                                               |
//! +---------------+---------------+-------------------------------+
//! |    verdict    |   text len    |  text ...
//! +---------------+---------------+-------------------------------+
//!
//! REPORT_ACK (7), sender to receiver
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//!
//! LEAVE (8), receiver to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------+-----------------------------------------------+
//! |   text len    |  text ...
//! +---------------+-----------------------------------------------+
//!
//! ROSTER (9), sender to group, where members are peers, or helpers may be among them
//! +---------------------------------------------------------------+
//! |                            edition                            |
//! +-------------------------------+-------------------------------+
//! |             total             |             first             |
//! +-------------------------------+-------------------------------+
//! |             count             |  for each member from the rank
//! +-------------------------------+
//!    `first` on: identity, 8 bytes; flags 1 byte (1: offers,
//!    2: gone, 4: helps, 8: turns to a helper, 16 beside 4: receives); with flag 8 that
//!    helper's rank, 2 bytes; name len 1 byte; name ...            |
//! +---------------------------------------------------------------+
//!
//! PRESENT (10), member to group
//! +---------------------------------------------------------------+
//! |                           proof                               |
//! |                                                               |
//! +---------------------------------------------------------------+
//!
//! READY (11), member to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                            edition                            |
//! +---------------------------------------------------------------+
//!
//! DECLINE (12), receiver to sender: the opening with the receiver's name, then
//! +---------------+-----------------------------------------------+
//! |   text len    |  text, extensions                             |
//! +---------------+-----------------------------------------------+
//!
//! ASK (13), receiver to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//!
//! ANSWER (14), sender to receiver
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------+---------------+-------------------------------+
//! |     state     |  terms, 8 bytes
//! +---------------+-----------------------------------------------+
//! |   text len    |  text ...
//! +---------------+-----------------------------------------------+
//!
//! MEASURE (15), sender to group: edition, 4 bytes
//! PROBE (16), member to member or sender: token, 8 bytes
//! ECHO (17), back to it: token, 8 bytes
//!
//! DISTANCES (18), member to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                            edition                            |
//! +---------------+-----------------------------------------------+
//! |     count     |  for each: rank, 2 bytes; microseconds, 4 bytes
//! +---------------+-----------------------------------------------+
//!
//! SIZE (19), sender to group: zeros, as many as make a datagram of the size that is shown
//!
//! CHALLENGE (20), sender to receiver: nonce, 8 bytes; cookie, 8 bytes
//!
//! HOLDINGS (21), receiver to sender, where both have the extension field 5
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                           question                            |
//! +---------------------------------------------------------------+
//! |                   bytes of the whole answer                   |
//! +---------------------------------------------------------------+
//! |                       offset of the part                      |
//! +---------------------------------------------------------------+
//! |  part, 1 to 1100 bytes ...                                    |
//! +---------------------------------------------------------------+
//!
//! HOLDINGS_ACK (22), sender to receiver: nonce, 8 bytes; question, 4 bytes; bytes without a gap, 4 bytes
//! ```
//!
//! The opening is 6 bytes and a name, see [`Opening`]; like the envelope it never changes again. Extensions are typed
//! fields; a node skips unknown ones unless their type forbids it. Type 1 is the job of an INVITE (16 bytes), type 2
//! the application's attachment of a JOIN (1 to 288 bytes), type 3 the cookie of the CHALLENGE that a JOIN answers (8
//! bytes), and type 4 the receiver behind a JOIN ([`Origin`], 17 bytes). Type 5 of an INVITE (no bytes) says that the
//! sender asks for holdings, and of a JOIN (16 bytes) that the receiver answers, and which list it knows ([`ListId`]).
//! Type 6 is the name of an INVITE's job (1 to 64 bytes).

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::protocol;
use crate::reader::Reader;
use extension::Extensions;
use fields::cookie_of;

mod attachment;
mod datagram_sizes;
mod display;
mod distances;
mod earlier_release;
mod emit;
mod extension;
mod fields;
mod holdings;
mod identifiers;
mod invite;
mod job;
mod member_role;
mod opening;
mod origin;
mod packet_type;
mod peers;
mod state;
mod terms;
mod text;

pub use attachment::Attachment;
pub use datagram_sizes::{DatagramSizes, Padding};
pub use distances::{DistanceTo, Distances};
pub use earlier_release::{EarlierBody, EarlierPacket, emit_answer, emit_decline, emit_notices};
pub use holdings::{HoldingsPart, ListId};
pub use identifiers::{Cookie, Identity, Nonce, Proof};
pub use invite::Invite;
pub use job::JobId;
pub use member_role::MemberRole;
pub use opening::{Opening, OtherRelease, Release, WIRE_VERSION};
pub use origin::Origin;
pub use peers::{MAX_PEERS, Peer, PeerList, RosterPage};
pub use state::{RefuseReason, State, Verdict};
pub use terms::Terms;
pub use text::{Name, Settings, Text, is_hidden};

/// Packet of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Session of the packet.
    pub association: AssociationId,
    /// Contents of the packet.
    pub body: Body<'a>,
}

/// Contents of a packet of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Invitation of the sender to the group, and later its heartbeat.
    Invite(Invite<'a>),
    /// Request of a receiver to join.
    Join {
        /// Random number of the receiver's attempt, which names it in all later packets.
        nonce: Nonce,
        /// Bytes that the receiver can buffer for an application that does not read.
        receive_buffer: u32,
        /// Role that the receiver asks for.
        part: MemberRole,
        /// Bytes of the largest received SIZE; 0 if the sender sends none.
        largest: u16,
        /// Name of the receiver.
        name: Name<'a>,
        /// Attachment of the receiver's application to the sender's.
        attached: Attachment<'a>,
        /// Cookie of the CHALLENGE that the JOIN answers, if any.
        cookie: Option<Cookie>,
        /// Receiver behind the JOIN, in a session of a job.
        origin: Option<Origin>,
        /// List that the receiver knows, if it answers questions about its holdings.
        list: Option<ListId>,
    },
    /// Return-routability check: the receiver must repeat its JOIN with the cookie, which proves that it receives at
    /// its address.
    Challenge {
        /// Nonce of the receiver.
        nonce: Nonce,
        /// Cookie over nonce, address and time.
        cookie: Cookie,
    },
    /// Admission: the receiver is a member.
    Welcome {
        /// Nonce of the receiver.
        nonce: Nonce,
        /// Member number given by the sender.
        member: u32,
        /// Digest of the session's terms.
        terms: Terms,
    },
    /// Refusal: the receiver is not, or no longer, a member.
    Refuse {
        /// Nonce of the receiver.
        nonce: Nonce,
        /// Reason for programs.
        reason: RefuseReason,
        /// Detail for people.
        text: Text<'a>,
    },
    /// Progress of a receiver that is still busy with the received data.
    Progress {
        /// Nonce of the receiver.
        nonce: Nonce,
        /// Bytes processed so far.
        bytes: u64,
    },
    /// Final report of a receiver.
    Report {
        /// Nonce of the receiver.
        nonce: Nonce,
        /// Bytes processed.
        bytes: u64,
        /// Result of the verification.
        verdict: Verdict,
        /// Reason for a verdict other than verified; empty otherwise.
        text: Text<'a>,
    },
    /// Acknowledgment of the report.
    ReportAck {
        /// Nonce of the receiver.
        nonce: Nonce,
    },
    /// Departure of a receiver before the end.
    Leave {
        /// Nonce of the receiver.
        nonce: Nonce,
        /// Reason.
        text: Text<'a>,
    },
    /// Page of the roster, from the sender to the members.
    Roster(RosterPage<'a>),
    /// Announcement of a member in the group, by which the others learn its address.
    Present {
        /// Proof from which the identity in the roster is derived.
        proof: Proof,
    },
    /// Confirmation that the member has the whole roster and a PRESENT of every other member.
    Ready {
        /// Nonce of the receiver.
        nonce: Nonce,
        /// Edition of the roster.
        edition: u32,
    },
    /// Refusal of an invitation by a receiver.
    Decline {
        /// Name of the receiver.
        name: Name<'a>,
        /// Reason.
        text: Text<'a>,
    },
    /// Question of a receiver that has learnt in the group that the session is over, which anybody could claim.
    Ask {
        /// Nonce of the receiver.
        nonce: Nonce,
    },
    /// State of the session, in answer to an ASK.
    Answer {
        /// Nonce of the receiver.
        nonce: Nonce,
        /// State of the sender.
        state: State,
        /// Digest of the session's terms.
        terms: Terms,
        /// Reason if the session was aborted and the receiver is a member; empty otherwise.
        text: Text<'a>,
    },
    /// Request that members measure their round-trip times to the helpers and to the sender.
    Measure {
        /// Edition of the roster with the ranks of the helpers.
        edition: u32,
    },
    /// Probe of a member to another or to the sender, which answers at once.
    Probe {
        /// Number of the probe.
        token: u64,
    },
    /// Answer to a probe.
    Echo {
        /// Number of the probe.
        token: u64,
    },
    /// Round-trip times that a member has measured.
    Distances {
        /// Nonce of the receiver.
        nonce: Nonce,
        /// Edition of the roster with the ranks.
        edition: u32,
        /// Round-trip time of each helper that answered.
        distances: Distances<'a>,
    },
    /// Datagram of a certain size, for path MTU discovery.
    Size(Padding),
    /// Part of a receiver's answer about its holdings.
    Holdings {
        /// Nonce of the receiver.
        nonce: Nonce,
        /// Part of the answer.
        part: HoldingsPart<'a>,
    },
    /// Acknowledgment of the beginning of an answer.
    HoldingsAck {
        /// Nonce of the receiver.
        nonce: Nonce,
        /// Number of the question.
        question: u32,
        /// Bytes that have arrived without a gap.
        bytes: u32,
    },
}

impl<'a> Packet<'a> {
    /// Parses a datagram, envelope included.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::SESSION, bytes)?;
        let body = match envelope.packet_type {
            packet_type::INVITE => Body::Invite(Invite::parse(&mut reader)?),
            packet_type::JOIN => {
                let name = Opening::parse(&mut reader)?.name;
                let (nonce, receive_buffer) = (reader.nonce()?, reader.u32()?);
                let part = MemberRole::parse(&mut reader)?;
                let largest = reader.u16()?;
                let (mut attached, mut cookie) = (Attachment::default(), None);
                let (mut origin, mut list) = (None, None);
                let mut extensions = Extensions::of(&mut reader);
                // Unknown extensions are skipped unless they are critical.
                while let Some((kind, value)) = extensions.next()? {
                    match kind {
                        extension::ATTACHED => attached = Attachment::parse(value)?,
                        extension::COOKIE => cookie = Some(cookie_of(value)?),
                        extension::ORIGIN => origin = Some(Origin::parse(value)?),
                        extension::HOLDINGS => list = Some(ListId::parse(value)?),
                        unknown => extension::skip(unknown)?,
                    }
                }
                Body::Join { nonce, receive_buffer, part, largest, name, attached, cookie, origin, list }
            }
            packet_type::CHALLENGE => {
                Body::Challenge { nonce: reader.nonce()?, cookie: reader.u64().map(Cookie)? }
            }
            packet_type::WELCOME => {
                Body::Welcome { nonce: reader.nonce()?, member: reader.u32()?, terms: reader.terms()? }
            }
            packet_type::REFUSE => {
                let nonce = reader.nonce()?;
                let reason = RefuseReason::from_code(reader.u8()?)?;
                Body::Refuse { nonce, reason, text: reader.text()? }
            }
            packet_type::PROGRESS => Body::Progress { nonce: reader.nonce()?, bytes: reader.u64()? },
            packet_type::REPORT => {
                let (nonce, bytes) = (reader.nonce()?, reader.u64()?);
                let verdict = Verdict::from_code(reader.u8()?)?;
                Body::Report { nonce, bytes, verdict, text: reader.text()? }
            }
            packet_type::REPORT_ACK => Body::ReportAck { nonce: reader.nonce()? },
            packet_type::LEAVE => Body::Leave { nonce: reader.nonce()?, text: reader.text()? },
            packet_type::ROSTER => Body::Roster(RosterPage::parse(&mut reader)?),
            packet_type::PRESENT => Body::Present { proof: reader.u64().map(Proof)? },
            packet_type::READY => Body::Ready { nonce: reader.nonce()?, edition: reader.u32()? },
            packet_type::DECLINE => {
                let name = Opening::parse(&mut reader)?.name;
                let text = reader.text()?;
                Extensions::of(&mut reader).skip_all()?;
                Body::Decline { name, text }
            }
            packet_type::ASK => Body::Ask { nonce: reader.nonce()? },
            packet_type::ANSWER => {
                let nonce = reader.nonce()?;
                let state = State::from_code(reader.u8()?)?;
                Body::Answer { nonce, state, terms: reader.terms()?, text: reader.text()? }
            }
            packet_type::MEASURE => Body::Measure { edition: reader.u32()? },
            packet_type::PROBE => Body::Probe { token: reader.u64()? },
            packet_type::ECHO => Body::Echo { token: reader.u64()? },
            packet_type::DISTANCES => {
                let (nonce, edition) = (reader.nonce()?, reader.u32()?);
                Body::Distances { nonce, edition, distances: Distances::parse(&mut reader)? }
            }
            packet_type::SIZE => Body::Size(Padding::parse(&mut reader)?),
            packet_type::HOLDINGS => {
                let (nonce, question) = (reader.nonce()?, reader.u32()?);
                let (total, offset) = (reader.u32()?, reader.u32()?);
                let part = HoldingsPart::new(question, total, offset, reader.remaining())?;
                Body::Holdings { nonce, part }
            }
            packet_type::HOLDINGS_ACK => {
                Body::HoldingsAck { nonce: reader.nonce()?, question: reader.u32()?, bytes: reader.u32()? }
            }
            other => return Err(ParseError::Type(other)),
        };
        reader.end("bytes after the packet")?;
        Ok(Packet { association: envelope.association, body })
    }
}
