//! Packets of multicast stop-and-wait (MSAW) and its unicast equivalent.
//!
//! The thesis gives the header as source, destination, one-bit sequence number and type (Segovia 1996, section 2.5);
//! the network below supplies the addresses.
//!
//! ```text
//! +----------------------------------------------+----------+-----------
//! | envelope (8 bytes), type                     | sequence | payload …
//! +----------------------------------------------+----------+-----------
//! ```
//!
//! Type 1 is DATA, 2 is ACK. The sequence number is 0 or 1, in one byte. Padding behind an ACK is ignored: the thesis
//! varies the size of acknowledgments.
//!
//! The layout of the variant with negative acknowledgments is Carillon's; its numbers count modulo 256. NUMBERED (3)
//! is a DATA with such a number. ANNOUNCE (4) names the last message sent, and POLL (5) also asks every receiver for
//! an answer. ACK UP TO (6) acknowledges this message and all earlier ones; NAK (7) acknowledges all earlier ones and
//! asks for this one. ANNOUNCE and POLL have two more bytes: the oldest message that the sender still holds, and the
//! round, which numbers them modulo 256. A NAK repeats the round. All types except NUMBERED may be padded.
//!
//! With an adaptive acknowledgment wait, which is Carillon's own, messages are of type 8, TIMED: a DATA with four
//! bytes after the sequence number, the wait R in nanoseconds that is in force.

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
    /// First transmission or retransmission of a message.
    Data {
        /// Number of the message, 0 or 1.
        sequence: u8,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Like `Data`, with the current acknowledgment wait.
    Timed {
        /// Number of the message, 0 or 1.
        sequence: u8,
        /// Upper bound R of the random wait before an acknowledgment, in nanoseconds.
        ack_wait: u32,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Acknowledgment of the message with this sequence number.
    Ack {
        /// Number of the message, 0 or 1.
        sequence: u8,
    },
    /// Message of the variant in which receivers request missing messages.
    Numbered {
        /// Number of the message, modulo 256.
        sequence: u8,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Announcement of the last message sent.
    Announce {
        /// Number of the message, modulo 256.
        sequence: u8,
        /// Oldest message that the sender still holds, modulo 256.
        first: u8,
        /// Number of the announcement or poll, modulo 256.
        round: u8,
    },
    /// Poll for the status of every receiver, with the last message sent.
    Poll {
        /// Number of the message, modulo 256.
        sequence: u8,
        /// Oldest message that the sender still holds, modulo 256.
        first: u8,
        /// Number of the announcement or poll, modulo 256.
        round: u8,
    },
    /// Cumulative acknowledgment up to this message.
    AckUpTo {
        /// Number of the message, modulo 256.
        sequence: u8,
    },
    /// Request for this message; acknowledges all earlier ones.
    Nak {
        /// Number of the message, modulo 256.
        sequence: u8,
        /// Number of the answered announcement or poll.
        round: u8,
    },
}

/// Bytes of a packet before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 1;

/// Bytes of a TIMED packet before its payload.
pub const TIMED_HEADER_LEN: usize = HEADER_LEN + 4;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::MSAW, bytes)?;
        let sequence = reader.u8()?;
        let one_bit =
            matches!(envelope.packet_type, packet_type::DATA | packet_type::ACK | packet_type::TIMED);
        if one_bit && sequence > 1 {
            return Err(ParseError::Field { field: "sequence", value: sequence.into() });
        }
        let packet = match envelope.packet_type {
            packet_type::DATA => Packet::Data { sequence, payload: reader.rest() },
            packet_type::TIMED => Packet::Timed { sequence, ack_wait: reader.u32()?, payload: reader.rest() },
            packet_type::ACK => Packet::Ack { sequence },
            packet_type::NUMBERED => Packet::Numbered { sequence, payload: reader.rest() },
            kind @ (packet_type::ANNOUNCE | packet_type::POLL) => {
                let [first, round] = reader.array()?;
                match kind {
                    packet_type::ANNOUNCE => Packet::Announce { sequence, first, round },
                    _ => Packet::Poll { sequence, first, round },
                }
            }
            packet_type::ACK_UP_TO => Packet::AckUpTo { sequence },
            packet_type::NAK => Packet::Nak { sequence, round: reader.u8()? },
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let (packet_type, sequence) = match *self {
            Packet::Data { sequence, .. } => (packet_type::DATA, sequence),
            Packet::Timed { sequence, .. } => (packet_type::TIMED, sequence),
            Packet::Ack { sequence } => (packet_type::ACK, sequence),
            Packet::Numbered { sequence, .. } => (packet_type::NUMBERED, sequence),
            Packet::Announce { sequence, .. } => (packet_type::ANNOUNCE, sequence),
            Packet::Poll { sequence, .. } => (packet_type::POLL, sequence),
            Packet::AckUpTo { sequence } => (packet_type::ACK_UP_TO, sequence),
            Packet::Nak { sequence, .. } => (packet_type::NAK, sequence),
        };
        Envelope { protocol: protocol::MSAW, packet_type, association }.emit(buf);
        buf.push(sequence);
        match *self {
            Packet::Data { payload, .. } | Packet::Numbered { payload, .. } => buf.extend_from_slice(payload),
            Packet::Timed { ack_wait, payload, .. } => {
                buf.extend_from_slice(&ack_wait.to_be_bytes());
                buf.extend_from_slice(payload);
            }
            Packet::Announce { first, round, .. } | Packet::Poll { first, round, .. } => {
                buf.extend_from_slice(&[first, round]);
            }
            Packet::Nak { round, .. } => buf.push(round),
            Packet::Ack { .. } | Packet::AckUpTo { .. } => {}
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Data { payload, .. } | Packet::Numbered { payload, .. } => HEADER_LEN + payload.len(),
            Packet::Timed { payload, .. } => TIMED_HEADER_LEN + payload.len(),
            Packet::Announce { .. } | Packet::Poll { .. } => HEADER_LEN + 2,
            Packet::Nak { .. } => HEADER_LEN + 1,
            Packet::Ack { .. } | Packet::AckUpTo { .. } => HEADER_LEN,
        }
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Data { sequence, payload } => write!(f, "msaw data seq {sequence} len {}", payload.len()),
            Packet::Timed { sequence, ack_wait, payload } => {
                write!(f, "msaw timed seq {sequence} wait {ack_wait} ns len {}", payload.len())
            }
            Packet::Ack { sequence } => write!(f, "msaw ack seq {sequence}"),
            Packet::Numbered { sequence, payload } => {
                write!(f, "msaw numbered seq {sequence} len {}", payload.len())
            }
            Packet::Announce { sequence, first, round } => {
                write!(f, "msaw announce seq {sequence} first {first} round {round}")
            }
            Packet::Poll { sequence, first, round } => {
                write!(f, "msaw poll seq {sequence} first {first} round {round}")
            }
            Packet::AckUpTo { sequence } => write!(f, "msaw ack up to seq {sequence}"),
            Packet::Nak { sequence, round } => write!(f, "msaw nak seq {sequence} round {round}"),
        }
    }
}

mod packet_type {
    pub const DATA: u8 = 1;
    pub const ACK: u8 = 2;
    pub const NUMBERED: u8 = 3;
    pub const ANNOUNCE: u8 = 4;
    pub const POLL: u8 = 5;
    pub const ACK_UP_TO: u8 = 6;
    pub const NAK: u8 = 7;
    pub const TIMED: u8 = 8;
}
