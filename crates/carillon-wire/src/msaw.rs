//! Packets of multicast stop-and-wait (MSAW) and its unicast equivalent.
//!
//! The thesis gives the header as source, destination, one-bit sequence number and type (Segovia
//! 1996, section 2.5); the addresses are those of the network below.
//!
//! ```text
//! +----------------------------------------------+----------+-----------
//! | envelope (8 bytes), type 1 = DATA, 2 = ACK   | sequence | payload …
//! +----------------------------------------------+----------+-----------
//! ```
//!
//! The sequence number is 0 or 1, in one byte. An ACK may be followed by padding, which is
//! ignored: the thesis varies the size of acknowledgments.

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};

/// A packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A message, or a retransmission of it.
    Data {
        /// 0 or 1.
        sequence: u8,
        /// The message.
        payload: &'a [u8],
    },
    /// Acknowledges the message with this sequence number.
    Ack {
        /// 0 or 1.
        sequence: u8,
    },
}

/// Bytes of a packet before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 1;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, rest) = Envelope::parse_for(protocol::MSAW, bytes)?;
        let Some((&sequence, payload)) = rest.split_first() else {
            return Err(ParseError::Truncated { have: bytes.len(), need: HEADER_LEN });
        };
        if sequence > 1 {
            return Err(ParseError::Field { field: "sequence", value: sequence.into() });
        }
        let packet = match envelope.packet_type {
            packet_type::DATA => Packet::Data { sequence, payload },
            packet_type::ACK => Packet::Ack { sequence },
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let (packet_type, sequence, payload) = match *self {
            Packet::Data { sequence, payload } => (packet_type::DATA, sequence, payload),
            Packet::Ack { sequence } => (packet_type::ACK, sequence, &[][..]),
        };
        Envelope { protocol: protocol::MSAW, packet_type, association }.emit(buf);
        buf.push(sequence);
        buf.extend_from_slice(payload);
    }

    /// Bytes that `emit` appends.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Data { payload, .. } => HEADER_LEN + payload.len(),
            Packet::Ack { .. } => HEADER_LEN,
        }
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Data { sequence, payload } => write!(f, "msaw data seq {sequence} len {}", payload.len()),
            Packet::Ack { sequence } => write!(f, "msaw ack seq {sequence}"),
        }
    }
}

mod packet_type {
    pub const DATA: u8 = 1;
    pub const ACK: u8 = 2;
}
