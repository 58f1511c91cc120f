//! Packets of RMTP, the Reliable Multicast Transport Protocol (Lin and Paul 1996; Paul, Sabnani, Lin and Bhattacharyya 1997).
//!
//! The sources name the packets and what they carry; the layout is Carillon's.
//!
//! ```text
//! +----------------------+---------------+-------------+----------------------------------------
//! | envelope, 1 DATA     | sequence (32) | oldest (32) | payload
//! +----------------------+---------------+-------------+------------+-----------+-----------+-----------+---------------+
//! | envelope, 2 ACK      | next (32)     | stable (32) | limit (32) | span (32) | flags (8) | words (8) | V (64 x words)
//! | envelope, 3 ACK_TXNOW|               |             |            |           |           |           |
//! +----------------------+---------------+-------------+------------+-----------+-----------+-----------+---------------+
//! | envelope, 4 RTT_MEASURE, 5 RTT_ACK   | timestamp (64)
//! +----------------------+---------------+----------------------+
//! | envelope, 6 SND_ACK_TOME             | oldest (32)
//! +----------------------+---------------+
//! ```
//!
//! Sequence numbers count modulo 2^32. `oldest` is the first message that is still kept for any receiver: earlier
//! ones will not be repaired. In an ACK `next` is the source's L, the first missing message, and bit i of V (words in
//! order, each from its lowest bit) says that the message `next` + 1 + i is present. The node and its whole subtree
//! have everything before `stable`, and there is no room from message `limit` on. A message sent more than `span`
//! microseconds before the ACK arrives, and not in it, was lost. Flag 1 says that another node repairs the missing
//! messages. Bytes behind a packet without a payload are padding.

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
    /// Message of the sender, or repair of a designated receiver.
    Data {
        /// Number of the message, modulo 2^32.
        sequence: u32,
        /// Oldest message that is kept for any receiver, modulo 2^32.
        oldest: u32,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Status of a receiver.
    Ack(Ack<'a>),
    /// Status of a straggler (ACK_TXNOW): its repairs must leave at once and by unicast.
    AckTxnow(Ack<'a>),
    /// Request for an RTT measurement.
    RttMeasure {
        /// Clock of the requesting node, in nanoseconds.
        timestamp: u64,
    },
    /// Answer to an RTT_MEASURE.
    RttAck {
        /// Timestamp of the request.
        timestamp: u64,
    },
    /// Offer of a repairing node; each receiver turns to the nearest one (SND_ACK_TOME).
    SndAckTome {
        /// First message that the node can repair, modulo 2^32.
        oldest: u32,
    },
}

/// Status of a receiver and of its subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// First missing message, modulo 2^32: the source's L.
    pub next: u32,
    /// First message that some node of the subtree may be missing, modulo 2^32.
    pub stable: u32,
    /// First message without room in the buffer, modulo 2^32.
    pub limit: u32,
    /// Maximum age of the status in microseconds: the interval between two of them, no less than a round trip.
    pub span: u32,
    /// True if another node repairs the missing messages, and the receiver of this ACK must not.
    pub served: bool,
    /// Map of the messages present beyond `next`: the source's V.
    pub received: Map<'a>,
}

/// Bytes of a data packet before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 8;
/// Bytes of an acknowledgment without its map.
pub const ACK_LEN: usize = Envelope::LEN + 18;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut fields) = Reader::behind_envelope(protocol::RMTP, bytes)?;
        let packet = match envelope.packet_type {
            packet_type::DATA => {
                Packet::Data { sequence: fields.u32()?, oldest: fields.u32()?, payload: fields.rest() }
            }
            packet_type::ACK => Packet::Ack(fields.acknowledgment()?),
            packet_type::ACK_TXNOW => Packet::AckTxnow(fields.acknowledgment()?),
            packet_type::RTT_MEASURE => Packet::RttMeasure { timestamp: fields.u64()? },
            packet_type::RTT_ACK => Packet::RttAck { timestamp: fields.u64()? },
            packet_type::SND_ACK_TOME => Packet::SndAckTome { oldest: fields.u32()? },
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        Envelope { protocol: protocol::RMTP, packet_type: self.packet_type(), association }.emit(buf);
        match *self {
            Packet::Data { sequence, oldest, payload } => {
                buf.extend_from_slice(&sequence.to_be_bytes());
                buf.extend_from_slice(&oldest.to_be_bytes());
                buf.extend_from_slice(payload);
            }
            Packet::Ack(ack) | Packet::AckTxnow(ack) => ack.emit(buf),
            Packet::RttMeasure { timestamp } | Packet::RttAck { timestamp } => {
                buf.extend_from_slice(&timestamp.to_be_bytes());
            }
            Packet::SndAckTome { oldest } => buf.extend_from_slice(&oldest.to_be_bytes()),
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Data { payload, .. } => HEADER_LEN + payload.len(),
            Packet::Ack(ack) | Packet::AckTxnow(ack) => ACK_LEN + 8 * ack.received.count(),
            Packet::RttMeasure { .. } | Packet::RttAck { .. } => Envelope::LEN + 8,
            Packet::SndAckTome { .. } => Envelope::LEN + 4,
        }
    }

    fn packet_type(&self) -> u8 {
        match self {
            Packet::Data { .. } => packet_type::DATA,
            Packet::Ack(_) => packet_type::ACK,
            Packet::AckTxnow(_) => packet_type::ACK_TXNOW,
            Packet::RttMeasure { .. } => packet_type::RTT_MEASURE,
            Packet::RttAck { .. } => packet_type::RTT_ACK,
            Packet::SndAckTome { .. } => packet_type::SND_ACK_TOME,
        }
    }
}

impl Ack<'_> {
    fn emit(&self, buf: &mut Vec<u8>) {
        for number in [self.next, self.stable, self.limit, self.span] {
            buf.extend_from_slice(&number.to_be_bytes());
        }
        buf.extend_from_slice(&[u8::from(self.served), self.received.count() as u8]);
        self.received.emit(buf);
    }
}

impl<'a> Reader<'a> {
    fn acknowledgment(&mut self) -> Result<Ack<'a>, ParseError> {
        let (next, stable, limit, span) = (self.u32()?, self.u32()?, self.u32()?, self.u32()?);
        let (served, words) = (self.flag("flags")?, self.u8()?);
        Ok(Ack { next, stable, limit, span, served, received: self.map(words.into())? })
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Data { sequence, oldest, payload } => {
                write!(f, "rmtp data seq {sequence} oldest {oldest} len {}", payload.len())
            }
            Packet::Ack(ack) => write!(f, "rmtp ack {ack}"),
            Packet::AckTxnow(ack) => write!(f, "rmtp ack_txnow {ack}"),
            Packet::RttMeasure { timestamp } => write!(f, "rmtp rtt_measure {timestamp} ns"),
            Packet::RttAck { timestamp } => write!(f, "rmtp rtt_ack {timestamp} ns"),
            Packet::SndAckTome { oldest } => write!(f, "rmtp snd_ack_tome oldest {oldest}"),
        }
    }
}

impl fmt::Display for Ack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ack { next, stable, limit, span, served, received } = self;
        let served = if *served { " served elsewhere" } else { "" };
        write!(f, "next {next} stable {stable} limit {limit} span {span} us{served} map{received}")
    }
}

mod packet_type {
    pub const DATA: u8 = 1;
    pub const ACK: u8 = 2;
    pub const ACK_TXNOW: u8 = 3;
    pub const RTT_MEASURE: u8 = 4;
    pub const RTT_ACK: u8 = 5;
    pub const SND_ACK_TOME: u8 = 6;
}
