//! Packets of polling feedback (PF).
//!
//! Barcellos and Ezhilchelvan name the packets and their fields and give no layout; this one is Carillon's.
//!
//! ```text
//! +----------------------+----------+-----------+-----------------------------------------------
//! | envelope, 1 DATA     | seq (32) | first (32) | payload
//! +----------------------+----------+-----------+-----------------------------------------------
//! | envelope, 2 POLL     | last (32) | first (32) | time (64) | bytes (16) | children | padding
//! +----------------------+----------+-----------+-----------------------------------------------
//! | envelope, 3 DATAPOLL | seq (32) | first (32) | last (32) | time (64) | bytes (16) | children | payload
//! +----------------------+----------+-----------+-----------------------------------------------
//! | envelope, 4 RESP     | time (64) | last (32) | left (32) | expected (32) | highest (32)
//! |                      | size (32) | words (16) | map (64 x words) | padding
//! +----------------------+----------+-----------+-----------------------------------------------
//! ```
//!
//! Message numbers count modulo 2^32. `first` is the oldest message that the parent still holds. `time` is POLL.TS,
//! the time of the poll in nanoseconds of the parent's clock; `last` is POLL.SEQ, the highest message sent by then
//! (HS). A RESP repeats both from the poll that it answers. Its window W begins at `left` (LE): messages before
//! `expected` are present but not consumed, `expected` is missing, and bit i of the map says whether `expected` + 1 +
//! i is present. `highest` is one past HR, or 0 before the first message; `size` is the buffer S of this child.
//! `children` is a [`ChildSet`].

mod children;
mod describe;

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::map::Map;
use crate::reader::Reader;

pub use children::ChildSet;
pub use describe::FORMAT;

/// Packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Message, with a poll if it is a DATAPOLL.
    Data {
        /// Number of the message, modulo 2^32.
        seq: u32,
        /// Oldest message that the sender still holds, modulo 2^32.
        first: u32,
        /// Poll of a DATAPOLL.
        poll: Option<Poll<'a>>,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Poll for responses.
    Poll {
        /// Oldest message that the sender still holds, modulo 2^32.
        first: u32,
        /// Fields of the poll.
        poll: Poll<'a>,
    },
    /// Window of a child.
    Resp(Resp<'a>),
}

/// Poll: addressed children and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll<'a> {
    /// Time of the poll in nanoseconds of the parent's clock: POLL.TS.
    pub time: u64,
    /// Highest message sent by then, modulo 2^32: POLL.SEQ.
    pub last: u32,
    /// Children that must answer.
    pub children: ChildSet<'a>,
}

/// Response of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resp<'a> {
    /// Time of the answered poll, in nanoseconds of the parent's clock.
    pub time: u64,
    /// Highest message that the answered poll names, modulo 2^32.
    pub last: u32,
    /// First message that is not consumed or missing, modulo 2^32: LE.
    pub left: u32,
    /// First missing message, modulo 2^32.
    pub expected: u32,
    /// Number after the highest known message, modulo 2^32: HR + 1.
    pub highest: u32,
    /// Buffer of the child in messages: S.
    pub size: u32,
    /// Map of the messages present beyond `expected`.
    pub received: Map<'a>,
}

