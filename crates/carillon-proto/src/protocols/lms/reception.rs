//! What a receiver has of the source's messages: for its application, and for others.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Range, RangeInclusive};

use bytes::Bytes;

/// The messages of the source, in order and beyond.
#[derive(Debug)]
pub(super) struct Reception {
    /// Messages out of order or not fetched, at most.
    window: u64,
    /// Messages kept after they were fetched.
    keep: usize,
    /// Nothing is known yet, and the first packet says where to start.
    joining: bool,
    /// The first message that is not in order.
    expected: u64,
    /// Below this, all that is missing has been found to be.
    found: u64,
    /// One past the last message known to have been sent.
    announced: u64,
    /// The expected message, from when it comes to [`Reception::advance`]; most come so.
    next: Option<Bytes>,
    /// Messages beyond the expected one; no memory while there are none.
    early: BTreeMap<u64, Bytes>,
    /// Messages in order, ascending: those for others, then those not fetched.
    kept: VecDeque<(u64, Bytes)>,
    /// How many the application has not fetched.
    waiting: usize,
}

/// What became of a message that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    Duplicate,
    NoRoom,
}

/// What a jump over messages that will not come any more left behind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Skipped {
    /// Those that had not been found to be missing before.
    pub new: Range<u64>,
    /// All that were skipped, but for those that had come.
    pub lost: Range<u64>,
    /// Those in between that had come, ascending: they are in order now.
    pub survivors: Vec<u64>,
}

impl Reception {
    /// From message 0 on; a node that joins late starts with what it hears first.
    pub fn new(window: u64, keep: usize, joining: bool) -> Self {
        Reception {
            window,
            keep,
            joining,
            expected: 0,
            found: 0,
            announced: 0,
            next: None,
            early: BTreeMap::new(),
            kept: VecDeque::new(),
            waiting: 0,
        }
    }

    /// A packet named this message as sent or next: a node that joins late starts here.
    pub fn join_at(&mut self, number: u64) {
        if std::mem::take(&mut self.joining) {
            self.expected = number;
            self.found = number;
            self.announced = number;
        }
    }

    /// Everything before `next` has been sent.
    pub fn announce(&mut self, next: u64) {
        self.announced = self.announced.max(next);
    }

    /// A message came in: also that it was sent is news. [`Reception::advance`] afterwards.
    pub fn insert(&mut self, number: u64, payload: Bytes) -> Arrival {
        self.announce(number + 1);
        if number < self.expected || self.early.contains_key(&number) {
            return Arrival::Duplicate;
        }
        if number >= self.limit() {
            return Arrival::NoRoom;
        }
        if number == self.expected {
            self.next = Some(payload);
        } else {
            self.early.insert(number, payload);
        }
        Arrival::New
    }

    /// The next message that is in order now, if there is one.
    pub fn advance(&mut self) -> Option<u64> {
        let payload = match self.next.take() {
            Some(payload) => payload,
            None => {
                let payload = self.early.remove(&self.expected)?;
                if self.early.is_empty() {
                    self.early = BTreeMap::new();
                }
                payload
            }
        };
        let number = self.expected;
        self.expected += 1;
        self.keep(number, payload);
        Some(number)
    }

    /// The next messages in a row that are missing and were not found to be before. What lies beyond
    /// the window is found when it has room.
    pub fn take_gap(&mut self) -> Option<Range<u64>> {
        let end = self.announced.min(self.limit());
        let mut start = self.found.max(self.expected);
        while start < end && self.early.contains_key(&start) {
            start += 1;
        }
        if start >= end {
            self.found = self.found.max(start);
            return None;
        }
        let stop = self.early.range(start..end).next().map_or(end, |(&number, _)| number);
        self.found = stop;
        Some(start..stop)
    }

    /// What lies before `oldest` will not come any more: goes on from there.
    pub fn skip_to(&mut self, oldest: u64) -> Option<Skipped> {
        if oldest <= self.expected {
            return None;
        }
        let rest = self.early.split_off(&oldest);
        let survivors = std::mem::replace(&mut self.early, rest);
        let skipped = Skipped {
            new: self.found.max(self.expected).min(oldest)..oldest,
            lost: self.expected..oldest,
            survivors: survivors.keys().copied().collect(),
        };
        for (number, payload) in survivors {
            self.keep(number, payload);
        }
        self.expected = oldest;
        self.found = self.found.max(oldest);
        self.announce(oldest);
        Some(skipped)
    }

    /// The next message for the application.
    pub fn fetch(&mut self) -> Option<(u64, Bytes)> {
        let at = self.kept.len().checked_sub(self.waiting)?;
        let message = self.kept.get(at).cloned()?;
        self.waiting -= 1;
        self.trim();
        Some(message)
    }

