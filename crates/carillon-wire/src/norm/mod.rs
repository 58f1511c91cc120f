//! Packets of NORM, NACK-Oriented Reliable Multicast (RFC 5740, section 4; FEC: RFC 5510).
//!
//! The bytes are the RFC's own, without the common envelope; over UDP a packet is the datagram.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+---------------+-------------------------------+
//! |version| type  | header words  |           sequence            |
//! +-------+-------+---------------+-------------------------------+
//! |                        source of the packet                   |
//! +---------------------------------------------------------------+
//! | of a sender: instance 2, grtt 1, backoff and group size 1     |
//! | INFO  flags 1, FEC id 1, object 2                             |
//! | DATA  flags 1, FEC id 1, object 2, position                   |
//! | CMD   command 1, and the fields of the command                |
//! +---------------------------------------------------------------+
//! | of a receiver: sender 4, instance 2                           |
//! | NACK  reserved 2, GRTT response 8                             |
//! | ACK   type 1, identifier 1, GRTT response 8                   |
//! +---------------------------------------------------------------+
//! | header extensions                                             |
//! +---------------------------------------------------------------+
//! | payload of INFO and DATA; lists of CMD; requests of NACK      |
//! +---------------------------------------------------------------+
//! ```
//!
//! The header length counts the words before the payload, so it says where the extensions end.

mod command;
mod describe;
mod extensions;
mod position;
mod quantities;
mod requests;
mod stamp;

use std::fmt;

pub use command::{Command, Nodes, ProbeNode};
pub use describe::FORMAT;
pub use extensions::{Congestion, Extensions, Transmission};
pub use position::Position;
pub use quantities::{
    decode_group_size, decode_grtt, decode_rate, encode_group_size, encode_grtt, encode_rate,
};
pub use requests::{Form, Item, Request, Requests};
pub use stamp::Stamp;

use crate::ParseError;
use crate::lct_extensions::WORD;
use crate::reader::Reader;

/// NORM packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Sequence number, from which receivers measure loss; one for all packets of a sender.
    pub sequence: u16,
    /// Identifier of the node that sent it; 0 and 2^32 - 1 are reserved.
    pub source: u32,
    /// Fields of the packet type.
    pub body: Body<'a>,
    /// Header extensions.
    pub extensions: Extensions<'a>,
}

/// Contents that depend on the packet type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Information about an object (INFO).
    Info {
        /// State of the sender.
        sender: SenderState,
        /// Object that it describes.
        object: Object,
        /// FEC encoding of the object.
        fec_id: u8,
        /// Information.
        payload: &'a [u8],
    },
    /// Symbol of an object (DATA).
    Data {
        /// State of the sender.
        sender: SenderState,
        /// Object of the symbol.
        object: Object,
        /// Place in the object.
        position: Position,
        /// Symbol.
        payload: &'a [u8],
    },
    /// Command of the sender (CMD).
    Command {
        /// State of the sender.
        sender: SenderState,
        /// The command.
        command: Command<'a>,
    },
    /// Repair requests of a receiver (NACK).
    Nack {
        /// Sender and round-trip time.
        response: Response,
        /// Requests.
        requests: Requests<'a>,
    },
    /// Answer of a receiver (ACK).
    Ack {
        /// Sender and round-trip time.
        response: Response,
        /// Kind of the acknowledged request: 1 a probe of congestion control, 2 a FLUSH, from 16 on of applications.
        kind: u8,
        /// Identifier of the request.
        id: u8,
        /// Contents; of an acknowledged FLUSH its item.
        payload: &'a [u8],
    },
}

/// State of the sender that all its packets carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderState {
    /// Instance of the sender; a new one has no state in common with the one before.
    pub instance: u16,
    /// Greatest round-trip time of the group, in the code of [`decode_grtt`].
    pub grtt: u8,
    /// Back-off factor K, 4 bits.
    pub backoff: u8,
    /// Size of the group, in the code of [`decode_group_size`], 4 bits.
    pub group_size: u8,
}

/// Object of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Number of the object, modulo 2^16.
    pub id: u16,
    /// Flags: bits of [`Object::REPAIR`] and the others.
    pub flags: u8,
}

/// Sender that a receiver answers, and the time of the sender's last probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Identifier of the sender.
    pub sender: u32,
    /// Instance of the sender.
    pub instance: u16,
    /// Send time of the last probe plus the time that the receiver held it; zero without a probe.
    pub echo: Stamp,
}

/// Header of the payload of a stream (RFC 5740, 4.2.1), which is coded with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHeader {
    /// Number of bytes behind the header; with 0, `message_start` is a control code, of which 0 ends the stream.
    pub length: u16,
    /// Index plus one of the first byte that begins a message, or 0.
    pub message_start: u16,
    /// Offset of the bytes in the stream, modulo 2^32.
    pub offset: u32,
}

