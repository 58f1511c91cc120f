//! Packets of RAMP, the Reliable Adaptive Multicast Protocol (Braudes and Zabele, RFC 1458; Koifman and Zabele 1996).
//!
//! The sources name the packets and what they carry; the layout is Carillon's.
//!
//! ```text
//! +----------------------------+---------------+------------+---------+
//! | envelope, 1 CONNECT        | next (32)     | service (8)| flags(8)|
//! +----------------------------+---------------+------------+---------+
//! | envelope, 2 ACCEPT         | next (32)     | limit (32)  | service (8)
//! +----------------------------+---------------+-------------+--------
//! | envelope, 3 DATA           | sequence (32) | flags (8) | payload
//! +----------------------------+---------------+-----------+
//! | envelope, 4 IDLE           | next (32)     | flags (8) |
//! +----------------------------+---------------+-----------+-+---------------+
//! | envelope, 5 ACK            | next (32)     | limit (32)  | sequence (32) |
//! +----------------------------+---------------+-------------+---------------+
//! | envelope, 6 RECEIVER_IDLE  | next (32)     | limit (32)  |
//! |           7 RESPOND        |               |             |
//! +----------------------------+---------------+-------------+-------------+-------------------------------
//! | envelope, 8 RESEND         | next (32)     | limit (32)  | spans (8)   | first (32), length (16), ...
//! +----------------------------+---------------+-------------+-------------+-------------------------------
//! | envelope, 9 NAK            | oldest (32)   |
//! +----------------------------+---------------+
//! ```
//!
//! Sequence numbers count modulo 2^32. In packets of a receiver, `next` is its first missing message, and it has no
//! room from message `limit` on. In packets of the sender, `next` is the number after the last message sent. Flag 1
//! asks for an acknowledgment, flag 2 says that the sender is in idle mode, and flag 4 that no more messages follow.
//! Services are 0 unreliable, 1 receiver-reliable and 2 sender-reliable. Bytes behind a packet without a payload are
//! padding.

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
    /// Opens the channel to a receiver.
    Connect {
        /// Number after the last message sent, modulo 2^32.
        next: u32,
        /// Service that the receiver gets.
        service: Service,
        /// Flags of the sender.
        flags: Flags,
    },
    /// Answer of a receiver to a CONNECT.
    Accept {
        /// Progress of the receiver.
        status: Status,
        /// Service of the receiver.
        service: Service,
    },
    /// Message of the sender, or its retransmission.
    Data {
        /// Number of the message, modulo 2^32.
        sequence: u32,
        /// Flags of the sender.
        flags: Flags,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Heartbeat of a sender without data.
    Idle {
        /// Number after the last message sent, modulo 2^32.
        next: u32,
        /// Flags of the sender.
        flags: Flags,
    },
    /// Acknowledgment of a packet with the flag.
    Ack {
        /// Progress of the receiver.
        status: Status,
        /// Number of the acknowledged DATA, or `next` of the acknowledged IDLE.
        sequence: u32,
    },
    /// Periodic heartbeat of a receiver, which the source also calls Idle.
    ReceiverIdle(Status),
    /// Request of a receiver for a heartbeat of the sender.
    Respond(Status),
    /// Request for spans of missing messages.
    Resend {
        /// Progress of the receiver.
        status: Status,
        /// Missing messages.
        spans: Spans<'a>,
    },
    /// Answer to a request for messages that are no longer held.
    Nak {
        /// Oldest message that is held, modulo 2^32.
        oldest: u32,
    },
}

/// Progress of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// First missing message, modulo 2^32.
    pub next: u32,
    /// First message without room in the buffer, modulo 2^32.
    pub limit: u32,
}

/// Flags of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// True if the receivers must acknowledge the packet.
    pub ack: bool,
    /// True if the sender is in idle mode, false if it is in burst mode.
    pub idle_mode: bool,
    /// True if no more messages follow.
    pub end: bool,
}

/// Reliability of one receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The receiver requests nothing.
    Unreliable,
    /// The receiver requests missing messages; the sender does not wait for it.
    ReceiverReliable,
    /// The sender verifies that the receiver has every message.
    SenderReliable,
}

/// Spans of missing messages: first number and length of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans<'a>(&'a [u8]);

