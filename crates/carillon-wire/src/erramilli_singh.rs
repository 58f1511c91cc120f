//! Packets of Erramilli and Singh's protocol (Segovia 1996, section 2.8).
//!
//! The source names the fields of each message but no layout; the layout is Carillon's. Nodes are
//! named by their rank in the list of members, which all of them share.
//!
//! ```text
//! +-----------------------+-------------+---------------------------+--------------------------
//! | envelope, 1 DATA      | source (16) | sequence (32)             | payload
//! +-----------------------+-------------+---------------------------+-----------+
//! | envelope, 2 STATUS    | source (16) | next (32)                 | held (32) |
//! | envelope, 3 SANITY    |             |                           |           |
//! +-----------------------+-------------+-------------+-------------+-----------+
//! | envelope, 4 NAK       | from (16)   | source (16) | expected (32)           |
//! +-----------------------+-------------+-------------+-------------+-----------+
//! | envelope, 5 CHOKE     | from (16)   | pause, microseconds (32)  |
//! +-----------------------+-------------+---------------------------+
//! ```
//!
//! Sequence numbers run from 1 to N and then start over; the group has agreed on N, which is not in the packets. A
//! retransmission is a DATA like the first transmission. `held` is not in the source: it is the number of messages
//! before `next` that the back window still holds, so that a receiver knows which messages can no longer be repaired.

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
        /// Rank of the node that offered the message.
        source: u16,
        /// Sequence number of the message, 1 to N.
        sequence: u32,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Progress of an idle sender, sent up to K times at intervals of T1.
    Status(Progress),
    /// Progress of an idle sender, sent at the longer intervals T2.
    Sanity(Progress),
    /// Request to a source for a message.
    Nak {
        /// Rank of the requesting receiver.
        from: u16,
        /// Rank of the source.
        source: u16,
        /// Sequence number of the expected message, 1 to N.
        expected: u32,
    },
    /// Request to all senders for a pause (flow control).
    Choke {
        /// Rank of the node with a filling buffer.
        from: u16,
        /// Pause T3 in microseconds.
        pause_us: u32,
    },
}

/// Progress of a sender, in STATUS and SANITY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rank of the sender.
    pub source: u16,
    /// Sequence number of the sender's next message, 1 to N.
    pub next: u32,
    /// Number of messages before `next` that the sender can retransmit.
    pub held: u32,
}

/// Bytes of a data packet before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 6;
/// Bytes of a STATUS or SANITY.
pub const STATUS_LEN: usize = Envelope::LEN + 10;
/// Bytes of a NAK.
pub const NAK_LEN: usize = Envelope::LEN + 8;
/// Bytes of a CHOKE.
pub const CHOKE_LEN: usize = Envelope::LEN + 6;

impl<'a> Packet<'a> {
    /// Parses a datagram. Bytes behind a packet without a payload are padding.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::ERRAMILLI_SINGH, bytes)?;
        let packet = match envelope.packet_type {
            packet_type::DATA => {
                reader.require(HEADER_LEN)?;
                Packet::Data { source: reader.u16()?, sequence: reader.u32()?, payload: reader.rest() }
            }
            kind @ (packet_type::STATUS | packet_type::SANITY) => {
                reader.require(STATUS_LEN)?;
                let progress = Progress { source: reader.u16()?, next: reader.u32()?, held: reader.u32()? };
                if kind == packet_type::STATUS { Packet::Status(progress) } else { Packet::Sanity(progress) }
            }
            packet_type::NAK => {
                reader.require(NAK_LEN)?;
                Packet::Nak { from: reader.u16()?, source: reader.u16()?, expected: reader.u32()? }
            }
            packet_type::CHOKE => {
                reader.require(CHOKE_LEN)?;
                Packet::Choke { from: reader.u16()?, pause_us: reader.u32()? }
            }
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let packet_type = match self {
            Packet::Data { .. } => packet_type::DATA,
            Packet::Status(_) => packet_type::STATUS,
            Packet::Sanity(_) => packet_type::SANITY,
            Packet::Nak { .. } => packet_type::NAK,
            Packet::Choke { .. } => packet_type::CHOKE,
        };
        Envelope { protocol: protocol::ERRAMILLI_SINGH, packet_type, association }.emit(buf);
        match *self {
            Packet::Data { source, sequence, payload } => {
                buf.extend_from_slice(&source.to_be_bytes());
                buf.extend_from_slice(&sequence.to_be_bytes());
                buf.extend_from_slice(payload);
            }
            Packet::Status(Progress { source, next, held })
            | Packet::Sanity(Progress { source, next, held }) => {
                buf.extend_from_slice(&source.to_be_bytes());
                buf.extend_from_slice(&next.to_be_bytes());
                buf.extend_from_slice(&held.to_be_bytes());
            }
            Packet::Nak { from, source, expected } => {
                buf.extend_from_slice(&from.to_be_bytes());
                buf.extend_from_slice(&source.to_be_bytes());
                buf.extend_from_slice(&expected.to_be_bytes());
            }
            Packet::Choke { from, pause_us } => {
                buf.extend_from_slice(&from.to_be_bytes());
                buf.extend_from_slice(&pause_us.to_be_bytes());
            }
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Data { payload, .. } => HEADER_LEN + payload.len(),
            Packet::Status(_) | Packet::Sanity(_) => STATUS_LEN,
            Packet::Nak { .. } => NAK_LEN,
            Packet::Choke { .. } => CHOKE_LEN,
        }
    }

    /// Rank of the node that sent the packet.
    pub fn sender(&self) -> u16 {
        match *self {
            Packet::Data { source, .. } => source,
            Packet::Status(Progress { source, .. }) | Packet::Sanity(Progress { source, .. }) => source,
            Packet::Nak { from, .. } | Packet::Choke { from, .. } => from,
        }
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Data { source, sequence, payload } => {
                write!(f, "erramilli-singh data from {source} seq {sequence} len {}", payload.len())
            }
            Packet::Status(Progress { source, next, held }) => {
                write!(f, "erramilli-singh status from {source} next {next} held {held}")
            }
            Packet::Sanity(Progress { source, next, held }) => {
                write!(f, "erramilli-singh sanity from {source} next {next} held {held}")
            }
            Packet::Nak { from, source, expected } => {
                write!(f, "erramilli-singh nak from {from} source {source} expected {expected}")
            }
            Packet::Choke { from, pause_us } => {
                write!(f, "erramilli-singh choke from {from} pause {pause_us} us")
            }
        }
    }
}

mod packet_type {
    pub const DATA: u8 = 1;
    pub const STATUS: u8 = 2;
    pub const SANITY: u8 = 3;
    pub const NAK: u8 = 4;
    pub const CHOKE: u8 = 5;
}
