//! Contents of the packets of normal operation.

use std::fmt;

use super::quality::Message;
use super::slot::{Batch, Id, Item, LIST, Slot};
use crate::ParseError;
use crate::reader::Reader;
use crate::reformation::Ranks;

/// Contents of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Message from its source to the group.
    Data(Message<'a>),
    /// Acknowledgment of the token site: it fills slots from `timestamp` on and passes the token on.
    Ack {
        /// Timestamp of the first slot.
        timestamp: u64,
        /// Rank of the token site.
        site: u16,
        /// Rank of the next token site.
        next: u16,
        /// Content of the slots.
        batch: Batch<'a>,
    },
    /// Confirmation that a site holds every slot below this timestamp, and has accepted the token if it was passed to
    /// the site there.
    Confirm {
        /// Rank of the site.
        site: u16,
        /// Timestamp after the last slot that the site holds.
        below: u64,
    },
    /// Negative acknowledgment: request for a range of slots.
    Nack {
        /// Rank of the site that shall answer.
        site: u16,
        /// True to request the messages too; false to request only the acknowledgments.
        with_data: bool,
        /// First timestamp.
        from: u64,
        /// Timestamp after the last one.
        below: u64,
    },
    /// Negative acknowledgment: request for a message that its source shall repeat.
    NackData(Id),
    /// Retransmission of a slot, with its message if it holds one.
    Repair {
        /// Slot.
        slot: Slot,
        /// Message of the slot.
        message: Option<Message<'a>>,
    },
    /// Answer to a request for slots that are no longer kept.
    Purged {
        /// First timestamp that is kept.
        below: u64,
    },
    /// State for a member that joins: it begins after this slot.
    Welcome {
        /// Timestamp of the new list's slot.
        timestamp: u64,
        /// Members from that slot on.
        members: Ranks,
        /// Next sequence number of each member, 64 bits each.
        numbers: &'a [u8],
    },
}

impl<'a> Body<'a> {
    pub(super) fn parse(packet_type: u8, reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        Ok(match packet_type {
            packet_type::DATA => Body::Data(Message::parse(reader)?),
            packet_type::ACK => Body::Ack {
                timestamp: reader.u64()?,
                site: reader.u16()?,
                next: reader.u16()?,
                batch: Batch::parse(reader)?,
            },
            packet_type::CONFIRM => Body::Confirm { site: reader.u16()?, below: reader.u64()? },
            packet_type::NACK => Body::Nack {
                site: reader.u16()?,
                with_data: reader.flag("with data")?,
                from: reader.u64()?,
                below: reader.u64()?,
            },
            packet_type::NACK_DATA => Body::NackData(Id::parse(reader)?),
            packet_type::REPAIR => repair(reader)?,
            packet_type::PURGED => Body::Purged { below: reader.u64()? },
            packet_type::WELCOME => Body::Welcome {
                timestamp: reader.u64()?,
                members: reader.ranks()?,
                numbers: reader.remaining(),
            },
            other => return Err(ParseError::Type(other)),
        })
    }

    /// Packet type for the envelope.
    pub(super) fn packet_type(&self) -> u8 {
        match self {
            Body::Data(_) => packet_type::DATA,
            Body::Ack { .. } => packet_type::ACK,
            Body::Confirm { .. } => packet_type::CONFIRM,
            Body::Nack { .. } => packet_type::NACK,
            Body::NackData(_) => packet_type::NACK_DATA,
            Body::Repair { .. } => packet_type::REPAIR,
            Body::Purged { .. } => packet_type::PURGED,
            Body::Welcome { .. } => packet_type::WELCOME,
        }
    }

