//! Packets of the Reliable Multicast Protocol (RMP; Whetten, Montgomery and Kaplan 1995).
//!
//! The sources name the packets and most fields; the layout is Carillon's. Each packet starts with the common envelope
//! and the number of the view (32 bits), then:
//!
//! ```text
//! 1 DATA       | message
//! 2 ACK        | timestamp (64) | site (16) | next (16) | batch
//! 3 CONFIRM    | site (16) | below (64)
//! 4 NACK       | site (16) | with data (8) | from (64) | below (64)
//! 5 NACK DATA  | source (16) | sequence (64)
//! 6 REPAIR     | timestamp (64) | site (16) | next (16) | kind (8) | message or members
//! 7 PURGED     | below (64)
//! 8 WELCOME    | timestamp (64) | members | next sequence numbers (64 each)
//!
//! message: source (16) | quality (8) | passes (8) | sequence (64) | number (64) | payload
//! batch:   kind (8): 0 null; 1 to 64 messages, then source (16) and sequence (64) each; 255 new list, then members
//! ```
//!
//! Types of [`reformation::KINDS`] have the bodies of that exchange instead. Members are named by their rank in the
//! group.

mod body;
mod describe;
mod quality;
mod slot;

use std::fmt;

use carillon_core::AssociationId;

use crate::envelope::{Envelope, protocol};
use crate::reader::Reader;
use crate::{ParseError, reformation};

pub use body::Body;
pub use describe::FORMAT;
pub use quality::{Message, Quality};
pub use slot::{Batch, Id, Ids, Item, Slot};

/// Datagram of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// Packet of normal operation.
    Normal(Packet<'a>),
    /// Packet of the agreement on a new view.
    Reformation(reformation::Packet<'a>),
}

impl<'a> Datagram<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Datagram<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::RMP, bytes)?;
        let datagram = if reformation::KINDS.contains(&envelope.packet_type) {
            Datagram::Reformation(reformation::Packet::parse(envelope.packet_type, reader.rest())?)
        } else {
            let view = reader.u32()?;
            Datagram::Normal(Packet { view, body: Body::parse(envelope.packet_type, &mut reader)? })
        };
        Ok((envelope.association, datagram))
    }

    /// Appends the datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        match self {
            Datagram::Normal(packet) => packet.emit(association, buf),
            Datagram::Reformation(packet) => {
                let packet_type = packet.packet_type();
                Envelope { protocol: protocol::RMP, packet_type, association }.emit(buf);
                packet.emit(buf);
            }
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        match self {
            Datagram::Normal(packet) => PREFIX_LEN + packet.body.wire_len(),
            Datagram::Reformation(packet) => Envelope::LEN + packet.wire_len(),
        }
    }
}

impl fmt::Display for Datagram<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Datagram::Normal(packet) => write!(f, "rmp view {} {}", packet.view, packet.body),
            Datagram::Reformation(packet) => write!(f, "rmp {packet}"),
        }
    }
}

/// Packet of normal operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Number of the view.
    pub view: u32,
    /// Contents of the packet.
    pub body: Body<'a>,
}

impl Packet<'_> {
    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let packet_type = self.body.packet_type();
        Envelope { protocol: protocol::RMP, packet_type, association }.emit(buf);
        buf.extend_from_slice(&self.view.to_be_bytes());
        self.body.emit(buf);
    }
}

/// Bytes of the envelope and the view number.
const PREFIX_LEN: usize = Envelope::LEN + 4;
/// Bytes of a data packet before its payload.
pub const DATA_HEADER_LEN: usize = PREFIX_LEN + Message::HEADER_LEN;
/// Bytes of a repair before its message.
pub const REPAIR_PREFIX_LEN: usize = PREFIX_LEN + Slot::HEADER_LEN + 1;
/// Bytes of a repair before its payload.
pub const REPAIR_HEADER_LEN: usize = REPAIR_PREFIX_LEN + Message::HEADER_LEN;
