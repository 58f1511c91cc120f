//! Packets of multicast block acknowledgment (MBAP) and its unicast equivalent.
//!
//! The header is that of stop-and-wait with a longer sequence number (Segovia 1996, section 2.6).
//!
//! ```text
//! +----------------------------------------------+----------------+-----------
//! | envelope (8 bytes), type                     | sequence (16)  | payload …
//! +----------------------------------------------+----------------+-----------
//! ```
//!
//! Type 1 is DATA, 2 is ACK. The sequence number counts modulo 2n for a window of n messages. An ACK
//! acknowledges every message up to its number; it may be followed by padding, which is ignored.
//!
//! The variant with negative acknowledgments has two types more: 3 is NAK, which acknowledges every
//! message before its number and asks for that one; 4 is POLL, a retransmission to which everyone is
//! to answer.
//!
//! With an adaptive acknowledgment wait, Carillon's too, messages are of type 5, TIMED: DATA with four
//! bytes after the sequence number, the wait R in nanoseconds that is in force.

mod describe;

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::reader::Reader;

pub use describe::FORMAT;

/// A packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A message, or a retransmission of it.
    Data {
        /// Modulo 2n.
        sequence: u16,
        /// The message.
        payload: &'a [u8],
    },
    /// A message, or a retransmission of it, that says how long acknowledgments wait.
    Timed {
        /// Modulo 2n.
        sequence: u16,
        /// Upper end R of the random wait, in nanoseconds.
        ack_wait: u32,
        /// The message.
        payload: &'a [u8],
    },
    /// Acknowledges all messages up to the one with this sequence number.
    Ack {
        /// Modulo 2n.
        sequence: u16,
    },
    /// A retransmission to which every receiver answers with what it has.
    Poll {
        /// Modulo 2n.
        sequence: u16,
        /// The message.
        payload: &'a [u8],
    },
    /// Asks for the message with this sequence number; acknowledges all before it.
    Nak {
        /// Modulo 2n.
        sequence: u16,
    },
}

/// Bytes of a packet before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 2;

/// Bytes of a TIMED packet before its payload.
pub const TIMED_HEADER_LEN: usize = HEADER_LEN + 4;

impl<'a> Packet<'a> {
    /// Parses a datagram. Whether the number is below 2n only the machine can tell.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::MBAP, bytes)?;
        let sequence = reader.u16()?;
        let packet = match envelope.packet_type {
            packet_type::DATA => Packet::Data { sequence, payload: reader.rest() },
            packet_type::TIMED => Packet::Timed { sequence, ack_wait: reader.u32()?, payload: reader.rest() },
            packet_type::ACK => Packet::Ack { sequence },
            packet_type::POLL => Packet::Poll { sequence, payload: reader.rest() },
            packet_type::NAK => Packet::Nak { sequence },
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let (packet_type, sequence, payload) = match *self {
            Packet::Data { sequence, payload } => (packet_type::DATA, sequence, payload),
            Packet::Timed { sequence, payload, .. } => (packet_type::TIMED, sequence, payload),
            Packet::Ack { sequence } => (packet_type::ACK, sequence, &[][..]),
            Packet::Poll { sequence, payload } => (packet_type::POLL, sequence, payload),
            Packet::Nak { sequence } => (packet_type::NAK, sequence, &[][..]),
        };
        Envelope { protocol: protocol::MBAP, packet_type, association }.emit(buf);
        buf.extend_from_slice(&sequence.to_be_bytes());
        if let Packet::Timed { ack_wait, .. } = *self {
            buf.extend_from_slice(&ack_wait.to_be_bytes());
        }
        buf.extend_from_slice(payload);
    }

    /// Bytes that `emit` appends.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Data { payload, .. } | Packet::Poll { payload, .. } => HEADER_LEN + payload.len(),
            Packet::Timed { payload, .. } => TIMED_HEADER_LEN + payload.len(),
            Packet::Ack { .. } | Packet::Nak { .. } => HEADER_LEN,
        }
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Data { sequence, payload } => write!(f, "mbap data seq {sequence} len {}", payload.len()),
            Packet::Timed { sequence, ack_wait, payload } => {
                write!(f, "mbap timed seq {sequence} wait {ack_wait} ns len {}", payload.len())
            }
            Packet::Ack { sequence } => write!(f, "mbap ack seq {sequence}"),
            Packet::Poll { sequence, payload } => write!(f, "mbap poll seq {sequence} len {}", payload.len()),
            Packet::Nak { sequence } => write!(f, "mbap nak seq {sequence}"),
        }
    }
}

mod packet_type {
    pub const DATA: u8 = 1;
    pub const ACK: u8 = 2;
    pub const NAK: u8 = 3;
    pub const POLL: u8 = 4;
    pub const TIMED: u8 = 5;
}