impl Object {
    /// The packet repairs a loss.
    pub const REPAIR: u8 = 0x01;
    /// The packet was asked for by its number, since no parity was left.
    pub const EXPLICIT: u8 = 0x02;
    /// The object has information.
    pub const INFO: u8 = 0x04;
    /// The object is not repaired.
    pub const UNRELIABLE: u8 = 0x08;
    /// The object is a file.
    pub const FILE: u8 = 0x10;
    /// The object is a stream.
    pub const STREAM: u8 = 0x20;
}

impl StreamHeader {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// Splits a symbol into its header and its bytes; `None` if they do not fit each other.
    pub fn split(symbol: &[u8]) -> Option<(StreamHeader, &[u8])> {
        let (head, rest) = symbol.split_first_chunk::<{ StreamHeader::LEN }>()?;
        let [a, b, c, d, e, f, g, h] = *head;
        let length = u16::from_be_bytes([a, b]);
        let header = StreamHeader {
            length,
            message_start: u16::from_be_bytes([c, d]),
            offset: u32::from_be_bytes([e, f, g, h]),
        };
        Some((header, rest.get(..length.into())?))
    }

    /// Appends the header.
    pub fn emit(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.length.to_be_bytes());
        buf.extend_from_slice(&self.message_start.to_be_bytes());
        buf.extend_from_slice(&self.offset.to_be_bytes());
    }
}

/// Bytes of a DATA packet of FEC encoding 5 before its extensions and its payload.
pub const DATA_HEADER_LEN: usize = 20;
/// Kind of the answer to a probe (RFC 5740, 4.3.2).
pub const PROBE_ANSWER: u8 = 1;
/// Kind of the acknowledgment of a FLUSH (RFC 5740, 4.3.2).
pub const FLUSH_ACKNOWLEDGMENT: u8 = 2;
/// Bytes of a NACK before its extensions and its requests.
pub const NACK_HEADER_LEN: usize = 24;

const VERSION: u8 = 1;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let mut fields = Reader::new(bytes);
        let first = fields.u8()?;
        if first >> 4 != VERSION {
            return Err(ParseError::Magic(u16::from(first) << 8));
        }
        let header = usize::from(fields.u8()?) * WORD;
        fields.require(header)?;
        let (sequence, source) = (fields.u16()?, fields.u32()?);
        let kind = first & 15;
        let partial = Partial::read(kind, &mut fields)?;
        let read = bytes.len() - fields.rest().len();
        let Some(length) = header.checked_sub(read) else {
            return Err(ParseError::Field { field: "header words", value: (header / WORD) as u64 });
        };
        let extensions = Extensions::new(fields.bytes(length)?)?;
        Ok(Packet { sequence, source, body: partial.with_content(fields.remaining())?, extensions })
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let words = self.header_len() / WORD;
        buf.extend_from_slice(&[VERSION << 4 | self.kind(), words as u8]);
        buf.extend_from_slice(&self.sequence.to_be_bytes());
        buf.extend_from_slice(&self.source.to_be_bytes());
        match self.body {
            Body::Info { sender, object, fec_id, .. } => {
                sender.emit(buf);
                object.emit(fec_id, buf);
            }
            Body::Data { sender, object, position, .. } => {
                sender.emit(buf);
                object.emit(position.fec_id(), buf);
                position.emit(buf);
            }
            Body::Command { sender, command } => {
                sender.emit(buf);
                command.emit_fields(buf);
            }
            Body::Nack { response, .. } => response.emit([0, 0], buf),
            Body::Ack { response, kind, id, .. } => response.emit([kind, id], buf),
        }
        buf.extend_from_slice(self.extensions.as_bytes());
        buf.extend_from_slice(self.content());
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        self.header_len() + self.content().len()
    }

    /// Name of the packet type.
    pub fn name(&self) -> &'static str {
        match self.body {
            Body::Info { .. } => "info",
            Body::Data { .. } => "data",
            Body::Command { command, .. } => command.name(),
            Body::Nack { .. } => "nack",
            Body::Ack { .. } => "ack",
        }
    }

    fn kind(&self) -> u8 {
        match self.body {
            Body::Info { .. } => packet_type::INFO,
            Body::Data { .. } => packet_type::DATA,
            Body::Command { .. } => packet_type::CMD,
            Body::Nack { .. } => packet_type::NACK,
            Body::Ack { .. } => packet_type::ACK,
        }
    }

    fn header_len(&self) -> usize {
        self.extensions.as_bytes().len()
            + match self.body {
                Body::Info { .. } => 16,
                Body::Data { position, .. } => 16 + position.len(),
                Body::Command { command, .. } => 12 + command.fields_len(),
                Body::Nack { .. } | Body::Ack { .. } => NACK_HEADER_LEN,
            }
    }

    /// Bytes behind the header.
    fn content(&self) -> &'a [u8] {
        match self.body {
            Body::Info { payload, .. } | Body::Data { payload, .. } | Body::Ack { payload, .. } => payload,
            Body::Command { command, .. } => command.content(),
            Body::Nack { requests, .. } => requests.as_bytes(),
        }
    }
}

/// Fields of a packet before its extensions.
enum Partial {
    Info(SenderState, Object, u8),
    Data(SenderState, Object, Position),
    Command(SenderState, command::Fields),
    Nack(Response),
    Ack(Response, u8, u8),
}

