//! What a receiver has: everything before one message, and some beyond it.

use std::collections::VecDeque;

use bytes::Bytes;

/// The messages beyond the first missing one, in a ring that is as long as the last of them is far away.
#[derive(Debug, Default)]
pub(super) struct Reception {
    expected: u64,
    /// From `expected` on; the last one is there, the first is not unless it is about to be taken.
    ring: VecDeque<Option<Bytes>>,
}

impl Reception {
    /// The first message it lacks.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Whether nothing is there beyond it.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Whether a message is or was there.
    pub fn has(&self, number: u64) -> bool {
        let Some(at) = number.checked_sub(self.expected) else { return true };
        usize::try_from(at).is_ok_and(|at| self.ring.get(at).is_some_and(|slot| slot.is_some()))
    }

    /// Adds one that is not there. How far ahead it may lie the caller has checked.
    pub fn insert(&mut self, number: u64, payload: Bytes) {
        let at = (number - self.expected) as usize;
        if at >= self.ring.len() {
            self.ring.resize(at + 1, None);
        }
        self.ring[at] = Some(payload);
    }

    /// Takes the next one in order.
    pub fn pop(&mut self) -> Option<(u64, Bytes)> {
        let payload = self.ring.front_mut()?.take()?;
        self.ring.pop_front();
        self.expected += 1;
        Some((self.expected - 1, payload))
    }

    /// What lies before `first` will not come any more: goes on from there; returns what of it is there.
    pub fn skip_to(&mut self, first: u64) -> Vec<(u64, Bytes)> {
        let skipped = (first - self.expected).min(self.ring.len() as u64) as usize;
        let numbers = self.expected..;
        let there = self.ring.drain(..skipped).zip(numbers).filter_map(|(slot, n)| Some((n, slot?)));
        let there = there.collect();
        self.expected = first;
        there
    }

    /// Which messages beyond the first missing one are there, in words from the lowest bit on, as many
    /// as are needed and at least one, but no more than `most`.
    pub fn map(&self, most: usize, mut push: impl FnMut(u64)) {
        let mut words = 0;
        let mut rest = self.ring.iter().skip(1);
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
            if words == 0 || word != 0 || !ended {
                push(word);
            }
            words += 1;
            if ended || words == most {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(reception: &Reception, most: usize) -> Vec<u64> {
        let mut words = Vec::new();
        reception.map(most, |word| words.push(word));
        words
    }

    #[test]
    fn what_comes_early_waits_and_what_is_skipped_is_handed_over() {
        let mut reception = Reception::default();
        for number in [0, 2, 3, 70] {
            reception.insert(number, Bytes::from(vec![number as u8]));
        }
        assert_eq!(reception.pop().map(|(number, _)| number), Some(0));
        assert_eq!(reception.pop(), None);
        assert_eq!((reception.has(0), reception.has(1), reception.has(70)), (true, false, true));
        // Bit 0 is message 2.
        assert_eq!(map(&reception, 8), [0b11, 1 << 4]);
        assert_eq!(map(&reception, 1), [0b11]);
        let there: Vec<u64> = reception.skip_to(60).into_iter().map(|(number, _)| number).collect();
        assert_eq!((there, reception.expected()), (vec![2, 3], 60));
        assert_eq!(map(&reception, 8), [1 << 9]);
        assert!(reception.skip_to(100).into_iter().map(|(number, _)| number).eq([70]));
        assert!(reception.is_empty());
        assert_eq!((reception.expected(), map(&reception, 8)), (100, vec![0]));
    }

    #[test]
    fn it_agrees_with_a_set_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("reception");
        let (mut reception, mut set, mut expected) =
            (Reception::default(), std::collections::BTreeSet::new(), 0);
        for _ in 0..20_000 {
            let number = (expected + rng.below(200)).saturating_sub(10);
            assert_eq!(reception.has(number), number < expected || set.contains(&number));
            if number >= expected && set.insert(number) {
                reception.insert(number, Bytes::new());
            }
            while set.remove(&expected) {
                assert_eq!(reception.pop().map(|(number, _)| number), Some(expected));
                expected += 1;
            }
            assert_eq!(reception.pop(), None);
            let words = map(&reception, 4);
            for bit in 0..256 {
                let there = words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1);
                assert_eq!(there, set.contains(&(expected + 1 + bit as u64)));
            }
        }
    }
}
