//! Packets of full feedback (FF): a message, and its acknowledgment.
//!
//! ```text
//! +------------------+----------+------------+-----------+---------
//! | envelope, 1 DATA | seq (32) | first (32) | time (64) | payload
//! +------------------+----------+------------+-----------+---------
//! | envelope, 2 ACK  | seq (32) | time (64) | padding
//! +------------------+----------+------------+-----------+---------
//! ```
//!
//! Message numbers count modulo 2^32. `first` is the oldest message that the sender still holds. An ACK names the
//! answered DATA by its number and its time of transmission, in nanoseconds of the sender's clock. The sources name
//! no fields; the layout is Carillon's.

use std::fmt;

use carillon_core::{AssociationId, Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::reader::Reader;

/// Packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// First transmission or retransmission of a message.
    Data {
        /// Number of the message, modulo 2^32.
        seq: u32,
        /// Oldest message that the sender still holds, modulo 2^32.
        first: u32,
        /// Time of transmission in nanoseconds of the sender's clock.
        time: u64,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Acknowledgment of a message.
    Ack {
        /// Number of the message, modulo 2^32.
        seq: u32,
        /// Time of the acknowledged DATA.
        time: u64,
    },
}

/// Bytes of a DATA before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 16;
const ACK_LEN: usize = Envelope::LEN + 12;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "ff", read, summary, kinds: KINDS };

const DATA: u8 = 1;
const ACK: u8 = 2;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::FF, bytes)?;
        let packet = match envelope.packet_type {
            DATA => {
                let (seq, first, time) = (reader.u32()?, reader.u32()?, reader.u64()?);
                Packet::Data { seq, first, time, payload: reader.rest() }
            }
            ACK => Packet::Ack { seq: reader.u32()?, time: reader.u64()? },
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let (packet_type, seq, first, time, payload) = match *self {
            Packet::Data { seq, first, time, payload } => (DATA, seq, Some(first), time, payload),
            Packet::Ack { seq, time } => (ACK, seq, None, time, &[][..]),
        };
        Envelope { protocol: protocol::FF, packet_type, association }.emit(buf);
        buf.extend_from_slice(&seq.to_be_bytes());
        if let Some(first) = first {
            buf.extend_from_slice(&first.to_be_bytes());
        }
        buf.extend_from_slice(&time.to_be_bytes());
        buf.extend_from_slice(payload);
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Data { payload, .. } => HEADER_LEN + payload.len(),
            Packet::Ack { .. } => ACK_LEN,
        }
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Data { seq, first, time, payload } => {
                write!(f, "ff data seq {seq} first {first} time {time} len {}", payload.len())
            }
            Packet::Ack { seq, time } => write!(f, "ff ack seq {seq} time {time}"),
        }
    }
}

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (association, packet) = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    let rest = if matches!(packet, Packet::Ack { .. }) { Remainder::Padding } else { Remainder::Empty };
    Ok(ParsedPacket::new(&packet, again, packet.wire_len(), rest))
}

/// Summarizes a packet for viewers.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Acknowledgment, Data};
    let (_, packet) = Packet::parse(bytes).ok()?;
    Some(match packet {
        Packet::Data { seq, .. } => PacketSummary::about("data", Data, seq),
        Packet::Ack { seq, .. } => PacketSummary::about("ack", Acknowledgment, seq),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[("ack", PacketKind::Acknowledgment), ("data", PacketKind::Data)];
