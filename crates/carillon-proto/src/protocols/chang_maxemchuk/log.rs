//! Entries of the total order and the transfers of the token that they contain.
//!
//! Counting transfers gives both rules of section 2.9: an entry is committed when `L` sites have accepted the token
//! after it, and is discarded when all sites have.

use bytes::Bytes;
use carillon_wire::chang_maxemchuk::Ack;

use crate::blocks::{Placed, Turn};

/// Acknowledgment with its message, at its position in the order.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub ack: Ack,
    pub payload: Bytes,
    /// Number of transfers of the token before this entry, in its view.
    pub transfers: u64,
}

impl Placed for Entry {
    fn message(&self) -> Option<(usize, u64)> {
        self.ack.message.map(|id| (id.source.into(), id.number))
    }
}

/// Acknowledgment beyond a gap, with its message if that has arrived.
#[derive(Debug)]
pub(super) struct Early {
    pub ack: Ack,
    pub payload: Option<Bytes>,
}

impl Turn for Ack {
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
        self.message.is_some()
    }
}
