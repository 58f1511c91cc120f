//! What a site knows of the one order: acknowledgments by timestamp, each with its message.
//!
//! Counting the transfers of the token in it gives both rules of section 2.9: what `L` sites have accepted the token
//! after is committed, and what all have accepted it after is not kept any more.

use bytes::Bytes;
use carillon_wire::chang_maxemchuk::{Ack, Id};

use crate::blocks::{OrderLog, Placed};

/// The order of all messages, as far as a site holds it.
#[derive(Debug)]
pub(super) struct Log {
    order: OrderLog<Entry, Early>,
    /// How far beyond the log an acknowledgment is kept.
    ahead: u64,
    /// Where the order of this view begins: what lies before it, all its members have.
    start: u64,
    /// Transfers of the token since the view began.
    transfers: u64,
    /// Entries since the last of them.
    since_transfer: u64,
    /// The transfers before the last message of this view.
    before_last_message: Option<u64>,
    /// For each site, the timestamp below which it has accepted all, by what it confirmed or gave.
    confirmed: Vec<u64>,
}

/// An acknowledgment in its place, with its message.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub ack: Ack,
    pub payload: Bytes,
    /// Transfers of the token before it, in its view.
    transfers: u64,
}

impl Entry {
    /// Not yet in its place.
    pub fn new(ack: Ack, payload: Bytes) -> Self {
        Entry { ack, payload, transfers: 0 }
    }
}

impl Placed for Entry {
    fn message(&self) -> Option<(usize, u64)> {
        self.ack.message.map(|id| (id.source.into(), id.number))
    }
}

/// An acknowledgment beyond a gap, perhaps with its message.
#[derive(Debug)]
pub(super) struct Early {
    ack: Ack,
    payload: Option<Bytes>,
}

impl Log {
    /// Messages that are here.
    pub fn held(&self) -> usize {
        self.order.len() + self.order.early().len()
    }

    /// An empty log of a group of so many sites that keeps acknowledgments up to `ahead` beyond a gap.
    pub fn new(sites: usize, ahead: u64) -> Self {
        Log {
            order: OrderLog::new(sites),
            ahead,
            start: 0,
            transfers: 0,
            since_transfer: 0,
            before_last_message: None,
            confirmed: vec![0; sites],
        }
    }

    /// Keeps an acknowledgment beyond the log, unless it is there. Returns whether it was new.
    pub fn keep_early(&mut self, ack: Ack, payload: Option<Bytes>) -> bool {
        let mut new = false;
        let early = self.order.early_mut().entry(ack.timestamp).or_insert_with(|| {
            new = true;
            Early { ack, payload: None }
        });
        if early.payload.is_none() && payload.is_some() {
            early.payload = payload;
            new = true;
        }
        new
    }

    /// Forgets the acknowledgment that would be the next.
    pub fn drop_next_early(&mut self) {
        let next = self.length();
        self.order.early_mut().remove(&next);
    }

    /// Appends the acknowledgment with the next timestamp.
    pub fn append(&mut self, ack: Ack, payload: Bytes) {
        debug_assert_eq!(ack.timestamp, self.length(), "timestamps are given without gaps");
        // Who gives a timestamp has accepted all before it.
        self.confirm(ack.site, ack.timestamp);
        if ack.message.is_some() {
            self.before_last_message = Some(self.transfers);
        }
        self.order.push(Entry { ack, payload, transfers: self.transfers });
        self.since_transfer += 1;
        if ack.next != ack.site {
            self.transfers += 1;
            self.since_transfer = 0;
        }
    }

    /// A site has accepted all below this timestamp.
    pub fn confirm(&mut self, site: u16, below: u64) {
        if let Some(confirmed) = self.confirmed.get_mut(usize::from(site)) {
            *confirmed = below.max(*confirmed);
        }
    }

    /// Commits the next entry if the token has been accepted `resilience` times since it was acknowledged: so many
    /// sites and the one that gave the acknowledgment hold it then (section 2.9.1).
    pub fn commit_next(&mut self, resilience: u64) -> Option<&Entry> {
        let accepted = self.accepted();
        self.order.deliver_if(|entry| accepted >= entry.transfers + resilience)
    }

    /// Commits the next entry as all of this log is.
    pub fn commit_any(&mut self) -> Option<&Entry> {
        self.order.deliver_if(|_| true)
    }

