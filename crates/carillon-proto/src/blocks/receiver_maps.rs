//! What each receiver of a group has, beyond "everything up to here".

use std::ops::Range;

/// A set of messages: all before one that is missing, and some behind it, one bit each. What a selective acknowledgment
/// says.
///
/// How far behind the first missing message one may lie is the caller's to bound; that bounds the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverMap {
    /// The first missing message.
    next: u64,
    /// Bit i of all words is message `next + 1 + i`. The last word is not 0.
    words: Vec<u64>,
}

impl ReceiverMap {
    /// All before `next`, and those of these words, the lowest bit of which is the message behind it.
    pub fn new(next: u64, words: impl IntoIterator<Item = u64>) -> Self {
        let mut map = ReceiverMap::default();
        map.assign(next, words);
        map
    }

    /// All before `base`, and those of these words, the lowest bit of which is `base` itself: as a list of outstanding
    /// blocks says it, whose first bit may be set.
    pub fn from_bits(base: u64, words: impl IntoIterator<Item = u64>) -> Self {
        Self::of_bits(base, words.into_iter())
    }

    /// The words from this message on, which is none behind the first missing one, as [`ReceiverMap::from_bits`] takes them:
    /// as many as are needed, but no more than `most`.
    pub fn bits(&self, base: u64, most: usize) -> impl Iterator<Item = u64> + '_ {
        (base..self.end()).step_by(64).take(most).map(|from| self.word(from))
    }

    /// How many messages of this range are missing.
    pub fn lacking(&self, range: Range<u64>) -> u64 {
        let start = range.start.max(self.next);
        let in_word = |from: u64| {
            let mask = match range.end - from {
                rest @ 0..64 => (1 << rest) - 1,
                _ => u64::MAX,
            };
            u64::from((!self.word(from) & mask).count_ones())
        };
        // Behind the last message that is there nothing needs to be looked at.
        let known = self.end().clamp(start, range.end.max(start));
        let counted: u64 = (start..known).step_by(64).map(in_word).sum();
        let looked_at = start + (known - start).div_ceil(64) * 64;
        counted + range.end.saturating_sub(looked_at.max(start))
    }

    /// Becomes what [`ReceiverMap::new`] makes, in the memory it has.
    pub fn assign(&mut self, next: u64, words: impl IntoIterator<Item = u64>) {
        self.next = next;
        self.words.clear();
        self.words.extend(words);
        self.trim();
    }

    /// Adds a message.
    pub fn insert(&mut self, number: u64) {
        match number.checked_sub(self.next) {
            None => {}
            Some(0) => {
                *self = Self::of_bits(
                    number,
                    (0..=self.words.len() as u64).map(|k| self.word(number + 64 * k) | u64::from(k == 0)),
                )
            }
            Some(ahead) => {
                let (word, bit) = (((ahead - 1) / 64) as usize, (ahead - 1) % 64);
                if word >= self.words.len() {
                    self.words.resize(word + 1, 0);
                }
                self.words[word] |= 1 << bit;
            }
        }
    }

    /// What both have: aligned, whatever their first missing messages.
    pub fn and(&self, other: &Self) -> Self {
        let (base, end) = (self.next.min(other.next), self.end().min(other.end()));
        Self::of_bits(base, (base..end).step_by(64).map(|from| self.word(from) & other.word(from)))
    }

    /// What either has.
    pub fn or(&self, other: &Self) -> Self {
        let (base, end) = (self.next.max(other.next), self.end().max(other.end()));
        Self::of_bits(base, (base..end).step_by(64).map(|from| self.word(from) | other.word(from)))
    }

    /// The first missing message: the cumulative acknowledgment.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// One past the last message that is there.
    pub fn end(&self) -> u64 {
        match self.words.last() {
            Some(last) => self.next + 1 + 64 * self.words.len() as u64 - u64::from(last.leading_zeros()),
            None => self.next,
        }
    }

    /// Whether a message is there.
    pub fn has(&self, number: u64) -> bool {
        self.word(number) & 1 == 1
    }

    /// The messages of this range that are missing.
    pub fn missing(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let start = range.start.max(self.next);
        let gaps = (start..range.end).step_by(64).flat_map(|from| {
            let mut gaps = !self.word(from);
            std::iter::from_fn(move || {
                let bit = gaps.trailing_zeros();
                gaps &= gaps.wrapping_sub(1);
                (bit < 64).then(|| from + u64::from(bit))
            })
        });
        gaps.take_while(move |&gap| gap < range.end)
    }

    /// The words behind the first missing message, as [`ReceiverMap::new`] takes them.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// All before `base`, and those of these bits, the lowest of which is `base` itself.
    fn of_bits(base: u64, bits: impl Iterator<Item = u64>) -> Self {
        let bits: Vec<u64> = bits.collect();
        let full = bits.iter().take_while(|&&word| word == u64::MAX).count();
        let ones = bits.get(full).map_or(0, |word| word.trailing_ones());
        let mut map = ReceiverMap { next: base + 64 * full as u64 + u64::from(ones), words: Vec::new() };
        let rest = bits.get(full..).unwrap_or_default();
        let shift = ones + 1;
        for (at, &word) in rest.iter().enumerate() {
            let above = rest.get(at + 1).copied().unwrap_or_default();
            let low = word.checked_shr(shift).unwrap_or(0);
            map.words.push(low | above.checked_shl(64 - shift).unwrap_or(0));
        }
        map.trim();
        map
    }

    /// Which of the 64 messages from this one on are there.
    fn word(&self, from: u64) -> u64 {
        let at = |index: u64| {
            usize::try_from(index).ok().and_then(|index| self.words.get(index)).copied().unwrap_or_default()
        };
        match from.checked_sub(self.next) {
            Some(0) => at(0) << 1,
            Some(ahead) => {
                let (index, shift) = ((ahead - 1) / 64, ((ahead - 1) % 64) as u32);
                (at(index) >> shift) | at(index + 1).checked_shl(64 - shift).unwrap_or(0)
            }
            None => match self.next - from {
                below @ 1..64 => ((1 << below) - 1) | at(0).checked_shl(below as u32 + 1).unwrap_or(0),
                _ => u64::MAX,
            },
        }
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

/// What each receiver of a group has: for whoever gathers it and passes it on, and for a sender that repairs.
///
/// The receivers of `msaw` and `mbap` send no maps: an acknowledgment says how far one is, which an
/// [`AckWindow`](super::AckWindow) counts, and a request names one message. Those of `rra` do, and their sender is done
/// with a map when it has read it: what all have is counted too.
#[derive(Debug)]
pub struct ReceiverMaps(Vec<Option<ReceiverMap>>);

impl ReceiverMaps {
    /// Nobody of a group of this size has anything.
    pub fn new(receivers: usize) -> Self {
        ReceiverMaps(vec![Some(ReceiverMap::default()); receivers])
    }

    /// A receiver has also these; what it has said before it does not take back.
    pub fn add(&mut self, index: usize, map: &ReceiverMap) {
        if let Some(Some(known)) = self.0.get_mut(index) {
            *known = known.or(map);
        }
    }

    /// Nobody waits for this receiver any more.
    pub fn remove(&mut self, index: usize) {
        if let Some(known) = self.0.get_mut(index) {
            *known = None;
        }
    }

    /// What a receiver has.
    pub fn get(&self, index: usize) -> Option<&ReceiverMap> {
        self.0.get(index)?.as_ref()
    }

    /// The first message that somebody lacks; `None` if nobody is waited for.
    pub fn minimum(&self) -> Option<u64> {
        self.0.iter().flatten().map(ReceiverMap::next).min()
    }

    /// What all have.
    pub fn all(&self) -> Option<ReceiverMap> {
        let mut maps = self.0.iter().flatten();
        let first = maps.next()?.clone();
        Some(maps.fold(first, |all, map| all.and(map)))
    }

    /// What somebody has, who can repair it for the others.
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

    /// It says of itself what it holds, and there is one way to say that.
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
                // Some have a run at the beginning, so that their words are not aligned.
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
                // Cut off, all that is left is there.
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
    fn receivers_far_apart_cost_nothing() {
        let near = ReceiverMap::new(3, [0b101]);
        let far = ReceiverMap::new(1 << 60, [0b1]);
        assert_eq!(near.and(&far), near);
        assert_eq!(near.or(&far), far);
        let mut maps = ReceiverMaps::new(2);
        (0..2).for_each(|index| maps.remove(index));
        assert_eq!((maps.minimum(), maps.all(), maps.any()), (None, None, None));
    }
}
