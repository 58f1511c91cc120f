//! Entries of the total order and the transfers of the token that they contain.
//!
//! Counting transfers gives both rules of section 2.9: an entry is committed when `L` sites have accepted the token
//! after it, and is discarded when all sites have.

use bytes::Bytes;
use carillon_wire::chang_maxemchuk::Ack;

use crate::blocks::Placed;

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

/// Transfers of the token since the view began.
#[derive(Debug)]
pub(super) struct Transfers {
    count: u64,
    /// Acknowledgments since the last transfer.
    pub since: u64,
    /// Number of transfers before the last message.
    before_last_message: Option<u64>,
    /// Last acknowledgment of the view.
    pub last: Option<Ack>,
    /// Timestamp below which each site has accepted all entries, from its confirmations and acknowledgments.
    pub confirmed: Vec<u64>,
}

impl Transfers {
    /// Creates the count for a new view of `sites` sites, without acknowledgments.
    pub fn new(sites: usize) -> Self {
        Transfers { count: 0, since: 0, before_last_message: None, last: None, confirmed: vec![0; sites] }
    }

    /// Counts the next acknowledgment and returns the number of transfers before it.
    pub fn on_ack(&mut self, ack: Ack) -> u64 {
        let before = self.count;
        // A site may give a timestamp only after it has accepted all earlier ones (section 2.9.1).
        self.confirm(ack.site, ack.timestamp);
        self.last = Some(ack);
        if ack.message.is_some() {
            self.before_last_message = Some(before);
        }
        self.since += 1;
        if ack.next != ack.site {
            self.count += 1;
            self.since = 0;
        }
        before
    }

    /// Records that a site has accepted all entries below a timestamp.
    pub fn confirm(&mut self, site: u16, below: u64) {
        let confirmed = &mut self.confirmed[usize::from(site)];
        *confirmed = below.max(*confirmed);
    }

    /// Returns true if the site to which the last acknowledgment passed the token is known to have accepted it, or if
    /// the token stayed.
    pub fn is_last_accepted(&self) -> bool {
        self.last
            .is_none_or(|ack| ack.next == ack.site || self.confirmed[usize::from(ack.next)] > ack.timestamp)
    }

    /// Number of accepted transfers. Only the last can be open, because the next entry comes from the site that
    /// accepted the token.
    pub fn accepted(&self) -> u64 {
        self.count - u64::from(!self.is_last_accepted())
    }

    /// Accepted transfers since the last message of this view, or `None` without a message. The transfer in the
    /// acknowledgment of that message counts.
    pub fn accepted_since_last_message(&self) -> Option<u64> {
        Some(self.accepted() - self.before_last_message?.min(self.accepted()))
    }
}
