//! Receive window that keeps delivered messages to repair other receivers.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use bytes::Bytes;

use super::{Arrival, ReceiveWindow, Reception, Skipped};

/// Messages of the source: in order for the application, beyond gaps, and kept for repairs.
#[derive(Debug)]
pub struct KeptWindow {
    /// Messages that are not in order yet, and the bounds of the window.
    window: ReceiveWindow,
    /// Number of messages kept after the application has fetched them.
    keep: usize,
    /// Below this sequence number, all gaps were reported.
    found: u64,
    /// Messages in order, ascending: first those kept for repairs, then those not fetched.
    kept: VecDeque<(u64, Bytes)>,
}

impl KeptWindow {
    /// Creates a window from message 0. With `joining`, it starts at the first message that is announced.
    pub fn new(window: u64, keep: usize, joining: bool) -> Self {
        KeptWindow { window: ReceiveWindow::new(window, joining), keep, found: 0, kept: VecDeque::new() }
    }

    /// Starts the window here, if this node joined late and has not started yet.
    pub fn join_at(&mut self, number: u64) {
        self.window.join_at(number);
    }

    /// Records that all messages before `next` were sent.
    pub fn announce(&mut self, next: u64) {
        self.window.announce(next);
    }

    /// Inserts a message, which also announces it. Call [`KeptWindow::advance`] afterwards.
    pub fn insert(&mut self, number: u64, payload: Bytes) -> Arrival {
        self.window.insert(number, payload)
    }

    /// Moves the next message in order to the kept ones. Returns its sequence number.
    pub fn advance(&mut self) -> Option<u64> {
        let (number, payload) = self.window.pop()?;
        self.keep(number, payload, self.waiting());
        Some(number)
    }

    /// Next range of missing messages that was not reported before. Gaps beyond the window are reported once it
    /// moves.
    pub fn take_gap(&mut self) -> Option<Range<u64>> {
        // A message without room would be dropped on arrival, so that its gap is not reported yet.
        let end = self.window.wanted();
        let gap = self.window.early().gap(self.found..end);
        // The next search begins behind this gap. Without a gap, nothing is missing up to the end.
        self.found = self.found.max(gap.as_ref().map_or(end, |gap| gap.end));
        gap
    }

    /// Skips the messages before `oldest`, which will not come. Also returns the skipped range that was not reported
    /// as missing before.
    pub fn skip_to(&mut self, oldest: u64) -> Option<(Skipped, Range<u64>)> {
        // The window counts all survivors as waiting at once, whereas the queue takes them one by one.
        let waiting = self.waiting();
        let skipped = self.window.skip_to(oldest)?;
        // Gaps below `found` were reported, and the caller must report each loss once.
        let new = self.found.max(skipped.range.start).min(oldest)..oldest;
        self.found = self.found.max(oldest);
        for (waiting, (number, payload)) in (waiting + 1..).zip(&skipped.survivors) {
            self.keep(*number, payload.clone(), waiting);
        }
        Some((skipped, new))
    }

    /// Takes the next message for the application.
    pub fn fetch(&mut self) -> Option<(u64, Bytes)> {
        // The messages not fetched are the last ones of the queue.
        let at = self.kept.len().checked_sub(self.waiting())?;
        // The copy shares its bytes. The message itself stays for repairs until newer ones displace it.
        let message = self.kept.get(at).cloned()?;
        self.window.fetched();
        self.trim();
        Some(message)
    }

    /// Number of messages present, in order and beyond gaps.
    pub fn held(&self) -> u64 {
        self.kept.len() as u64 + self.window.held()
    }

