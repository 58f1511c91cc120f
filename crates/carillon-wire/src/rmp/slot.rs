//! Slots of the total order (the ordering queue), and the batches of slots in an acknowledgment.

use std::fmt;

use crate::ParseError;
use crate::reader::Reader;
use crate::reformation::Ranks;

/// Identity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Rank of its source.
    pub source: u16,
    /// Sequence number at its source.
    pub sequence: u64,
}

impl Id {
    /// Bytes of an identity.
    const LEN: usize = 10;

    /// Appends the identity, as [`Ids`] reads it.
    pub fn emit(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.source.to_be_bytes());
        buf.extend_from_slice(&self.sequence.to_be_bytes());
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Id { source: reader.u16()?, sequence: reader.u64()? })
    }
}

/// Content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Empty slot: the token moves on (null acknowledgment).
    Null,
    /// Message.
    Message(Id),
    /// New list of members, in force from the next slot on.
    List(Ranks),
}

/// Slot of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Timestamp: position in the order.
    pub timestamp: u64,
    /// Rank of the token site that filled the slot.
    pub site: u16,
    /// Rank of the next token site. It equals `site` unless the slot is the last of its acknowledgment.
    pub next: u16,
    /// Content.
    pub item: Item,
}

impl Slot {
    /// Bytes of timestamp, site and next site.
    pub(super) const HEADER_LEN: usize = 12;
}

/// Identities of messages, encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids<'a>(&'a [u8]);

impl<'a> Ids<'a> {
    /// Maximum number of messages of an acknowledgment.
    pub const MAX: usize = 64;

    /// Wraps 1 to [`Ids::MAX`] identities, each written by [`Id::emit`].
    ///
    /// # Panics
    ///
    /// Panics if the bytes are not that many whole identities.
    pub fn new(bytes: &'a [u8]) -> Self {
        let count = bytes.len() / Id::LEN;
        assert!(
            bytes.len().is_multiple_of(Id::LEN) && (1..=Self::MAX).contains(&count),
            "{count} identities"
        );
        Ids(bytes)
    }

    /// Identities in order.
    pub fn iter(self) -> impl Iterator<Item = Id> + use<'a> {
        let (items, _) = self.0.as_chunks::<{ Id::LEN }>();
        items.iter().map(|&[a, b, sequence @ ..]| Id {
            source: u16::from_be_bytes([a, b]),
            sequence: u64::from_be_bytes(sequence),
        })
    }
}

/// Content of an acknowledgment: what its slots hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch<'a> {
    /// Single empty slot.
    Null,
    /// Slot for each message.
    Messages(Ids<'a>),
    /// Single slot with a new list.
    List(Ranks),
}

impl<'a> Batch<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        match reader.u8()? {
            0 => Ok(Batch::Null),
            LIST => Ok(Batch::List(reader.ranks()?)),
            count if usize::from(count) <= Ids::MAX => {
                Ok(Batch::Messages(Ids(reader.bytes(usize::from(count) * Id::LEN)?)))
            }
            other => Err(ParseError::Field { field: "batch", value: other.into() }),
        }
    }

    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        match self {
            Batch::Null => buf.push(0),
            Batch::Messages(Ids(ids)) => {
                buf.push((ids.len() / Id::LEN) as u8);
                buf.extend_from_slice(ids);
            }
            Batch::List(members) => {
                buf.push(LIST);
                members.emit(buf);
            }
        }
    }

    pub(super) fn wire_len(&self) -> usize {
        1 + match self {
            Batch::Null => 0,
            Batch::Messages(Ids(ids)) => ids.len(),
            Batch::List(members) => members.wire_len(),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.sequence)
    }
}

impl fmt::Display for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Batch::Null => f.write_str("null"),
            Batch::Messages(ids) => {
                for (i, id) in ids.iter().enumerate() {
                    write!(f, "{}{id}", if i > 0 { " " } else { "" })?;
                }
                Ok(())
            }
            Batch::List(members) => write!(f, "list {members}"),
        }
    }
}

/// Kind of a batch, and of a repaired slot, with a new list.
pub(super) const LIST: u8 = 255;
