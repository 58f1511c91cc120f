//! Packets of round-robin acknowledgment (RRA).
//!
//! Segovia 1996, chapter 5, proposes the protocol and says only that a message names the receiver
//! that should acknowledge it; the layout is Carillon's.
//!
//! ```text
//! +-----------------------------+---------------+------------+------------+---------------+---------
//! | envelope, 1 DATA, 3 POLL    | sequence (32) | first (32) | acker (32) | question (32) | payload
//! +-----------------------------+---------------+------------+------------+---------------+---------
//! | envelope, 2 ACK             | expected (32) | question (32) | arrived (32) | room (16) | words (16) |
//! |                             | map of what is there beyond `expected` (64 x words) | padding
//! +-----------------------------+---------------+------------+------------+---------------+---------
//! ```
//!
//! Sequence numbers count modulo 2^32. `first` is the oldest message that the sender still holds: earlier ones will
//! not be repaired. A packet with a `question` other than 0 is a request for an acknowledgment: `acker` names the
//! receiver that must answer, and its ACK repeats the question. Without a question `acker` is 0. A POLL is a DATA
//! without a message: its `sequence` is the last one sent. In an ACK, bit i of the map (words in order, each from its
//! lowest bit) says that the message `expected` + 1 + i is present. `arrived` counts the DATA that have reached the
//! receiver. `room` is the number of messages from `expected` on that it can take, 65535 for that many or more.

mod describe;

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::map::Map;
use crate::reader::Reader;

pub use describe::FORMAT;

/// Packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// First transmission or retransmission of a message.
    Data {
        /// Number of the message, modulo 2^32.
        sequence: u32,
        /// Oldest message that the sender still holds, modulo 2^32.
        first: u32,
        /// Request for an acknowledgment, if any.
        asks: Option<AckRequest>,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Request for an acknowledgment without a message.
    Poll {
        /// Last message sent, modulo 2^32.
        sequence: u32,
        /// Oldest message that the sender still holds, modulo 2^32.
        first: u32,
        /// Receiver that must answer.
        asks: AckRequest,
    },
    /// Acknowledgment and status of a receiver.
    Ack {
        /// First missing message, modulo 2^32.
        expected: u32,
        /// Number of the answered request.
        question: u32,
        /// Number of received DATA, modulo 2^32.
        arrived: u32,
        /// Number of messages from `expected` on that the receiver can take; 65535 for that many or more.
        room: u16,
        /// Map of the messages present beyond `expected`.
        received: Map<'a>,
    },
}

/// Request for an acknowledgment of one receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckRequest {
    /// Receiver that must acknowledge.
    pub acker: u32,
    /// Number of the request, 1 or more.
    pub question: u32,
}

/// Bytes of a data packet before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 16;
/// Bytes of an acknowledgment without map and padding.
pub const ACK_LEN: usize = Envelope::LEN + 16;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::RRA, bytes)?;
        reader.require(HEADER_LEN)?;
        let (a, b, c, d) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
        let packet = match envelope.packet_type {
            packet_type::ACK => {
                let (room, words) = ((d >> 16) as u16, (d & 0xFFFF) as usize);
                let received = reader.map(words)?;
                Packet::Ack { expected: a, question: b, arrived: c, room, received }
            }
            packet_type::DATA => {
                let asks = (d != NO_REQUEST).then_some(AckRequest { acker: c, question: d });
                if asks.is_none() && c != 0 {
                    return Err(ParseError::Field { field: "acker", value: c.into() });
                }
                Packet::Data { sequence: a, first: b, asks, payload: reader.rest() }
            }
            packet_type::POLL if d == NO_REQUEST => {
                return Err(ParseError::Field { field: "question", value: d.into() });
            }
            packet_type::POLL => {
                Packet::Poll { sequence: a, first: b, asks: AckRequest { acker: c, question: d } }
            }
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let packet_type = match self {
            Packet::Data { .. } => packet_type::DATA,
            Packet::Ack { .. } => packet_type::ACK,
            Packet::Poll { .. } => packet_type::POLL,
        };
        Envelope { protocol: protocol::RRA, packet_type, association }.emit(buf);
        match *self {
            Packet::Data { sequence, first, asks, payload } => {
                let AckRequest { acker, question } =
                    asks.unwrap_or(AckRequest { acker: 0, question: NO_REQUEST });
                head([sequence, first, acker, question], buf);
                buf.extend_from_slice(payload);
            }
            Packet::Poll { sequence, first, asks } => {
                head([sequence, first, asks.acker, asks.question], buf);
            }
            Packet::Ack { expected, question, arrived, room, received } => {
                let words = received.count() as u32;
                head([expected, question, arrived, u32::from(room) << 16 | words], buf);
                received.emit(buf);
            }
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Data { payload, .. } => HEADER_LEN + payload.len(),
            Packet::Poll { .. } => HEADER_LEN,
            Packet::Ack { received, .. } => ACK_LEN + 8 * received.count(),
        }
    }
}

fn head(numbers: [u32; 4], buf: &mut Vec<u8>) {
    for number in numbers {
        buf.extend_from_slice(&number.to_be_bytes());
    }
}

impl fmt::Display for AckRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "acker {:#x} question {}", self.acker, self.question)
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Data { sequence, first, asks, payload } => {
                write!(f, "rra data seq {sequence} first {first}")?;
                if let Some(asks) = asks {
                    write!(f, " {asks}")?;
                }
                write!(f, " len {}", payload.len())
            }
            Packet::Poll { sequence, first, asks } => {
                write!(f, "rra poll seq {sequence} first {first} {asks}")
            }
            Packet::Ack { expected, question, arrived, room, received } => {
                write!(
                    f,
                    "rra ack expected {expected} question {question} arrived {arrived} room {room} map{received}"
                )
            }
        }
    }
}

mod packet_type {
    pub const DATA: u8 = 1;
    pub const ACK: u8 = 2;
    pub const POLL: u8 = 3;
}

/// Value of `question` in a packet without a request.
const NO_REQUEST: u32 = 0;
