//! Packets of Chang and Maxemchuk's reliable broadcast.
//!
//! Segovia 1996, section 2.9, names the fields of the broadcast message, the acknowledgment, the
//! confirmation and the request for retransmission; the layout is Carillon's. Each packet starts
//! with the common envelope and the number of the token list ("view", 32 bits), then:
//!
//! ```text
//! 1 MSG             | source (16) | number (64)  | payload
//! 2 ACK             | timestamp (64) | site (16) | next (16) | source (16) | number (64)
//! 3 CONFIRM         | site (16) | below (64)
//! 4 RETRANS         | from (64) | below (64)
//! 5 RETRANS MESSAGE | source (16) | number (64)
//! 6 REPAIR          | as ACK, then the payload of the message it acknowledges
//! 7 PURGED          | below (64)
//! ```
//!
//! Types of [`reformation::KINDS`] have the bodies of that exchange instead.
//!
//! Sites are named by their rank in the group. In an ACK, `source` 0xffff with `number` 0 says that no message is
//! acknowledged; `next` equal to `site` says that the token stays.

mod describe;

use std::fmt;

use carillon_core::AssociationId;

use crate::envelope::{Envelope, protocol};
use crate::reader::Reader;
use crate::{ParseError, reformation};

pub use describe::FORMAT;

/// Datagram of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// Packet of the normal phase.
    Normal(Packet<'a>),
    /// Packet of the agreement on a new token list.
    Reformation(reformation::Packet<'a>),
}

impl<'a> Datagram<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Datagram<'a>), ParseError> {
        let (envelope, rest) = Envelope::parse_for(protocol::CHANG_MAXEMCHUK, bytes)?;
        if reformation::KINDS.contains(&envelope.packet_type) {
            let packet = reformation::Packet::parse(envelope.packet_type, rest)?;
            return Ok((envelope.association, Datagram::Reformation(packet)));
        }
        let (association, packet) = Packet::parse(bytes)?;
        Ok((association, Datagram::Normal(packet)))
    }

    /// Appends the datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        match self {
            Datagram::Normal(packet) => packet.emit(association, buf),
            Datagram::Reformation(packet) => {
                let packet_type = packet.packet_type();
                Envelope { protocol: protocol::CHANG_MAXEMCHUK, packet_type, association }.emit(buf);
                packet.emit(buf);
            }
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        match self {
            Datagram::Normal(packet) => packet.wire_len(),
            Datagram::Reformation(packet) => Envelope::LEN + packet.wire_len(),
        }
    }
}

impl fmt::Display for Datagram<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Datagram::Normal(packet) => packet.fmt(f),
            Datagram::Reformation(packet) => write!(f, "cm {packet}"),
        }
    }
}

/// Packet of the normal phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Version of the token list.
    pub view: u32,
    /// Contents of the packet.
    pub body: Body<'a>,
}

/// Contents of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Message from its source to all sites (section 2.9: "multicast message").
    Msg {
        /// Identity of the message.
        id: Id,
        /// Contents of the message.
        payload: &'a [u8],
    },
    /// Acknowledgment, transfer of the token, or both, from the token site to all sites.
    Ack(Ack),
    /// Confirmation that a site has taken every acknowledgment below this timestamp, and the token if it was passed
    /// to the site there (section 2.9: "confirmation message").
    Confirm {
        /// Rank of the site.
        site: u16,
        /// Timestamp after the last one that the site has taken.
        below: u64,
    },
    /// Request for the acknowledgments and messages of a range of timestamps.
    Retrans {
        /// First timestamp.
        from: u64,
        /// Timestamp after the last one.
        below: u64,
    },
    /// Request for the acknowledgment of a message, and for the message.
    RetransMessage(Id),
    /// Retransmission of an acknowledgment with the acknowledged message.
    Repair {
        /// Acknowledgment.
        ack: Ack,
        /// Contents of the message; empty if the acknowledgment names none.
        payload: &'a [u8],
    },
    /// Answer to a request for what is no longer kept.
    Purged {
        /// First timestamp that is kept.
        below: u64,
    },
}

/// Identity of a message: "the source address and its sequence number" (section 2.9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Rank of its source.
    pub source: u16,
    /// Number of the message at its source.
    pub number: u64,
}

/// Fields of an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Timestamp: position in the order of all acknowledgments.
    pub timestamp: u64,
    /// Rank of the token site that sent it.
    pub site: u16,
    /// Rank of the next token site.
    pub next: u16,
    /// Acknowledged message; `None` if the packet only passes the token.
    pub message: Option<Id>,
}