/// Maximum number of spans in a RESEND.
pub const MAX_SPANS: usize = 32;
/// Bytes of a data packet before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 5;
/// Bytes of a span.
const SPAN_LEN: usize = 6;

impl<'a> Spans<'a> {
    /// Encodes spans into `buf`.
    pub fn encode(spans: impl IntoIterator<Item = (u32, u16)>, buf: &mut Vec<u8>) {
        for (first, length) in spans.into_iter().take(MAX_SPANS) {
            buf.extend_from_slice(&first.to_be_bytes());
            buf.extend_from_slice(&length.to_be_bytes());
        }
    }

    /// Spans in these bytes, as [`Spans::encode`] has written them.
    pub fn new(bytes: &'a [u8]) -> Self {
        let whole = (bytes.len() / SPAN_LEN).min(MAX_SPANS) * SPAN_LEN;
        Spans(&bytes[..whole])
    }

    /// First number, modulo 2^32, and length of each span.
    pub fn iter(self) -> impl Iterator<Item = (u32, u16)> + 'a {
        self.0.chunks_exact(SPAN_LEN).map(|span| {
            (u32::from_be_bytes([span[0], span[1], span[2], span[3]]), u16::from_be_bytes([span[4], span[5]]))
        })
    }

    /// Number of spans.
    pub fn count(self) -> usize {
        self.0.len() / SPAN_LEN
    }
}

impl Flags {
    fn bits(self) -> u8 {
        u8::from(self.ack) | u8::from(self.idle_mode) << 1 | u8::from(self.end) << 2
    }
}

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut fields) = Reader::behind_envelope(protocol::RAMP, bytes)?;
        let packet = match envelope.packet_type {
            packet_type::CONNECT => Packet::Connect {
                next: fields.u32()?,
                service: fields.ramp_service()?,
                flags: fields.ramp_flags()?,
            },
            packet_type::ACCEPT => {
                Packet::Accept { status: fields.ramp_status()?, service: fields.ramp_service()? }
            }
            packet_type::DATA => {
                Packet::Data { sequence: fields.u32()?, flags: fields.ramp_flags()?, payload: fields.rest() }
            }
            packet_type::IDLE => Packet::Idle { next: fields.u32()?, flags: fields.ramp_flags()? },
            packet_type::ACK => Packet::Ack { status: fields.ramp_status()?, sequence: fields.u32()? },
            packet_type::RECEIVER_IDLE => Packet::ReceiverIdle(fields.ramp_status()?),
            packet_type::RESPOND => Packet::Respond(fields.ramp_status()?),
            packet_type::RESEND => {
                Packet::Resend { status: fields.ramp_status()?, spans: fields.ramp_spans()? }
            }
            packet_type::NAK => Packet::Nak { oldest: fields.u32()? },
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        Envelope { protocol: protocol::RAMP, packet_type: self.packet_type(), association }.emit(buf);
        match *self {
            Packet::Connect { next, service, flags } => {
                buf.extend_from_slice(&next.to_be_bytes());
                buf.extend_from_slice(&[service as u8, flags.bits()]);
            }
            Packet::Accept { status, service } => {
                status.emit(buf);
                buf.push(service as u8);
            }
            Packet::Data { sequence, flags, payload } => {
                buf.extend_from_slice(&sequence.to_be_bytes());
                buf.push(flags.bits());
                buf.extend_from_slice(payload);
            }
            Packet::Idle { next, flags } => {
                buf.extend_from_slice(&next.to_be_bytes());
                buf.push(flags.bits());
            }
            Packet::Ack { status, sequence } => {
                status.emit(buf);
                buf.extend_from_slice(&sequence.to_be_bytes());
            }
            Packet::ReceiverIdle(status) | Packet::Respond(status) => status.emit(buf),
            Packet::Resend { status, spans } => {
                status.emit(buf);
                buf.push(spans.count() as u8);
                buf.extend_from_slice(spans.0);
            }
            Packet::Nak { oldest } => buf.extend_from_slice(&oldest.to_be_bytes()),
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        Envelope::LEN
            + match self {
                Packet::Connect { .. } => 6,
                Packet::Accept { .. } => 9,
                Packet::Data { payload, .. } => 5 + payload.len(),
                Packet::Idle { .. } => 5,
                Packet::Ack { .. } => 12,
                Packet::ReceiverIdle(_) | Packet::Respond(_) => 8,
                Packet::Resend { spans, .. } => 9 + spans.0.len(),
                Packet::Nak { .. } => 4,
            }
    }

    /// Name of the packet type.
    pub fn name(&self) -> &'static str {
        match self {
            Packet::Connect { .. } => "connect",
            Packet::Accept { .. } => "accept",
            Packet::Data { .. } => "data",
            Packet::Idle { .. } => "idle",
            Packet::Ack { .. } => "ack",
            Packet::ReceiverIdle(_) => "receiver_idle",
            Packet::Respond(_) => "respond",
            Packet::Resend { .. } => "resend",
            Packet::Nak { .. } => "nak",
        }
    }

    fn packet_type(&self) -> u8 {
        match self {
            Packet::Connect { .. } => packet_type::CONNECT,
            Packet::Accept { .. } => packet_type::ACCEPT,
            Packet::Data { .. } => packet_type::DATA,
            Packet::Idle { .. } => packet_type::IDLE,
            Packet::Ack { .. } => packet_type::ACK,
            Packet::ReceiverIdle(_) => packet_type::RECEIVER_IDLE,
            Packet::Respond(_) => packet_type::RESPOND,
            Packet::Resend { .. } => packet_type::RESEND,
            Packet::Nak { .. } => packet_type::NAK,
        }
    }
}

