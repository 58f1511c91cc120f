//! Packets of Scalable Reliable Multicast (Floyd, Jacobson, Liu, McCanne and Zhang, ToN 1997).
//!
//! The paper leaves formats to the application; the layout is Carillon's. Members are named by their
//! rank in the list of members, which all of them share.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |               envelope, 1 DATA or 4 REPAIR (64)               |
//! +---------------------------------------------------------------+
//! |                             from                              |
//! +---------------------------------------------------------------+
//! |                            source                             |
//! +---------------------------------------------------------------+
//! |                           sequence                            |
//! +---------------+---------------+---------------+---------------+
//! |     round     |     scope     |     again     |     zero      |
//! +---------------+---------------+---------------+---------------+
//! |                    distance, microseconds                     |
//! +---------------------------------------------------------------+
//! |                           requester                           |
//! +---------------------------------------------------------------+
//! |                            message                            |
//!
//! +---------------------------------------------------------------+
//! |                    envelope, 2 SESSION (64)                   |
//! +---------------------------------------------------------------+
//! |                             from                              |
//! +---------------------------------------------------------------+
//! |                            number                             |
//! +---------------------------------------------------------------+
//! |                      clock, microseconds                      |
//! +---------------------------------------------------------------+
//! |                             next                              |
//! +---------------------------------------------------------------+
//! |                            oldest                             |
//! +---------------------------------------------------------------+
//! |                            sources                            |
//! +---------------------------------------------------------------+
//! |                            others                             |
//! +---------------------------------------------------------------+   for each source, then
//! |                            member                             |   for each other member,
//! +---------------------------------------------------------------+   ascending
//! |                             next                              |
//! +---------------------------------------------------------------+
//! |                       came, microseconds                      |
//! +---------------------------------------------------------------+
//! |                       sent, microseconds                      |
//! +---------------------------------------------------------------+
//!
//! +---------------------------------------------------------------+
//! |                    envelope, 3 REQUEST (64)                   |
//! +---------------------------------------------------------------+
//! |                             from                              |
//! +---------------------------------------------------------------+
//! |                            source                             |
//! +---------------------------------------------------------------+
//! |                           sequence                            |
//! +---------------+---------------+-------------------------------+
//! |     round     |     scope     |    distance, microseconds     |
//! +---------------+---------------+-------------------------------+
//! |    distance (continued)       |   padding
//! +-------------------------------+
//! ```
//!
//! DATA and REPAIR have one layout, so that a repair is as long as the message that it repairs; DATA has zeros from
//! `round` on. Without padding a SESSION is as long as in ns-2: 20 + 16 G bytes for G known members, the sender
//! included.

mod describe;

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::reader::Reader;

pub use describe::FORMAT;

/// Packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// First transmission of a message by its source.
    Data(Data<'a>),
    /// Session message: a member's knowledge of the others.
    Session(Session<'a>),
    /// Request for a message, to any member that has it.
    Request(Request),
    /// Retransmission of a message by any member.
    Repair {
        /// Repaired message.
        data: Data<'a>,
        /// Request that the repair answers.
        answer: Answer,
    },
}

/// Message with its source and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Rank of the sending member.
    pub from: u32,
    /// Rank of the member that offered the message.
    pub source: u32,
    /// Number of the message at its source, modulo 2^32.
    pub sequence: u32,
    /// Contents of the message.
    pub payload: &'a [u8],
}

/// Request that a repair answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number of times that the member has begun to repair this message, at most 255.
    pub round: u8,
    /// Scope at the sender in hops, 255 for the whole group. Its difference to the hops left at a receiver is the
    /// distance between the two.
    pub scope: u8,
    /// Scope in hops over which the requester must repeat the repair; 0 if it must not (two-step repair).
    pub again: u8,
    /// Distance from the repairing member to the requester, in microseconds.
    pub distance_us: u32,
    /// Rank of the requester.
    pub requester: u32,
}

/// Request for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Rank of the requesting member.
    pub from: u32,
    /// Rank of the member that offered the message.
    pub source: u32,
    /// Number of the message at its source, modulo 2^32.
    pub sequence: u32,
    /// Number of request timers that the member has set for the message, at most 255.
    pub round: u8,
    /// Scope in hops, 255 for the whole group.
    pub scope: u8,
    /// Distance from the member to the source, in microseconds.
    pub distance_us: u32,
}