impl Partial {
    fn read(kind: u8, fields: &mut Reader<'_>) -> Result<Partial, ParseError> {
        match kind {
            packet_type::INFO => {
                let sender = SenderState::read(fields)?;
                let (object, fec_id) = Object::read(fields)?;
                Ok(Partial::Info(sender, object, fec_id))
            }
            packet_type::DATA => {
                let sender = SenderState::read(fields)?;
                let (object, fec_id) = Object::read(fields)?;
                Ok(Partial::Data(sender, object, Position::read(fec_id, fields)?))
            }
            packet_type::CMD => {
                Ok(Partial::Command(SenderState::read(fields)?, command::Fields::read(fields)?))
            }
            packet_type::NACK | packet_type::ACK => {
                let (sender, instance) = (fields.u32()?, fields.u16()?);
                let (acknowledged, id) = (fields.u8()?, fields.u8()?);
                let echo = Stamp::read(fields)?;
                let response = Response { sender, instance, echo };
                match kind {
                    packet_type::ACK => Ok(Partial::Ack(response, acknowledged, id)),
                    _ if acknowledged != 0 || id != 0 => {
                        let value = u16::from_be_bytes([acknowledged, id]).into();
                        Err(ParseError::Field { field: "reserved", value })
                    }
                    _ => Ok(Partial::Nack(response)),
                }
            }
            other => Err(ParseError::Type(other)),
        }
    }

    fn with_content(self, content: &[u8]) -> Result<Body<'_>, ParseError> {
        Ok(match self {
            Partial::Info(sender, object, fec_id) => Body::Info { sender, object, fec_id, payload: content },
            Partial::Data(sender, object, position) => {
                Body::Data { sender, object, position, payload: content }
            }
            Partial::Command(sender, fields) => {
                Body::Command { sender, command: fields.with_content(content)? }
            }
            Partial::Nack(response) => Body::Nack { response, requests: Requests::new(content)? },
            Partial::Ack(response, kind, id) => Body::Ack { response, kind, id, payload: content },
        })
    }
}

impl SenderState {
    fn read(fields: &mut Reader<'_>) -> Result<SenderState, ParseError> {
        let (instance, grtt, both) = (fields.u16()?, fields.u8()?, fields.u8()?);
        Ok(SenderState { instance, grtt, backoff: both >> 4, group_size: both & 15 })
    }

    fn emit(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.instance.to_be_bytes());
        buf.extend_from_slice(&[self.grtt, self.backoff << 4 | self.group_size & 15]);
    }
}

impl Object {
    fn read(fields: &mut Reader<'_>) -> Result<(Object, u8), ParseError> {
        let (flags, fec_id) = (fields.u8()?, fields.u8()?);
        Ok((Object { id: fields.u16()?, flags }, fec_id))
    }

    fn emit(self, fec_id: u8, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&[self.flags, fec_id]);
        buf.extend_from_slice(&self.id.to_be_bytes());
    }
}

impl Stamp {
    pub(super) fn read(fields: &mut Reader<'_>) -> Result<Stamp, ParseError> {
        Ok(Stamp { seconds: fields.u32()?, microseconds: fields.u32()? })
    }

    pub(super) fn emit(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.seconds.to_be_bytes());
        buf.extend_from_slice(&self.microseconds.to_be_bytes());
    }
}

impl Response {
    fn emit(self, middle: [u8; 2], buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.sender.to_be_bytes());
        buf.extend_from_slice(&self.instance.to_be_bytes());
        buf.extend_from_slice(&middle);
        self.echo.emit(buf);
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "norm {} {} from {:#x}", self.name(), self.sequence, self.source)?;
        match self.body {
            Body::Info { sender, object, payload, .. } => {
                write!(f, "{sender}{object} len {}", payload.len())?;
            }
            Body::Data { sender, object, position, payload } => {
                write!(f, "{sender}{object} {position} len {}", payload.len())?;
            }
            Body::Command { sender, command } => write!(f, "{sender}{command}")?,
            Body::Nack { response, requests } => write!(f, "{response}{requests}")?,
            Body::Ack { response, kind, id, payload } => {
                write!(f, "{response} type {kind} id {id} len {}", payload.len())?;
            }
        }
        write!(f, "{}", self.extensions)
    }
}

impl fmt::Display for SenderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grtt = decode_grtt(self.grtt).as_secs_f64();
        write!(f, " instance {} grtt {grtt:.6} k {}", self.instance, self.backoff)?;
        write!(f, " group {}", decode_group_size(self.group_size))
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " object {} flags {:#04x}", self.id, self.flags)
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stamp { seconds, microseconds } = self.echo;
        write!(f, " to {:#x} instance {} echo {seconds}.{microseconds:06}", self.sender, self.instance)
    }
}

/// Packet types (RFC 5740, 4.1).
mod packet_type {
    pub const INFO: u8 = 1;
    pub const DATA: u8 = 2;
    pub const CMD: u8 = 3;
    pub const NACK: u8 = 4;
    pub const ACK: u8 = 5;
}