    /// A new list of sites begins here: all of them have what is in the log.
    pub fn begin_view(&mut self) {
        self.start = self.length();
        (self.transfers, self.since_transfer) = (0, 0);
        self.before_last_message = None;
        self.confirmed.fill(0);
        self.order.early_mut().clear();
        self.order.iter_mut().for_each(|entry| entry.transfers = 0);
    }

    /// Forgets all entries from this timestamp on, none of which is committed.
    pub fn truncate(&mut self, length: u64) {
        self.order.truncate(length);
    }

    /// Forgets all: the order goes on here from this timestamp.
    pub fn restart(&mut self, length: u64, numbers: Vec<u64>) {
        self.order.skip_to(length, numbers);
        self.begin_view();
    }

    /// Forgets what the token has gone around all `sites` of the view since ("buffers may be purged").
    pub fn purge(&mut self, sites: u64) {
        let accepted = self.accepted();
        self.order.purge(|_, entry, _| accepted >= entry.transfers + sites);
    }

    /// One past the last timestamp below which nothing is missing: the next to be given.
    pub fn length(&self) -> u64 {
        self.order.length()
    }

    /// One past the last timestamp that may be kept.
    pub fn limit(&self) -> u64 {
        self.length().saturating_add(self.ahead)
    }

    /// The order that it counts transfers in.
    pub fn order(&self) -> &OrderLog<Entry, Early> {
        &self.order
    }

    /// The first timestamp that is kept.
    pub fn base(&self) -> u64 {
        self.order.base()
    }

    /// The number of a source's next message in the order.
    pub fn expected(&self, source: u16) -> u64 {
        self.order.next(source.into())
    }

    /// The entry of a timestamp, if it is in the log and still kept.
    pub fn get(&self, timestamp: u64) -> Option<&Entry> {
        self.order.get(timestamp)
    }

    /// The acknowledgment of the last entry of this view.
    pub fn last(&self) -> Option<Ack> {
        self.order.last().filter(|_| self.length() > self.start).map(|entry| entry.ack)
    }

    /// The timestamp of a message, if it is still kept.
    pub fn find(&self, id: Id) -> Option<u64> {
        let entry = self.order.iter().rev().find(|entry| entry.ack.message == Some(id));
        entry.map(|entry| entry.ack.timestamp)
    }

    /// The acknowledgment that would be the next of the log, and its message if that came with it.
    pub fn next_early(&self) -> Option<(Ack, Option<&Bytes>)> {
        let early = self.order.early().get(&self.length())?;
        Some((early.ack, early.payload.as_ref()))
    }

    /// The first run of timestamps below `known` of which the acknowledgment or the message is missing: what to ask
    /// for. `is_here` says which messages have come though they are not in the log.
    pub fn gap(&self, known: u64, is_here: impl Fn(Id) -> bool) -> Option<std::ops::Range<u64>> {
        let (from, early) = (self.length(), self.order.early());
        let known = known.max(early.last_key_value().map_or(0, |(&last, _)| last + 1)).min(self.limit());
        if from >= known {
            return None;
        }
        // An acknowledgment at the front without its message is missing too.
        let whole = |early: &Early| early.payload.is_some() || early.ack.message.is_none_or(&is_here);
        let below = early.range(from + 1..).find(|(_, early)| whole(early));
        Some(from..below.map_or(known, |(&timestamp, _)| timestamp.min(known)))
    }

    /// Entries since the token was passed on last.
    pub fn since_transfer(&self) -> u64 {
        self.since_transfer
    }

    /// The timestamp below which a site is known to have accepted all.
    pub fn confirmed(&self, site: usize) -> u64 {
        self.confirmed.get(site).copied().unwrap_or_default()
    }

    /// Whether the site to which the last entry passed the token has accepted it, as far as is known
    /// here; true if the token stayed.
    pub fn is_last_accepted(&self) -> bool {
        self.last().is_none_or(|ack| ack.next == ack.site || self.confirmed(ack.next.into()) >= self.length())
    }

    /// Transfers that have been accepted: each but the last is, for the next entry is by the site
    /// that accepted it.
    pub fn accepted(&self) -> u64 {
        self.transfers - u64::from(!self.is_last_accepted())
    }

    /// Transfers since the last message of this view, if there was one: the one in the
    /// acknowledgment of that message counts.
    pub fn accepted_since_last_message(&self) -> Option<u64> {
        Some(self.accepted() - self.before_last_message?.min(self.accepted()))
    }

    /// How far a site that lives can be behind another that still keeps what it lacks.
    pub fn most_apart(&self) -> u64 {
        2 * self.ahead
    }
}
