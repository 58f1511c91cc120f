//! Bitmaps of received messages, and the bitmaps of all receivers of a group.

use std::ops::Range;

/// Set of messages as a selective acknowledgment reports it: all before one that is missing, and a bitmap of later
/// ones.
///
/// The caller bounds how far a message may lie behind the first missing one, and thereby the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverMap {
    /// First missing message.
    next: u64,
    /// Bit i of all words stands for message `next + 1 + i`. The last word is not 0.
    words: Vec<u64>,
}

impl ReceiverMap {
    /// Creates a map of all messages before `next` and a bitmap. The lowest bit stands for message `next + 1`.
    pub fn new(next: u64, words: impl IntoIterator<Item = u64>) -> Self {
        let mut map = ReceiverMap::default();
        map.assign(next, words);
        map
    }

    /// Creates a map of all messages before `base` and a bitmap. The lowest bit stands for `base` itself, as in a
    /// list of outstanding blocks.
    pub fn from_bits(base: u64, words: impl IntoIterator<Item = u64>) -> Self {
        Self::of_bits(base, words.into_iter())
    }

    /// Bitmap from this message on, as [`ReceiverMap::from_bits`] takes it, of at most `most` words. `base` must not
    /// lie behind the first missing message.
    pub fn bits(&self, base: u64, most: usize) -> impl Iterator<Item = u64> + '_ {
        (base..self.end()).step_by(64).take(most).map(|from| self.word(from))
    }

    /// Number of missing messages in this range.
    pub fn lacking(&self, range: Range<u64>) -> u64 {
        let start = range.start.max(self.next);
        let in_word = |from: u64| {
            let mask = match range.end - from {
                // The last word reaches beyond the range: mask the excess.
                rest @ 0..64 => (1 << rest) - 1,
                _ => u64::MAX,
            };
            u64::from((!self.word(from) & mask).count_ones())
        };
        // Nothing is present beyond the last message, so the rest is counted without looking.
        let known = self.end().clamp(start, range.end.max(start));
        let counted: u64 = (start..known).step_by(64).map(in_word).sum();
        let looked_at = start + (known - start).div_ceil(64) * 64;
        // The last word counted may reach beyond the end of the map.
        counted + range.end.saturating_sub(looked_at.max(start))
    }

    /// Replaces the contents as [`ReceiverMap::new`] would, and reuses the memory.
    pub fn assign(&mut self, next: u64, words: impl IntoIterator<Item = u64>) {
        self.next = next;
        self.words.clear();
        self.words.extend(words);
        self.trim();
    }

    /// Adds a message.
    pub fn insert(&mut self, number: u64) {
        match number.checked_sub(self.next) {
            // The message lies before the first missing one, so it is present already.
            None => {}
            // The first missing message arrives. Later messages may follow it without a gap, so the map is aligned
            // anew.
            Some(0) => {
                *self = Self::of_bits(
                    number,
                    (0..=self.words.len() as u64).map(|k| self.word(number + 64 * k) | u64::from(k == 0)),
                )
            }
            // The bitmap begins behind the first missing message, hence the offset of one.
            Some(ahead) => {
                let (word, bit) = (((ahead - 1) / 64) as usize, (ahead - 1) % 64);
                if word >= self.words.len() {
                    self.words.resize(word + 1, 0);
                }
                self.words[word] |= 1 << bit;
            }
        }
    }

    /// Intersection of two maps, aligned to the lower first missing message.
    pub fn and(&self, other: &Self) -> Self {
        // Below the lower start, all messages are in both maps. Beyond the lower end, none is in both.
        let (base, end) = (self.next.min(other.next), self.end().min(other.end()));
        Self::of_bits(base, (base..end).step_by(64).map(|from| self.word(from) & other.word(from)))
    }

    /// Union of two maps, aligned to the higher first missing message.
    pub fn or(&self, other: &Self) -> Self {
        // Below the higher start, one of the maps has all messages.
        let (base, end) = (self.next.max(other.next), self.end().max(other.end()));
        Self::of_bits(base, (base..end).step_by(64).map(|from| self.word(from) | other.word(from)))
    }

    /// First missing message: the cumulative acknowledgment.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Sequence number after the last message present.
    pub fn end(&self) -> u64 {
        match self.words.last() {
            Some(last) => self.next + 1 + 64 * self.words.len() as u64 - u64::from(last.leading_zeros()),
            None => self.next,
        }
    }

    /// Returns true if a message is present.
    pub fn has(&self, number: u64) -> bool {
        self.word(number) & 1 == 1
    }

    /// Missing messages in this range.
    pub fn missing(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let start = range.start.max(self.next);
        let gaps = (start..range.end).step_by(64).flat_map(|from| {
            // Each step takes the lowest bit that is set and clears it.
            let mut gaps = !self.word(from);
            std::iter::from_fn(move || {
                let bit = gaps.trailing_zeros();
                gaps &= gaps.wrapping_sub(1);
                (bit < 64).then(|| from + u64::from(bit))
            })
        });
        gaps.take_while(move |&gap| gap < range.end)
    }

    /// Bitmap behind the first missing message, as [`ReceiverMap::new`] takes it.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Creates a map of all messages before `base` and these bits, of which the lowest stands for `base`.
    fn of_bits(base: u64, bits: impl Iterator<Item = u64>) -> Self {
        let bits: Vec<u64> = bits.collect();
        // Skip the leading ones: they move the first missing message forward.
        let full = bits.iter().take_while(|&&word| word == u64::MAX).count();
        let ones = bits.get(full).map_or(0, |word| word.trailing_ones());
        let mut map = ReceiverMap { next: base + 64 * full as u64 + u64::from(ones), words: Vec::new() };
        let rest = bits.get(full..).unwrap_or_default();
        // The first missing message has no bit of its own. The shift can be 64, hence the checked shifts below.
        let shift = ones + 1;
        // Shift the remaining bits so that the lowest one stands for the message behind the first missing one.
        for (at, &word) in rest.iter().enumerate() {
            let above = rest.get(at + 1).copied().unwrap_or_default();
            let low = word.checked_shr(shift).unwrap_or(0);
            map.words.push(low | above.checked_shl(64 - shift).unwrap_or(0));
        }
        map.trim();
        map
    }

    /// Bitmap of the 64 messages from this one on.
    fn word(&self, from: u64) -> u64 {
        let at = |index: u64| {
            usize::try_from(index).ok().and_then(|index| self.words.get(index)).copied().unwrap_or_default()
        };
        match from.checked_sub(self.next) {
            // The lowest bit stands for the first missing message.
            Some(0) => at(0) << 1,
            Some(ahead) => {
                let (index, shift) = ((ahead - 1) / 64, ((ahead - 1) % 64) as u32);
                (at(index) >> shift) | at(index + 1).checked_shl(64 - shift).unwrap_or(0)
            }
            // The bits before the first missing message are ones, its own bit is zero, and the bitmap follows.
            None => match self.next - from {
                below @ 1..64 => ((1 << below) - 1) | at(0).checked_shl(below as u32 + 1).unwrap_or(0),
                _ => u64::MAX,
            },
        }
    }

    fn trim(&mut self) {
        // Without zero words at the end, equal sets have equal representations, and the derived equality is right.
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

/// Maps of all receivers of a group, for a helper that aggregates them and for a sender that repairs.
///
/// The receivers of `msaw` and `mbap` send cumulative acknowledgments, for which an [`AckWindow`](super::AckWindow)
/// suffices. The sender of `rra` reads each map once and keeps only the count.
#[derive(Debug)]
pub struct ReceiverMaps(Vec<Option<ReceiverMap>>);

impl ReceiverMaps {
    /// Creates empty maps for a group of this size.
    pub fn new(receivers: usize) -> Self {
        ReceiverMaps(vec![Some(ReceiverMap::default()); receivers])
    }

    /// Adds the messages of a map to those of a receiver, which takes nothing back.
    pub fn add(&mut self, index: usize, map: &ReceiverMap) {
        if let Some(Some(known)) = self.0.get_mut(index) {
            // A report may be overtaken by a newer one, so an older one must not remove messages.
            *known = known.or(map);
        }
    }

    /// Removes a receiver that is no longer waited for.
    pub fn remove(&mut self, index: usize) {
        if let Some(known) = self.0.get_mut(index) {
            *known = None;
        }
    }

    /// Map of a receiver.
    pub fn get(&self, index: usize) -> Option<&ReceiverMap> {
        self.0.get(index)?.as_ref()
    }

    /// First message that some receiver misses; `None` without receivers.
    pub fn minimum(&self) -> Option<u64> {
        self.0.iter().flatten().map(ReceiverMap::next).min()
    }

    /// Messages that all receivers have.
    pub fn all(&self) -> Option<ReceiverMap> {
        let mut maps = self.0.iter().flatten();
        let first = maps.next()?.clone();
        Some(maps.fold(first, |all, map| all.and(map)))
    }

    /// Messages that some receiver has and can repair.
    pub fn any(&self) -> Option<ReceiverMap> {
        let mut maps = self.0.iter().flatten();
        let first = maps.next()?.clone();
        Some(maps.fold(first, |any, map| any.or(map)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SPAN: u64 = 400;

    fn set(map: &ReceiverMap) -> BTreeSet<u64> {
        (0..SPAN + 100).filter(|&number| map.has(number)).collect()
    }

    /// Checks that the map reports its contents, in the one normal form.
    fn check(map: &ReceiverMap, wanted: &BTreeSet<u64>) {
        assert_eq!(&set(map), wanted);
        assert_eq!(Some(map.next()), (0..).find(|number| !wanted.contains(number)));
        assert_eq!(map.end(), wanted.last().map_or(0, |last| last + 1));
        assert_eq!(map, &ReceiverMap::new(map.next(), map.words().iter().copied()));
        assert_ne!(map.words().last(), Some(&0));
    }

    #[test]
    fn maps_agree_with_sets_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("maps");
        for round in 0..300 {
            let mut pair = [ReceiverMap::default(), ReceiverMap::default()];
            let mut sets = [BTreeSet::new(), BTreeSet::new()];
            for (map, set) in pair.iter_mut().zip(&mut sets) {
                // Some maps begin with a run of messages, so that their words are not aligned.
                for number in 0..rng.below(150) * (round % 3) / 2 {
                    map.insert(number);
                    set.insert(number);
                }
                for _ in 0..rng.below(400) {
                    let number = rng.below(SPAN);
                    map.insert(number);
                    set.insert(number);
                }
                check(map, set);
                let (from, to) = (rng.below(SPAN), rng.below(SPAN + 80));
                assert!(map.missing(from..to).eq((from..to).filter(|number| !set.contains(number))));
                assert_eq!(map.lacking(from..to), map.missing(from..to).count() as u64);
                let base = rng.below(map.next() + 1);
                let bits: Vec<u64> = map.bits(base, usize::MAX).collect();
                assert_eq!(&ReceiverMap::from_bits(base, bits.iter().copied()), map);
                // Cut off after this length, the rest is present.
                let cut = ReceiverMap::from_bits(base, map.bits(base, 2));
                check(&cut, &set.iter().copied().filter(|&number| number < (base + 128).max(base)).collect());
            }
            let [a, b] = &sets;
            check(&pair[0].and(&pair[1]), &(a & b));
            check(&pair[0].or(&pair[1]), &(a | b));
            let mut maps = ReceiverMaps::new(3);
            maps.add(0, &pair[0]);
            maps.add(1, &pair[1]);
            maps.add(0, &ReceiverMap::default());
            assert_eq!((maps.minimum(), maps.all().expect("members").next()), (Some(0), 0));
            maps.remove(2);
            check(&maps.all().expect("members"), &(a & b));
            check(&maps.any().expect("members"), &(a | b));
            assert_eq!(maps.minimum(), pair.iter().map(ReceiverMap::next).min());
        }
    }

    #[test]
    fn distant_receivers_take_no_memory() {
        let near = ReceiverMap::new(3, [0b101]);
        let far = ReceiverMap::new(1 << 60, [0b1]);
        assert_eq!(near.and(&far), near);
        assert_eq!(near.or(&far), far);
        let mut maps = ReceiverMaps::new(2);
        (0..2).for_each(|index| maps.remove(index));
        assert_eq!((maps.minimum(), maps.all(), maps.any()), (None, None, None));
    }
}