    /// Payload of a message that is present.
    pub fn message(&self, number: u64) -> Option<&Bytes> {
        if number >= self.expected() {
            return self.window.early().get(number);
        }
        // Skipped messages leave gaps in the numbers, so that a number is no index.
        let at = self.kept.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&self.kept[at].1)
    }

    /// First message present from this one on.
    pub fn held_from(&self, number: u64) -> Option<u64> {
        let at = self.kept.partition_point(|&(kept, _)| kept < number);
        let kept = self.kept.get(at).map(|&(kept, _)| kept);
        kept.or_else(|| self.window.early().next_held(number))
    }

    /// Part of the requested range that may be present.
    pub fn clip(&self, lo: u64, hi: u64) -> RangeInclusive<u64> {
        // The range comes from a request and may name billions of messages.
        let first = self.kept.front().map_or(self.expected(), |(number, _)| *number);
        let last = self.window.early().end().saturating_sub(1).max(self.expected());
        lo.max(first)..=hi.min(last)
    }

    /// First message for which there is no room.
    pub fn limit(&self) -> u64 {
        self.window.limit()
    }

    /// Messages present beyond the first missing one.
    pub fn early(&self) -> &Reception {
        self.window.early()
    }

    /// First message that is not in order.
    pub fn expected(&self) -> u64 {
        self.window.expected()
    }

    fn waiting(&self) -> usize {
        self.window.waiting() as usize
    }

    /// Appends a message to the queue. `waiting` is the number of messages not fetched, with this one.
    fn keep(&mut self, number: u64, payload: Bytes, waiting: usize) {
        // Make room first: a queue that grows past a power of two doubles its memory for good.
        while self.kept.len() >= self.keep.max(waiting) {
            self.kept.pop_front();
        }
        self.kept.push_back((number, payload));
    }

    /// Drops the oldest fetched messages beyond the number to keep.
    fn trim(&mut self) {
        // Messages not fetched stay, even if they are more than `keep`.
        while self.kept.len() > self.keep.max(self.waiting()) {
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

    fn insert(reception: &mut KeptWindow, number: u64) -> (Arrival, Vec<u64>) {
        let arrival = reception.insert(number, payload(number));
        (arrival, std::iter::from_fn(|| reception.advance()).collect())
    }

    /// First and last messages of the gaps.
    fn gaps(reception: &mut KeptWindow) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| reception.take_gap()).map(|gap| (gap.start, gap.end - 1)).collect()
    }

    #[test]
    fn each_gap_is_reported_once() {
        let mut reception = KeptWindow::new(100, 0, false);
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
    fn gap_beyond_window_is_reported_once_window_moves() {
        let mut reception = KeptWindow::new(3, 0, false);
        assert_eq!(insert(&mut reception, 3), (Arrival::NoRoom, vec![]));
        assert_eq!(gaps(&mut reception), [(0, 2)]);
        assert_eq!(insert(&mut reception, 0), (Arrival::New, vec![0]));
        assert_eq!(gaps(&mut reception), [], "the application has not fetched it");
        assert_eq!(reception.fetch(), Some((0, payload(0))));
        assert_eq!(gaps(&mut reception), [(3, 3)]);
        assert_eq!(reception.fetch(), None);
    }

    #[test]
    fn last_messages_are_kept_for_repairs() {
        let mut reception = KeptWindow::new(100, 2, false);
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
    fn unavailable_messages_are_skipped() {
        let mut reception = KeptWindow::new(100, 10, false);
        insert(&mut reception, 0);
        insert(&mut reception, 2);
        assert_eq!(gaps(&mut reception), [(1, 1)]);
        insert(&mut reception, 5);
        assert_eq!(reception.skip_to(1), None);
        let skipped = Skipped { range: 1..5, survivors: vec![(2, payload(2))] };
        assert_eq!(reception.skip_to(5), Some((skipped, 3..5)));
        assert_eq!(reception.advance(), Some(5));
        let fetched: Vec<u64> = std::iter::from_fn(|| reception.fetch()).map(|(number, _)| number).collect();
        assert_eq!(fetched, [0, 2, 5]);
        assert_eq!(gaps(&mut reception), []);
        assert_eq!(reception.skip_to(1 << 40).map(|(skipped, _)| skipped.range), Some(6..1 << 40));
    }

    #[test]
    fn late_joiner_starts_at_first_announced_message() {
        let mut reception = KeptWindow::new(100, 10, true);
        reception.join_at(7);
        reception.join_at(3);
        assert_eq!(insert(&mut reception, 7), (Arrival::New, vec![7]));
        assert_eq!(gaps(&mut reception), []);
    }
}