impl Status {
    fn emit(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.next.to_be_bytes());
        buf.extend_from_slice(&self.limit.to_be_bytes());
    }
}

impl<'a> Reader<'a> {
    fn ramp_status(&mut self) -> Result<Status, ParseError> {
        Ok(Status { next: self.u32()?, limit: self.u32()? })
    }

    fn ramp_service(&mut self) -> Result<Service, ParseError> {
        match self.u8()? {
            0 => Ok(Service::Unreliable),
            1 => Ok(Service::ReceiverReliable),
            2 => Ok(Service::SenderReliable),
            other => Err(ParseError::Field { field: "service", value: other.into() }),
        }
    }

    fn ramp_flags(&mut self) -> Result<Flags, ParseError> {
        match self.u8()? {
            bits @ 0..8 => Ok(Flags { ack: bits & 1 != 0, idle_mode: bits & 2 != 0, end: bits & 4 != 0 }),
            other => Err(ParseError::Field { field: "flags", value: other.into() }),
        }
    }

    fn ramp_spans(&mut self) -> Result<Spans<'a>, ParseError> {
        let count = usize::from(self.u8()?);
        if count > MAX_SPANS {
            return Err(ParseError::Field { field: "spans", value: count as u64 });
        }
        Ok(Spans(self.bytes(count * SPAN_LEN)?))
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ramp {}", self.name())?;
        match self {
            Packet::Connect { next, service, flags } => write!(f, " next {next} {service}{flags}"),
            Packet::Accept { status, service } => write!(f, " {status} {service}"),
            Packet::Data { sequence, flags, payload } => {
                write!(f, " seq {sequence}{flags} len {}", payload.len())
            }
            Packet::Idle { next, flags } => write!(f, " next {next}{flags}"),
            Packet::Ack { status, sequence } => write!(f, " seq {sequence} {status}"),
            Packet::ReceiverIdle(status) | Packet::Respond(status) => write!(f, " {status}"),
            Packet::Resend { status, spans } => {
                write!(f, " {status}")?;
                spans.iter().try_for_each(|(first, length)| write!(f, " {first}+{length}"))
            }
            Packet::Nak { oldest } => write!(f, " oldest {oldest}"),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "next {} limit {}", self.next, self.limit)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(self.ack, " ack"), (self.idle_mode, " idle-mode"), (self.end, " end")];
        names.into_iter().filter(|(set, _)| *set).try_for_each(|(_, name)| f.write_str(name))
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Service::Unreliable => "unreliable",
            Service::ReceiverReliable => "receiver-reliable",
            Service::SenderReliable => "sender-reliable",
        })
    }
}

mod packet_type {
    pub const CONNECT: u8 = 1;
    pub const ACCEPT: u8 = 2;
    pub const DATA: u8 = 3;
    pub const IDLE: u8 = 4;
    pub const ACK: u8 = 5;
    pub const RECEIVER_IDLE: u8 = 6;
    pub const RESPOND: u8 = 7;
    pub const RESEND: u8 = 8;
    pub const NAK: u8 = 9;
}