/// Bytes of a DATA before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 8;
/// Bytes of a DATAPOLL before its payload, without the children.
pub const POLL_HEADER_LEN: usize = HEADER_LEN + 14;
/// Maximum length of a set of children in bytes.
pub const MAX_CHILDREN_LEN: usize = 1280;
/// Bytes of a RESP before its map.
pub const RESP_LEN: usize = Envelope::LEN + 30;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::PF, bytes)?;
        let packet = match envelope.packet_type {
            packet_type::DATA => {
                let (seq, first) = (reader.u32()?, reader.u32()?);
                Packet::Data { seq, first, poll: None, payload: reader.rest() }
            }
            packet_type::POLL => {
                let (last, first) = (reader.u32()?, reader.u32()?);
                Packet::Poll { first, poll: poll(&mut reader, last)? }
            }
            packet_type::DATAPOLL => {
                let (seq, first, last) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let poll = Some(poll(&mut reader, last)?);
                Packet::Data { seq, first, poll, payload: reader.rest() }
            }
            packet_type::RESP => {
                let (time, last, left) = (reader.u64()?, reader.u32()?, reader.u32()?);
                let (expected, highest, size) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let words = reader.u16()?;
                let received = reader.map(words.into())?;
                Packet::Resp(Resp { time, last, left, expected, highest, size, received })
            }
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let packet_type = match self {
            Packet::Data { poll: None, .. } => packet_type::DATA,
            Packet::Data { poll: Some(_), .. } => packet_type::DATAPOLL,
            Packet::Poll { .. } => packet_type::POLL,
            Packet::Resp(_) => packet_type::RESP,
        };
        Envelope { protocol: protocol::PF, packet_type, association }.emit(buf);
        let mut numbers =
            |numbers: &[u32]| numbers.iter().for_each(|n| buf.extend_from_slice(&n.to_be_bytes()));
        match *self {
            Packet::Data { seq, first, poll, payload } => {
                numbers(&[seq, first]);
                if let Some(poll) = poll {
                    buf.extend_from_slice(&poll.last.to_be_bytes());
                    poll.emit(buf);
                }
                buf.extend_from_slice(payload);
            }
            Packet::Poll { first, poll } => {
                numbers(&[poll.last, first]);
                poll.emit(buf);
            }
            Packet::Resp(Resp { time, last, left, expected, highest, size, received }) => {
                numbers(&[(time >> 32) as u32, time as u32, last, left, expected, highest, size]);
                buf.extend_from_slice(&(received.count() as u16).to_be_bytes());
                received.emit(buf);
            }
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Data { poll: None, payload, .. } => HEADER_LEN + payload.len(),
            Packet::Data { poll: Some(poll), payload, .. } => {
                POLL_HEADER_LEN + poll.children.bytes().len() + payload.len()
            }
            Packet::Poll { poll, .. } => POLL_HEADER_LEN - 4 + poll.children.bytes().len(),
            Packet::Resp(resp) => RESP_LEN + 8 * resp.received.count(),
        }
    }
}

impl Poll<'_> {
    /// Appends the fields except `last`, which stands before them.
    fn emit(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.time.to_be_bytes());
        buf.extend_from_slice(&(self.children.bytes().len() as u16).to_be_bytes());
        buf.extend_from_slice(self.children.bytes());
    }
}

fn poll<'a>(reader: &mut Reader<'a>, last: u32) -> Result<Poll<'a>, ParseError> {
    let (time, len) = (reader.u64()?, usize::from(reader.u16()?));
    if len > MAX_CHILDREN_LEN {
        return Err(ParseError::Field { field: "bytes", value: len as u64 });
    }
    let children = ChildSet::parse(reader.bytes(len)?)?;
    Ok(Poll { time, last, children })
}

impl fmt::Display for Poll<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "time {} last {} children {}", self.time, self.last, self.children)
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Data { seq, first, poll: None, payload } => {
                write!(f, "pf data seq {seq} first {first} len {}", payload.len())
            }
            Packet::Data { seq, first, poll: Some(poll), payload } => {
                write!(f, "pf datapoll seq {seq} first {first} {poll} len {}", payload.len())
            }
            Packet::Poll { first, poll } => write!(f, "pf poll first {first} {poll}"),
            Packet::Resp(Resp { time, last, left, expected, highest, size, received }) => {
                write!(f, "pf resp time {time} last {last} left {left} expected {expected} ")?;
                write!(f, "highest {highest} size {size} map{received}")
            }
        }
    }
}

mod packet_type {
    pub const DATA: u8 = 1;
    pub const POLL: u8 = 2;
    pub const DATAPOLL: u8 = 3;
    pub const RESP: u8 = 4;
}
