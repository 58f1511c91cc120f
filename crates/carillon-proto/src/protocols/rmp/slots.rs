//! Slots of the order (the source's ordering queue) with their messages.

use bytes::Bytes;
use carillon_wire::rmp::{self as wire, Id, Item, Quality, Slot};

use crate::blocks::{Placed, Turn};

/// Message with its identity and quality of service.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub id: Id,
    pub quality: Quality,
    /// Number of the message at its source, which the application knows.
    pub number: u64,
    pub payload: Bytes,
}

impl Message {
    /// Message of a packet; `datagram` ends with its payload.
    pub fn of(message: &wire::Message<'_>, datagram: &Bytes) -> Self {
        let payload = datagram.slice(datagram.len() - message.payload.len()..);
        Message { id: message.id, quality: message.quality, number: message.number, payload }
    }

    /// Message as a packet carries it.
    pub fn as_wire(&self) -> wire::Message<'_> {
        wire::Message { id: self.id, quality: self.quality, number: self.number, payload: &self.payload }
    }
}

/// Slot in order, with its message.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub slot: Slot,
    pub message: Option<Message>,
    /// Number of passes of the token before this slot, in its view.
    pub passes: u64,
    /// Number of members of the ring before this slot.
    pub members: u64,
}

impl Placed for Entry {
    fn message(&self) -> Option<(usize, u64)> {
        match self.slot.item {
            Item::Message(id) => Some((id.source.into(), id.sequence)),
            Item::Null | Item::List(_) => None,
        }
    }
}

/// Slot beyond a gap, with its message if that has arrived.
#[derive(Debug)]
pub(super) struct Early {
    pub slot: Slot,
    pub message: Option<Message>,
}

impl Turn for Slot {
    fn timestamp(&self) -> u64 {
        self.timestamp
    }

    fn site(&self) -> u16 {
        self.site
    }

    fn next(&self) -> u16 {
        self.next
    }

    fn has_message(&self) -> bool {
        matches!(self.item, Item::Message(_))
    }
}