/// Session message: progress of a member, and its knowledge of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session<'a> {
    /// Rank of the member.
    pub from: u32,
    /// Number of the session message at this member.
    pub number: u32,
    /// Clock of the member when it sent this, in microseconds.
    pub clock_us: u32,
    /// Number of the member's next message, modulo 2^32.
    pub next: u32,
    /// Oldest message that the member can retransmit; `next` if there is none.
    pub oldest: u32,
    /// Members that have sent messages.
    pub sources: Entries<'a>,
    /// Members that have sent none.
    pub others: Entries<'a>,
}

/// Knowledge of another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Rank of the other member.
    pub member: u32,
    /// Number of the other member's next message, as far as known, modulo 2^32.
    pub next: u32,
    /// Time of arrival of its last session message by the writing member's clock, in microseconds; 0 if none.
    pub came_us: u32,
    /// Clock in that session message, in microseconds; 0 if none.
    pub sent_us: u32,
}

/// Entries in ascending order of members, as in a packet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Entries<'a>(&'a [[u8; ENTRY_LEN]]);

/// Bytes of a DATA or REPAIR before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 24;
/// Bytes of a SESSION without entries.
pub const SESSION_LEN: usize = Envelope::LEN + 28;
/// Bytes of an entry.
pub const ENTRY_LEN: usize = 16;
/// Bytes of a REQUEST without padding.
pub const REQUEST_LEN: usize = Envelope::LEN + 18;