    /// A message that is there.
    pub fn message(&self, number: u64) -> Option<&Bytes> {
        if number >= self.expected {
            return self.early.get(&number);
        }
        let at = self.kept.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&self.kept[at].1)
    }

    /// The first message from this one on that is there.
    pub fn held_from(&self, number: u64) -> Option<u64> {
        let at = self.kept.partition_point(|&(kept, _)| kept < number);
        let kept = self.kept.get(at).map(|&(kept, _)| kept);
        kept.or_else(|| self.early.range(number..).next().map(|(&early, _)| early))
    }

    /// Those of the messages asked for that could be there.
    pub fn clip(&self, lo: u64, hi: u64) -> RangeInclusive<u64> {
        let first = self.kept.front().map_or(self.expected, |(number, _)| *number);
        let last = self.early.last_key_value().map_or(self.expected, |(&number, _)| number);
        lo.max(first)..=hi.min(last)
    }

    /// The first message that is not in order.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// The first message for which there is no room.
    fn limit(&self) -> u64 {
        self.expected.saturating_add(self.window.saturating_sub(self.waiting as u64))
    }

    fn keep(&mut self, number: u64, payload: Bytes) {
        // Room first: what grows past a power of two for a moment takes twice the memory for ever.
        self.waiting += 1;
        while self.kept.len() >= self.keep.max(self.waiting) {
            self.kept.pop_front();
        }
        self.kept.push_back((number, payload));
    }

    fn trim(&mut self) {
        while self.kept.len() > self.keep.max(self.waiting) {
            self.kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(number: u64) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    fn insert(reception: &mut Reception, number: u64) -> (Arrival, Vec<u64>) {
        let arrival = reception.insert(number, payload(number));
        (arrival, std::iter::from_fn(|| reception.advance()).collect())
    }

    /// First and last messages of the gaps.
    fn gaps(reception: &mut Reception) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| reception.take_gap()).map(|gap| (gap.start, gap.end - 1)).collect()
    }

    #[test]
    fn gaps_are_found_once_each_in_a_row() {
        let mut reception = Reception::new(100, 0, false);
        assert_eq!(insert(&mut reception, 0), (Arrival::New, vec![0]));
        assert_eq!(gaps(&mut reception), []);
        assert_eq!(insert(&mut reception, 3), (Arrival::New, vec![]));
        assert_eq!(gaps(&mut reception), [(1, 2)]);
        assert_eq!(insert(&mut reception, 6), (Arrival::New, vec![]));
        assert_eq!(gaps(&mut reception), [(4, 5)]);
        assert_eq!(insert(&mut reception, 1), (Arrival::New, vec![1]));
        assert_eq!(insert(&mut reception, 1), (Arrival::Duplicate, vec![]));
        assert_eq!(insert(&mut reception, 3), (Arrival::Duplicate, vec![]));
        assert_eq!(insert(&mut reception, 2), (Arrival::New, vec![2, 3]));
        reception.announce(9);
        assert_eq!(gaps(&mut reception), [(7, 8)]);
        insert(&mut reception, 10);
        insert(&mut reception, 13);
        assert_eq!(gaps(&mut reception), [(9, 9), (11, 12)], "of several at a time each");
        assert_eq!(gaps(&mut reception), []);
    }

    #[test]
    fn what_lies_beyond_the_window_is_found_when_there_is_room() {
        let mut reception = Reception::new(3, 0, false);
        assert_eq!(insert(&mut reception, 3), (Arrival::NoRoom, vec![]));
        assert_eq!(gaps(&mut reception), [(0, 2)]);
        assert_eq!(insert(&mut reception, 0), (Arrival::New, vec![0]));
        assert_eq!(gaps(&mut reception), [], "the application has not fetched it");
        assert_eq!(reception.fetch(), Some((0, payload(0))));
        assert_eq!(gaps(&mut reception), [(3, 3)]);
        assert_eq!(reception.fetch(), None);
    }

    #[test]
    fn the_last_messages_are_kept_for_others() {
        let mut reception = Reception::new(100, 2, false);
        for number in 0..4 {
            insert(&mut reception, number);
        }
        insert(&mut reception, 6);
        assert!((0..4).all(|number| reception.message(number).is_some()), "none was fetched yet");
        for number in 0..4 {
            assert_eq!(reception.fetch(), Some((number, payload(number))));
        }
        let there: Vec<u64> = (0..9).filter(|&number| reception.message(number).is_some()).collect();
        assert_eq!(there, [2, 3, 6]);
        assert_eq!(reception.clip(0, u64::MAX), 2..=6);
        assert_eq!(reception.message(3), Some(&payload(3)));
    }

    #[test]
    fn what_will_not_come_any_more_is_skipped() {
        let mut reception = Reception::new(100, 10, false);
        insert(&mut reception, 0);
        insert(&mut reception, 2);
        assert_eq!(gaps(&mut reception), [(1, 1)]);
        insert(&mut reception, 5);
        assert_eq!(reception.skip_to(1), None);
        let skipped = Skipped { new: 3..5, lost: 1..5, survivors: vec![2] };
        assert_eq!(reception.skip_to(5), Some(skipped));
        assert_eq!(reception.advance(), Some(5));
        let fetched: Vec<u64> = std::iter::from_fn(|| reception.fetch()).map(|(number, _)| number).collect();
        assert_eq!(fetched, [0, 2, 5]);
        assert_eq!(gaps(&mut reception), []);
        assert_eq!(reception.skip_to(1 << 40).map(|skipped| skipped.lost), Some(6..1 << 40));
    }

    #[test]
    fn a_late_member_starts_with_what_it_hears_first() {
        let mut reception = Reception::new(100, 10, true);
        reception.join_at(7);
        reception.join_at(3);
        assert_eq!(insert(&mut reception, 7), (Arrival::New, vec![7]));
        assert_eq!(gaps(&mut reception), []);
    }
}