/// Bytes of a message packet before its payload.
pub const MSG_HEADER_LEN: usize = Envelope::LEN + 14;
/// Bytes of an acknowledgment, and of a repair before its payload.
pub const ACK_LEN: usize = Envelope::LEN + 26;
/// Bytes of a confirmation.
pub const CONFIRM_LEN: usize = Envelope::LEN + 14;
/// Bytes of a request by timestamps.
pub const RETRANS_LEN: usize = Envelope::LEN + 20;
/// Bytes of a PURGED packet.
pub const PURGED_LEN: usize = Envelope::LEN + 12;
/// Bytes of a request by message.
pub const RETRANS_MESSAGE_LEN: usize = Envelope::LEN + 14;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::CHANG_MAXEMCHUK, bytes)?;
        let kind = envelope.packet_type;
        reader.require(match kind {
            packet_type::MSG => MSG_HEADER_LEN,
            packet_type::ACK | packet_type::REPAIR => ACK_LEN,
            packet_type::CONFIRM => CONFIRM_LEN,
            packet_type::RETRANS => RETRANS_LEN,
            packet_type::RETRANS_MESSAGE => RETRANS_MESSAGE_LEN,
            packet_type::PURGED => PURGED_LEN,
            other => return Err(ParseError::Type(other)),
        })?;
        let view = reader.u32()?;
        let body = match kind {
            packet_type::MSG => Body::Msg { id: reader.id()?, payload: reader.rest() },
            packet_type::CONFIRM => Body::Confirm { site: reader.u16()?, below: reader.u64()? },
            packet_type::RETRANS => Body::Retrans { from: reader.u64()?, below: reader.u64()? },
            packet_type::PURGED => Body::Purged { below: reader.u64()? },
            packet_type::RETRANS_MESSAGE => Body::RetransMessage(reader.id()?),
            packet_type::ACK => Body::Ack(reader.ack()?),
            _ => {
                let (ack, payload) = (reader.ack()?, reader.rest());
                if ack.message.is_none() && !payload.is_empty() {
                    return Err(ParseError::Field { field: "source", value: NO_SOURCE.into() });
                }
                Body::Repair { ack, payload }
            }
        };
        Ok((envelope.association, Packet { view, body }))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let packet_type = match self.body {
            Body::Msg { .. } => packet_type::MSG,
            Body::Ack(_) => packet_type::ACK,
            Body::Confirm { .. } => packet_type::CONFIRM,
            Body::Retrans { .. } => packet_type::RETRANS,
            Body::RetransMessage(_) => packet_type::RETRANS_MESSAGE,
            Body::Repair { .. } => packet_type::REPAIR,
            Body::Purged { .. } => packet_type::PURGED,
        };
        Envelope { protocol: protocol::CHANG_MAXEMCHUK, packet_type, association }.emit(buf);
        buf.extend_from_slice(&self.view.to_be_bytes());
        match self.body {
            Body::Msg { id, payload } => {
                id.emit(buf);
                buf.extend_from_slice(payload);
            }
            Body::Ack(ack) => ack.emit(buf),
            Body::Confirm { site, below } => {
                buf.extend_from_slice(&site.to_be_bytes());
                buf.extend_from_slice(&below.to_be_bytes());
            }
            Body::Retrans { from, below } => {
                buf.extend_from_slice(&from.to_be_bytes());
                buf.extend_from_slice(&below.to_be_bytes());
            }
            Body::RetransMessage(id) => id.emit(buf),
            Body::Purged { below } => buf.extend_from_slice(&below.to_be_bytes()),
            Body::Repair { ack, payload } => {
                ack.emit(buf);
                buf.extend_from_slice(payload);
            }
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        match self.body {
            Body::Msg { payload, .. } => MSG_HEADER_LEN + payload.len(),
            Body::Ack(_) => ACK_LEN,
            Body::Confirm { .. } => CONFIRM_LEN,
            Body::Retrans { .. } => RETRANS_LEN,
            Body::RetransMessage(_) => RETRANS_MESSAGE_LEN,
            Body::Purged { .. } => PURGED_LEN,
            Body::Repair { payload, .. } => ACK_LEN + payload.len(),
        }
    }
}

impl Id {
    fn emit(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.source.to_be_bytes());
        buf.extend_from_slice(&self.number.to_be_bytes());
    }
}

impl Ack {
    fn emit(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.timestamp.to_be_bytes());
        buf.extend_from_slice(&self.site.to_be_bytes());
        buf.extend_from_slice(&self.next.to_be_bytes());
        self.message.unwrap_or(Id { source: NO_SOURCE, number: 0 }).emit(buf);
    }
}

impl Reader<'_> {
    fn id(&mut self) -> Result<Id, ParseError> {
        Ok(Id { source: self.u16()?, number: self.u64()? })
    }

    fn ack(&mut self) -> Result<Ack, ParseError> {
        let (timestamp, site, next, id) = (self.u64()?, self.u16()?, self.u16()?, self.id()?);
        let message = (id.source != NO_SOURCE).then_some(id);
        if message.is_none() && id.number != 0 {
            return Err(ParseError::Field { field: "number", value: id.number });
        }
        Ok(Ack { timestamp, site, next, message })
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cm view {} ", self.view)?;
        match self.body {
            Body::Msg { id, payload } => write!(f, "msg {id} len {}", payload.len()),
            Body::Ack(ack) => write!(f, "ack {ack}"),
            Body::Confirm { site, below } => write!(f, "confirm site {site} below {below}"),
            Body::Retrans { from, below } => write!(f, "retrans {from}..{below}"),
            Body::RetransMessage(id) => write!(f, "retrans {id}"),
            Body::Purged { below } => write!(f, "purged below {below}"),
            Body::Repair { ack, payload } => write!(f, "repair {ack} len {}", payload.len()),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.number)
    }
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of ", self.timestamp)?;
        match self.message {
            Some(id) => write!(f, "{id}")?,
            None => f.write_str("nothing")?,
        }
        write!(f, " token {} to {}", self.site, self.next)
    }
}

/// Value of `source` for no message.
const NO_SOURCE: u16 = 0xffff;

mod packet_type {
    pub const MSG: u8 = 1;
    pub const ACK: u8 = 2;
    pub const CONFIRM: u8 = 3;
    pub const RETRANS: u8 = 4;
    pub const RETRANS_MESSAGE: u8 = 5;
    pub const REPAIR: u8 = 6;
    pub const PURGED: u8 = 7;
}
