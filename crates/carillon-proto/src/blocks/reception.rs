//! Received part of a numbered stream: all messages before one, and some beyond it.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

/// Messages from the first missing one on, in a ring buffer that reaches to the last one present.
///
/// The caller bounds how far ahead a message may lie, and thereby the memory. Messages in order need no ring. The
/// ring is freed when no message lies beyond a gap, since most receivers miss nothing most of the time.
#[derive(Clone, Debug)]
pub struct Reception<T = Bytes> {
    /// First message that was neither taken nor skipped.
    expected: u64,
    /// Expected message, between its arrival and its removal.
    front: Option<T>,
    /// Messages behind the expected one; the last entry is present.
    ring: VecDeque<Option<T>>,
    /// Number of messages present.
    held: usize,
}

impl<T> Default for Reception<T> {
    fn default() -> Self {
        Reception::starting_at(0)
    }
}

impl<T> Reception<T> {
    /// Creates an empty reception that expects this message first.
    pub fn starting_at(expected: u64) -> Self {
        Reception { expected, front: None, ring: VecDeque::new(), held: 0 }
    }

    /// Stores a message. Ignored if it was taken or skipped already.
    pub fn insert(&mut self, number: u64, payload: T) {
        // A message before the expected one is a duplicate.
        let Some(at) = number.checked_sub(self.expected) else { return };
        let slot = match usize::try_from(at).expect("the caller bounds how far ahead a message lies") {
            0 => &mut self.front,
            at => {
                // The new entries are the gap before the message.
                if at > self.ring.len() {
                    self.ring.resize_with(at, || None);
                }
                &mut self.ring[at - 1]
            }
        };
        // A duplicate replaces its copy and counts once.
        self.held += usize::from(slot.replace(payload).is_none());
    }

