//! Far lane of the event queue: the buckets of a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan 1990).
//!
//! A bucket is named by a level and a digit: the position of the highest base-64 digit in which an event's time
//! differs from `base`, and that digit of the time. Buckets of a lower level hold earlier events than those of a
//! higher one, and within a level the digits ascend. When `base` moves forward to the earliest event, all other
//! events keep their buckets except those of the earliest event's own bucket, which spread over lower levels.

use std::collections::VecDeque;
use std::mem;

use super::entry::Entry;

/// Buckets of events, each in order of insertion.
pub(super) struct Far<T> {
    /// Lower bound of the time of all present and future events.
    base: u64,
    len: usize,
    /// Bit set of the levels that have an event.
    levels: u32,
    /// Bit set of the non-empty buckets of each level.
    digits: [u64; LEVELS],
    buckets: Vec<Bucket<T>>,
    /// Empty blocks for reuse.
    spare: Vec<Vec<Entry<T>>>,
}

/// List of events in blocks of one size, which all buckets share.
///
/// A growing vector per bucket would keep the memory of its fullest moment.
struct Bucket<T> {
    /// Earliest time in the bucket.
    first: u64,
    /// Last block, which has room.
    open: Vec<Entry<T>>,
    full: Vec<Vec<Entry<T>>>,
}

impl<T> Far<T> {
    pub(super) fn new() -> Self {
        Far {
            base: 0,
            len: 0,
            levels: 0,
            digits: [0; LEVELS],
            buckets: (0..LEVELS * RADIX).map(|_| Bucket::new()).collect(),
            spare: Vec::new(),
        }
    }

    /// Adds an event, which must not be earlier than the last one that `take_first` took.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry<T>) {
        self.len += 1;
        self.place(entry);
    }

    /// Moves the earliest events to the empty `near`, unsorted but with equals in order. It returns the time up to
    /// which it took everything: the largest time if nothing is left.
    ///
    /// The caller must pop the earliest of them at once, since nothing earlier can be pushed here later. If many
    /// share the earliest time, they go to the empty `instant` instead, and only those.
    pub(super) fn take_first(&mut self, near: &mut Vec<Entry<T>>, instant: &mut VecDeque<T>) -> u64 {
        while let Some((level, index)) = self.first_bucket() {
            let bucket = self.remove(level, index);
            let (first, count) = (bucket.first, bucket.len());
            self.base = first;
            if count > MAX_REFILL_EVENTS && level > 0 {
                // Too many events to sort: spread the bucket over lower levels, relative to its earliest time.
                self.drain(bucket, Self::place);
                continue;
            }
            self.len -= count;
            if count > MAX_REFILL_EVENTS {
                // A bucket of level 0 has a single time.
                instant.reserve(count);
                self.drain(bucket, |_, entry| instant.push_back(entry.item));
                return first;
            }
            self.drain(bucket, |_, entry| near.push(entry));
            let mut last = first | ((1 << (level * DIGIT_BITS)) - 1);
            // The next buckets of the level follow without a gap: a refill costs more than a few events.
            while near.len() < MIN_REFILL_EVENTS
                && let Some((next_level, index)) = self.first_bucket()
                && next_level == level
                && near.len() + self.buckets[index].len() <= MAX_REFILL_EVENTS
            {
                let bucket = self.remove(level, index);
                last = bucket.first | ((1 << (level * DIGIT_BITS)) - 1);
                self.len -= bucket.len();
                self.drain(bucket, |_, entry| near.push(entry));
            }
            if self.len > 0 {
                return last;
            }
        }
        u64::MAX
    }

    /// Earliest time of all events.
    #[inline]
    pub(super) fn first_time(&self) -> Option<u64> {
        self.first_bucket().map(|(_, index)| self.buckets[index].first)
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends an event to its bucket.
    #[inline]
    fn place(&mut self, entry: Entry<T>) {
        let time = entry.time;
        // The lowest bit is set so that an event at `base` has a highest differing bit too.
        let level = ((time ^ self.base) | 1).ilog2() as usize / DIGIT_BITS;
        let digit = (time >> (level * DIGIT_BITS)) as usize % RADIX;
        self.levels |= 1 << level;
        self.digits[level] |= 1 << digit;
        let bucket = &mut self.buckets[level * RADIX + digit];
        bucket.first = bucket.first.min(time);
        if bucket.open.len() == bucket.open.capacity() {
            let block = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK_EVENTS));
            let full = mem::replace(&mut bucket.open, block);
            if full.capacity() > 0 {
                bucket.full.push(full);
            }
        }
        bucket.open.push(entry);
    }

    /// Passes the events of a bucket to `take`, in order, and keeps its blocks.
    fn drain(&mut self, bucket: Bucket<T>, mut take: impl FnMut(&mut Self, Entry<T>)) {
        for mut block in bucket.full.into_iter().chain([bucket.open]) {
            for entry in block.drain(..) {
                take(self, entry);
            }
            self.recycle(block);
        }
    }

    fn remove(&mut self, level: usize, index: usize) -> Bucket<T> {
        self.digits[level] &= !(1 << (index % RADIX));
        if self.digits[level] == 0 {
            self.levels &= !(1 << level);
        }
        mem::replace(&mut self.buckets[index], Bucket::new())
    }

    fn recycle(&mut self, block: Vec<Entry<T>>) {
        // The limit is proportional to the pending events, so that a shrinking queue frees memory.
        if self.spare.len() < MIN_SPARE_BLOCKS + self.len / BLOCK_EVENTS {
            self.spare.push(block);
        }
    }

    /// Level and index of the bucket with the earliest events.
    #[inline]
    fn first_bucket(&self) -> Option<(usize, usize)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        Some((level, level * RADIX + self.digits[level].trailing_zeros() as usize))
    }
}

