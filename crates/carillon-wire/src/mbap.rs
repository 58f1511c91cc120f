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
//! Type 1 is DATA, 2 is ACK. The sequence number counts modulo 2n for a window of n messages. An ACK acknowledges
//! every message up to its number (cumulative acknowledgment); padding behind it is ignored.
//!
//! The variant with negative acknowledgments has two more types. A NAK (3) acknowledges every message before its
//! number and asks for that one. A POLL (4) is a retransmission that every receiver must answer.
//!
//! With an adaptive acknowledgment wait, which is Carillon's own, messages are of type 5, TIMED: a DATA with four
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
        /// Number of the message, modulo 2n.
        sequence: u16,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Like `Data`, with the current acknowledgment wait.
    Timed {
        /// Number of the message, modulo 2n.
        sequence: u16,
        /// Upper bound R of the random wait before an acknowledgment, in nanoseconds.
        ack_wait: u32,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Cumulative acknowledgment of all messages up to this sequence number.
    Ack {
        /// Number of the message, modulo 2n.
        sequence: u16,
    },
    /// Retransmission that every receiver must answer with its status.
    Poll {
        /// Number of the message, modulo 2n.
        sequence: u16,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Request for the message of this sequence number; acknowledges all earlier ones.
    Nak {
        /// Number of the message, modulo 2n.
        sequence: u16,
    },
}

/// Bytes of a packet before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 2;

/// Bytes of a TIMED packet before its payload.
pub const TIMED_HEADER_LEN: usize = HEADER_LEN + 4;

impl<'a> Packet<'a> {
    /// Parses a datagram. Only the machine can check that the number is below 2n.
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

    /// Length of the encoded packet in bytes.
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