    /// Takes the next message in order.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let payload = self.front.take()?;
        self.held -= 1;
        self.step();
        Some((self.expected - 1, payload))
    }

    /// Skips to `first`, since earlier messages will not come. Returns the skipped messages that are present.
    pub fn skip_to(&mut self, first: u64) -> Vec<(u64, T)> {
        let mut there = Vec::new();
        while self.expected < first {
            // Nothing is present, so jump. A packet may name a distant message, and a loop over the distance could run
            // very long.
            if self.held == 0 {
                *self = Reception::starting_at(first);
                break;
            }
            if let Some(payload) = self.front.take() {
                there.push((self.expected, payload));
                self.held -= 1;
            }
            self.step();
        }
        there
    }

    /// First missing message.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Sequence number after the last message present; the expected one if none is.
    pub fn end(&self) -> u64 {
        // The last entry of a ring is always present. The expected message comes before the ring.
        self.expected + self.ring.len() as u64 + u64::from(!self.ring.is_empty() || self.front.is_some())
    }

    /// Number of messages present.
    pub fn len(&self) -> usize {
        self.held
    }

    /// Returns true if no message is present beyond the ones taken.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Returns true if a message is or was present.
    pub fn has(&self, number: u64) -> bool {
        number < self.expected || self.get(number).is_some()
    }

    /// Message that is present.
    pub fn get(&self, number: u64) -> Option<&T> {
        match usize::try_from(number.checked_sub(self.expected)?).ok()? {
            0 => self.front.as_ref(),
            at => self.ring.get(at - 1)?.as_ref(),
        }
    }

    /// First message present from this one on.
    pub fn next_held(&self, from: u64) -> Option<u64> {
        (from.max(self.expected)..self.end()).find(|&number| self.get(number).is_some())
    }

    /// First range of consecutive missing messages in this range.
    pub fn gap(&self, range: Range<u64>) -> Option<Range<u64>> {
        let start = (range.start.max(self.expected)..range.end).find(|&number| !self.has(number))?;
        let stop = self.next_held(start).map_or(range.end, |held| held.min(range.end));
        Some(start..stop)
    }

    /// Missing messages in this range.
    pub fn missing(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        range.filter(|&number| !self.has(number))
    }

    /// Passes the bitmap of messages present beyond the first missing one to `push`, lowest bit first: as many words
    /// as needed, at least one and at most `most`.
    pub fn map(&self, most: usize, mut push: impl FnMut(u64)) {
        let mut words = 0;
        // The ring begins behind the expected message, as a selective acknowledgment does.
        let mut rest = self.ring.iter();
        loop {
            let mut word = 0;
            let mut ended = false;
            for bit in 0..64 {
                match rest.next() {
                    Some(slot) => word |= u64::from(slot.is_some()) << bit,
                    None => {
                        ended = true;
                        break;
                    }
                }
            }
            // A word of zeros in the middle keeps the place of later words. At the end it says nothing.
            if words == 0 || word != 0 || !ended {
                push(word);
            }
            words += 1;
            if ended || words == most {
                return;
            }
        }
    }

    fn step(&mut self) {
        self.expected += 1;
        if let Some(next) = self.ring.pop_front() {
            self.front = next;
            // A ring buffer keeps its capacity, so replace it to free the memory.
            if self.ring.is_empty() {
                self.ring = VecDeque::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(reception: &Reception<u8>, most: usize) -> Vec<u64> {
        let mut words = Vec::new();
        reception.map(most, |word| words.push(word));
        words
    }

    #[test]
    fn early_message_waits_and_skip_returns_survivors() {
        let mut reception = Reception::default();
        for number in [0, 2, 3, 70] {
            reception.insert(number, number as u8);
        }
        assert_eq!(reception.pop(), Some((0, 0)));
        assert_eq!(reception.pop(), None);
        assert_eq!((reception.has(0), reception.has(1), reception.has(70)), (true, false, true));
        // Bit 0 is message 2.
        assert_eq!(map(&reception, 8), [0b11, 1 << 4]);
        assert_eq!(map(&reception, 1), [0b11]);
        assert_eq!((reception.gap(0..100), reception.gap(2..100)), (Some(1..2), Some(4..70)));
        assert_eq!((reception.skip_to(60), reception.expected()), (vec![(2, 2), (3, 3)], 60));
        assert_eq!(map(&reception, 8), [1 << 9]);
        assert_eq!(reception.skip_to(100), [(70, 70)]);
        assert!(reception.is_empty());
        assert_eq!((reception.expected(), map(&reception, 8)), (100, vec![0]));
    }

    #[test]
    fn large_jump_takes_constant_time() {
        let mut reception: Reception<u8> = Reception::default();
        reception.insert(1, 1);
        assert_eq!(reception.skip_to(u64::MAX), [(1, 1)]);
        assert_eq!((reception.expected(), reception.end()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn reception_agrees_with_set_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("reception");
        let (mut reception, mut set, mut expected) =
            (Reception::default(), std::collections::BTreeSet::new(), 0);
        for _ in 0..20_000 {
            let number = (expected + rng.below(200)).saturating_sub(10);
            assert_eq!(reception.has(number), number < expected || set.contains(&number));
            assert_eq!(reception.next_held(number), set.range(number..).next().copied());
            if number >= expected && set.insert(number) {
                reception.insert(number, number as u8);
            }
            let lacks = |number: &u64| *number >= expected && !set.contains(number);
            let (from, to) = (number, number + rng.below(50));
            let start = (from..to).find(lacks);
            let run = start.map(|start| start..(start..to).find(|number| !lacks(number)).unwrap_or(to));
            assert_eq!(reception.gap(from..to), run);
            assert!(reception.missing(from..to).eq((from..to).filter(lacks)));
            if rng.below(100) == 0 {
                let first = expected + rng.below(80);
                let rest = set.split_off(&first);
                let there: Vec<u64> =
                    reception.skip_to(first).into_iter().map(|(number, _)| number).collect();
                assert!(there.into_iter().eq(std::mem::replace(&mut set, rest)));
                expected = first;
            }
            while set.remove(&expected) {
                assert_eq!(reception.pop(), Some((expected, expected as u8)));
                expected += 1;
            }
            assert_eq!(reception.pop(), None);
            assert_eq!(reception.len(), set.len());
            assert_eq!(reception.end(), set.last().map_or(expected, |last| last + 1));
            let words = map(&reception, 4);
            for bit in 0..256 {
                let there = words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1);
                assert_eq!(there, set.contains(&(expected + 1 + bit as u64)));
            }
        }
    }
}