impl<T> Bucket<T> {
    fn new() -> Self {
        Bucket { first: u64::MAX, open: Vec::new(), full: Vec::new() }
    }

    fn len(&self) -> usize {
        self.full.len() * BLOCK_EVENTS + self.open.len()
    }
}

/// Bits of a digit. The occupancy of a level must fit the bits of a word.
const DIGIT_BITS: usize = 6;
const RADIX: usize = 1 << DIGIT_BITS;
const LEVELS: usize = (u64::BITS as usize).div_ceil(DIGIT_BITS);

/// Events in a block.
const BLOCK_EVENTS: usize = 64;

/// Maximum number of events that a refill sorts; a larger bucket is spread over lower levels first.
const MAX_REFILL_EVENTS: usize = 32;

/// Number of events up to which a refill takes a further bucket.
const MIN_REFILL_EVENTS: usize = 12;

/// Minimum number of spare blocks to keep.
const MIN_SPARE_BLOCKS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of blocks in buckets and spare.
    fn blocks(far: &Far<u32>) -> usize {
        let used = |bucket: &Bucket<u32>| bucket.full.len() + usize::from(bucket.open.capacity() > 0);
        far.spare.len() + far.buckets.iter().map(used).sum::<usize>()
    }

    #[test]
    fn memory_follows_the_number_of_events() {
        let (mut far, mut near, mut instant) = (Far::new(), Vec::new(), VecDeque::new());
        let increment = |n: u64| 1_000_000 + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 10_000_000;
        let count = 50_000;
        (0..count).for_each(|n| far.push(Entry { time: increment(n), item: 0 }));
        // Each used bucket and each spare beyond the proportional ones may waste one block.
        let bound = |events: usize| 2 * events / BLOCK_EVENTS + LEVELS * RADIX + MIN_SPARE_BLOCKS + 1;
        let mut held = 0;
        while held < 20 * count {
            far.take_first(&mut near, &mut instant);
            for entry in near.drain(..) {
                held += 1;
                far.push(Entry { time: entry.time + increment(held), item: entry.item });
            }
            assert!(instant.is_empty());
            assert!(blocks(&far) <= bound(far.len()), "{} blocks for {} events", blocks(&far), far.len());
        }
        while far.len() > 0 {
            far.take_first(&mut near, &mut instant);
            near.clear();
        }
        assert!(blocks(&far) <= MIN_SPARE_BLOCKS + 1, "{} blocks for no event", blocks(&far));
    }
}