    /// Appends the bytes behind the view number.
    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        match self {
            Body::Data(message) => message.emit(buf),
            Body::Ack { timestamp, site, next, batch } => {
                header(*timestamp, *site, *next, buf);
                batch.emit(buf);
            }
            Body::Confirm { site, below } => {
                buf.extend_from_slice(&site.to_be_bytes());
                buf.extend_from_slice(&below.to_be_bytes());
            }
            Body::Nack { site, with_data, from, below } => {
                buf.extend_from_slice(&site.to_be_bytes());
                buf.push((*with_data).into());
                buf.extend_from_slice(&from.to_be_bytes());
                buf.extend_from_slice(&below.to_be_bytes());
            }
            Body::NackData(id) => id.emit(buf),
            Body::Repair { slot: Slot { timestamp, site, next, item }, message } => {
                header(*timestamp, *site, *next, buf);
                match (message, item) {
                    (Some(message), _) => {
                        buf.push(MESSAGE);
                        message.emit(buf);
                    }
                    (None, Item::List(members)) => {
                        buf.push(LIST);
                        members.emit(buf);
                    }
                    (None, _) => buf.push(0),
                }
            }
            Body::Purged { below } => buf.extend_from_slice(&below.to_be_bytes()),
            Body::Welcome { timestamp, members, numbers } => {
                buf.extend_from_slice(&timestamp.to_be_bytes());
                members.emit(buf);
                buf.extend_from_slice(numbers);
            }
        }
    }

    /// Length of the bytes that `emit` appends.
    pub(super) fn wire_len(&self) -> usize {
        match self {
            Body::Data(message) => message.wire_len(),
            Body::Ack { batch, .. } => Slot::HEADER_LEN + batch.wire_len(),
            Body::Confirm { .. } | Body::NackData(_) => 10,
            Body::Nack { .. } => 19,
            Body::Repair { slot, message } => {
                let content = match (message, slot.item) {
                    (Some(message), _) => message.wire_len(),
                    (None, Item::List(members)) => members.wire_len(),
                    (None, _) => 0,
                };
                Slot::HEADER_LEN + 1 + content
            }
            Body::Purged { .. } => 8,
            Body::Welcome { members, numbers, .. } => 8 + members.wire_len() + numbers.len(),
        }
    }

    /// Name of the packet in traces.
    pub fn name(&self) -> &'static str {
        match self {
            Body::Data(_) => "data",
            Body::Ack { batch: Batch::Null, .. } => "null-ack",
            Body::Ack { batch: Batch::List(_), .. } => "new-list",
            Body::Ack { .. } => "ack",
            Body::Confirm { .. } => "confirm",
            Body::Nack { .. } => "nack",
            Body::NackData(_) => "nack-data",
            Body::Repair { .. } => "repair",
            Body::Purged { .. } => "purged",
            Body::Welcome { .. } => "welcome",
        }
    }
}

/// Appends the fixed part of an acknowledgment or a repair.
fn header(timestamp: u64, site: u16, next: u16, buf: &mut Vec<u8>) {
    buf.extend_from_slice(&timestamp.to_be_bytes());
    buf.extend_from_slice(&site.to_be_bytes());
    buf.extend_from_slice(&next.to_be_bytes());
}

/// Reads the body of a repair.
fn repair<'a>(reader: &mut Reader<'a>) -> Result<Body<'a>, ParseError> {
    let (timestamp, site, next) = (reader.u64()?, reader.u16()?, reader.u16()?);
    let (item, message) = match reader.u8()? {
        0 => (Item::Null, None),
        MESSAGE => {
            let message = Message::parse(reader)?;
            (Item::Message(message.id), Some(message))
        }
        LIST => (Item::List(reader.ranks()?), None),
        other => return Err(ParseError::Field { field: "kind", value: other.into() }),
    };
    Ok(Body::Repair { slot: Slot { timestamp, site, next, item }, message })
}

impl fmt::Display for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Body::Data(message) => write!(f, " {message}"),
            Body::Ack { timestamp, site, next, batch } => {
                write!(f, " {timestamp} token {site} to {next} of {batch}")
            }
            Body::Confirm { site, below } => write!(f, " site {site} below {below}"),
            Body::Nack { site, with_data, from, below } => {
                write!(f, " to {site} {from}..{below}{}", if *with_data { " with data" } else { "" })
            }
            Body::NackData(id) => write!(f, " {id}"),
            Body::Repair { slot, message } => {
                write!(f, " {} token {} to {}", slot.timestamp, slot.site, slot.next)?;
                match (message, slot.item) {
                    (Some(message), _) => write!(f, " of {message}"),
                    (None, Item::List(members)) => write!(f, " of list {members}"),
                    (None, _) => f.write_str(" of nothing"),
                }
            }
            Body::Purged { below } => write!(f, " below {below}"),
            Body::Welcome { timestamp, members, numbers } => {
                write!(f, " after {timestamp} members {members} state {}", numbers.len())
            }
        }
    }
}

/// Kind of a repaired slot with a message.
const MESSAGE: u8 = 1;

mod packet_type {
    pub const DATA: u8 = 1;
    pub const ACK: u8 = 2;
    pub const CONFIRM: u8 = 3;
    pub const NACK: u8 = 4;
    pub const NACK_DATA: u8 = 5;
    pub const REPAIR: u8 = 6;
    pub const PURGED: u8 = 7;
    pub const WELCOME: u8 = 8;
}
