//! What the acknowledgments of the one order say of the token.
//!
//! Counting its transfers gives both rules of section 2.9: what `L` sites have accepted the token after is committed, and
//! what all have accepted it after is not kept any more.

use bytes::Bytes;
use carillon_wire::chang_maxemchuk::Ack;

use crate::blocks::Placed;

/// An acknowledgment in its place, with its message.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub ack: Ack,
    pub payload: Bytes,
    /// Transfers of the token before it, in its view.
    pub transfers: u64,
}

impl Placed for Entry {
    fn message(&self) -> Option<(usize, u64)> {
        self.ack.message.map(|id| (id.source.into(), id.number))
    }
}

/// An acknowledgment beyond a gap, perhaps with its message.
#[derive(Debug)]
pub(super) struct Early {
    pub ack: Ack,
    pub payload: Option<Bytes>,
}

/// The transfers of the token since the view began.
#[derive(Debug)]
pub(super) struct Transfers {
    count: u64,
    /// Acknowledgments since the last of them.
    pub since: u64,
    /// How many there were before the last message.
    before_last_message: Option<u64>,
    /// The last acknowledgment.
    pub last: Option<Ack>,
    /// For each site, the timestamp below which it has accepted all, by what it confirmed or gave.
    pub confirmed: Vec<u64>,
}

impl Transfers {
    /// In a view of a group of so many sites, in which nothing has been acknowledged.
    pub fn new(sites: usize) -> Self {
        Transfers { count: 0, since: 0, before_last_message: None, last: None, confirmed: vec![0; sites] }
    }

    /// The next acknowledgment. Returns how many transfers there were before it.
    pub fn on_ack(&mut self, ack: Ack) -> u64 {
        let before = self.count;
        // Who gives a timestamp has accepted all before it.
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

    /// A site has accepted all below this timestamp.
    pub fn confirm(&mut self, site: u16, below: u64) {
        let confirmed = &mut self.confirmed[usize::from(site)];
        *confirmed = below.max(*confirmed);
    }

    /// Whether the site to which the last acknowledgment passed the token has accepted it, as far as is known here; true
    /// if the token stayed.
    pub fn is_last_accepted(&self) -> bool {
        self.last
            .is_none_or(|ack| ack.next == ack.site || self.confirmed[usize::from(ack.next)] > ack.timestamp)
    }

    /// Transfers that have been accepted: each but the last is, for the next entry is by the site
    /// that accepted it.
    pub fn accepted(&self) -> u64 {
        self.count - u64::from(!self.is_last_accepted())
    }

    /// Transfers since the last message of this view, if there was one: the one in the
    /// acknowledgment of that message counts.
    pub fn accepted_since_last_message(&self) -> Option<u64> {
        Some(self.accepted() - self.before_last_message?.min(self.accepted()))
    }
}