impl Entry {
    /// Encoded entry.
    pub fn to_bytes(&self) -> [u8; ENTRY_LEN] {
        let words = [self.member, self.next, self.came_us, self.sent_us];
        let mut bytes = [0; ENTRY_LEN];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    fn of(bytes: &[u8; ENTRY_LEN]) -> Entry {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Entry { member: word(0), next: word(4), came_us: word(8), sent_us: word(12) }
    }
}

impl<'a> Entries<'a> {
    /// Entries made by [`Entry::to_bytes`], in ascending order of members.
    pub fn new(entries: &'a [[u8; ENTRY_LEN]]) -> Self {
        Entries(entries)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Entry of a member, by binary search.
    pub fn of(&self, member: u32) -> Option<Entry> {
        let at = self.0.binary_search_by_key(&member, |bytes| Entry::of(bytes).member).ok()?;
        Some(Entry::of(&self.0[at]))
    }

    /// Entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry> + use<'a> {
        self.0.iter().map(Entry::of)
    }
}

impl fmt::Debug for Entries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Packet<'a> {
    /// Parses a datagram. Bytes behind a SESSION or a REQUEST are padding.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut fields) = Reader::behind_envelope(protocol::SRM, bytes)?;
        let packet = match envelope.packet_type {
            kind @ (packet_type::DATA | packet_type::REPAIR) => {
                fields.require(HEADER_LEN)?;
                let (from, source, sequence) = (fields.u32()?, fields.u32()?, fields.u32()?);
                let (round, scope, again, zero) = (fields.u8()?, fields.u8()?, fields.u8()?, fields.u8()?);
                let (distance_us, requester) = (fields.u32()?, fields.u32()?);
                let data = Data { from, source, sequence, payload: fields.rest() };
                if zero != 0 {
                    return Err(ParseError::Field { field: "zero", value: zero.into() });
                }
                if kind == packet_type::REPAIR {
                    Packet::Repair { data, answer: Answer { round, scope, again, distance_us, requester } }
                } else if (round, scope, again, distance_us, requester) == (0, 0, 0, 0, 0) {
                    Packet::Data(data)
                } else {
                    return Err(ParseError::Field { field: "round", value: round.into() });
                }
            }
            packet_type::SESSION => {
                fields.require(SESSION_LEN)?;
                let (from, number, clock_us) = (fields.u32()?, fields.u32()?, fields.u32()?);
                let (next, oldest) = (fields.u32()?, fields.u32()?);
                let (sources, others) = (fields.u32()? as usize, fields.u32()? as usize);
                let (entries, _) = fields.rest().as_chunks::<ENTRY_LEN>();
                let count = sources.saturating_add(others);
                let Some(entries) = entries.get(..count) else {
                    let need = count.saturating_mul(ENTRY_LEN).saturating_add(SESSION_LEN);
                    return Err(ParseError::Truncated { have: bytes.len(), need });
                };
                let (sources, others) = entries.split_at(sources);
                let (sources, others) = (Entries(sources), Entries(others));
                Packet::Session(Session { from, number, clock_us, next, oldest, sources, others })
            }
            packet_type::REQUEST => {
                fields.require(REQUEST_LEN)?;
                let (from, source, sequence) = (fields.u32()?, fields.u32()?, fields.u32()?);
                let (round, scope, distance_us) = (fields.u8()?, fields.u8()?, fields.u32()?);
                Packet::Request(Request { from, source, sequence, round, scope, distance_us })
            }
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let packet_type = match self {
            Packet::Data(_) => packet_type::DATA,
            Packet::Session(_) => packet_type::SESSION,
            Packet::Request(_) => packet_type::REQUEST,
            Packet::Repair { .. } => packet_type::REPAIR,
        };
        Envelope { protocol: protocol::SRM, packet_type, association }.emit(buf);
        let mut words = |words: &[u32]| words.iter().for_each(|w| buf.extend_from_slice(&w.to_be_bytes()));
        match *self {
            Packet::Data(Data { from, source, sequence, payload }) => {
                words(&[from, source, sequence, 0, 0, 0]);
                buf.extend_from_slice(payload);
            }
            Packet::Repair { data: Data { from, source, sequence, payload }, answer } => {
                words(&[from, source, sequence]);
                buf.extend_from_slice(&[answer.round, answer.scope, answer.again, 0]);
                buf.extend_from_slice(&answer.distance_us.to_be_bytes());
                buf.extend_from_slice(&answer.requester.to_be_bytes());
                buf.extend_from_slice(payload);
            }
            Packet::Session(Session { from, number, clock_us, next, oldest, sources, others }) => {
                words(&[from, number, clock_us, next, oldest, sources.len() as u32, others.len() as u32]);
                buf.extend_from_slice(sources.0.as_flattened());
                buf.extend_from_slice(others.0.as_flattened());
            }
            Packet::Request(Request { from, source, sequence, round, scope, distance_us }) => {
                words(&[from, source, sequence]);
                buf.extend_from_slice(&[round, scope]);
                buf.extend_from_slice(&distance_us.to_be_bytes());
            }
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Data(data) | Packet::Repair { data, .. } => HEADER_LEN + data.payload.len(),
            Packet::Session(session) => {
                SESSION_LEN + ENTRY_LEN * (session.sources.len() + session.others.len())
            }
            Packet::Request(_) => REQUEST_LEN,
        }
    }

    /// Rank of the member that sent the packet.
    pub fn sender(&self) -> u32 {
        match self {
            Packet::Data(data) | Packet::Repair { data, .. } => data.from,
            Packet::Session(session) => session.from,
            Packet::Request(request) => request.from,
        }
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Data(Data { source, sequence, payload, .. }) => {
                write!(f, "srm data from {source} seq {sequence} len {}", payload.len())
            }
            Packet::Repair { data: Data { from, source, sequence, payload }, answer } => {
                let Answer { round, scope, again, distance_us, requester } = answer;
                write!(f, "srm repair from {from} source {source} seq {sequence} for {requester} ")?;
                write!(f, "round {round} distance {distance_us} us scope {scope} again {again} ")?;
                write!(f, "len {}", payload.len())
            }
            Packet::Session(Session { from, number, clock_us, next, oldest, sources, others }) => {
                write!(f, "srm session {number} from {from} at {clock_us} us next {next} oldest {oldest} ")?;
                write!(f, "knows {} sources {} others", sources.len(), others.len())
            }
            Packet::Request(Request { from, source, sequence, round, scope, distance_us }) => {
                write!(f, "srm request from {from} source {source} seq {sequence} ")?;
                write!(f, "round {round} distance {distance_us} us scope {scope}")
            }
        }
    }
}

mod packet_type {
    pub const DATA: u8 = 1;
    pub const SESSION: u8 = 2;
    pub const REQUEST: u8 = 3;
    pub const REPAIR: u8 = 4;
}
