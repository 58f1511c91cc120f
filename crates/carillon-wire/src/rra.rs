//! Packets of round-robin acknowledgment (RRA).
//!
//! Segovia 1996, chapter 5, proposes the protocol and says only that a message names the receiver
//! that should acknowledge it; the layout is Carillon's.
//!
//! ```text
//! +-----------------------------+---------------+---------------+------------------+---------
//! | envelope, 1 DATA, 3 POLL    | sequence (32) | first (32)    | acker (64)       | payload
//! +-----------------------------+---------------+---------------+------------------+---------
//! | envelope, 2 ACK             | expected (32) | received beyond it (64)          | padding
//! +-----------------------------+---------------+----------------------------------+---------
//! ```
//!
//! Sequence numbers count modulo 2^32. `first` is the oldest message the sender still holds: what
//! lies before it will not come any more. `acker` names the receiver that acknowledges. A POLL is a
//! DATA without a message: its `sequence` is the last one sent. In an ACK, bit i of the map (from
//! the lowest) says that the message `expected` + 1 + i is there.

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};

/// A packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A message, or a retransmission of it.
    Data {
        /// Modulo 2^32.
        sequence: u32,
        /// Oldest message still held, modulo 2^32.
        first: u32,
        /// Who acknowledges.
        acker: u64,
        /// The message.
        payload: &'a [u8],
    },
    /// Asks for an acknowledgment.
    Poll {
        /// Last message sent, modulo 2^32.
        sequence: u32,
        /// Oldest message still held, modulo 2^32.
        first: u32,
        /// Who acknowledges.
        acker: u64,
    },
    /// What a receiver has.
    Ack {
        /// First message it lacks, modulo 2^32.
        expected: u32,
        /// Which of the 64 messages after that it has.
        received: u64,
    },
}

/// Bytes of a data packet before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 16;
/// Bytes of an acknowledgment without padding.
pub const ACK_LEN: usize = Envelope::LEN + 12;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, rest) = Envelope::parse_for(protocol::RRA, bytes)?;
        let truncated = |need| ParseError::Truncated { have: bytes.len(), need };
        let packet = match envelope.packet_type {
            packet_type::ACK => {
                let (expected, rest) = number::<4>(rest).ok_or(truncated(ACK_LEN))?;
                let (received, _) = number::<8>(rest).ok_or(truncated(ACK_LEN))?;
                Packet::Ack { expected: expected as u32, received }
            }
            kind @ (packet_type::DATA | packet_type::POLL) => {
                let (sequence, rest) = number::<4>(rest).ok_or(truncated(HEADER_LEN))?;
                let (first, rest) = number::<4>(rest).ok_or(truncated(HEADER_LEN))?;
                let (acker, payload) = number::<8>(rest).ok_or(truncated(HEADER_LEN))?;
                let (sequence, first) = (sequence as u32, first as u32);
                match kind {
                    packet_type::DATA => Packet::Data { sequence, first, acker, payload },
                    _ => Packet::Poll { sequence, first, acker },
                }
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
            Packet::Data { sequence, first, acker, payload } => {
                head(sequence, first, acker, buf);
                buf.extend_from_slice(payload);
            }
            Packet::Poll { sequence, first, acker } => head(sequence, first, acker, buf),
            Packet::Ack { expected, received } => {
                buf.extend_from_slice(&expected.to_be_bytes());
                buf.extend_from_slice(&received.to_be_bytes());
            }
        }
    }

    /// Bytes that `emit` appends.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Data { payload, .. } => HEADER_LEN + payload.len(),
            Packet::Poll { .. } => HEADER_LEN,
            Packet::Ack { .. } => ACK_LEN,
        }
    }
}

fn head(sequence: u32, first: u32, acker: u64, buf: &mut Vec<u8>) {
    buf.extend_from_slice(&sequence.to_be_bytes());
    buf.extend_from_slice(&first.to_be_bytes());
    buf.extend_from_slice(&acker.to_be_bytes());
}

/// Takes a big-endian number of N bytes off the front.
fn number<const N: usize>(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    Some((head.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)), rest))
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Data { sequence, first, acker, payload } => {
                write!(f, "rra data seq {sequence} first {first} acker {acker:#x} len {}", payload.len())
            }
            Packet::Poll { sequence, first, acker } => {
                write!(f, "rra poll seq {sequence} first {first} acker {acker:#x}")
            }
            Packet::Ack { expected, received } => write!(f, "rra ack expected {expected} map {received:#x}"),
        }
    }
}

mod packet_type {
    pub const DATA: u8 = 1;
    pub const ACK: u8 = 2;
    pub const POLL: u8 = 3;
}
