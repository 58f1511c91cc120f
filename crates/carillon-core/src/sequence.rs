//! Sequence numbers: unbounded inside, truncated only on the wire.

use std::collections::BTreeMap;
use std::ops::Range;

/// Returns the full number nearest to `expected` that equals `truncated` modulo `modulus`.
///
/// The result is unique if the true number lies within `modulus / 2` of `expected`: `expected - modulus / 2 <= number
/// < expected + (modulus + 1) / 2`, cut off below zero.
///
/// # Panics
///
/// Panics if `modulus` is zero or above 2^63, or `truncated` is not below it. Callers check numbers from the wire
/// first.
pub fn expand(truncated: u64, modulus: u64, expected: u64) -> u64 {
    assert!(modulus > 0 && modulus <= 1 << 63, "modulus {modulus} out of range");
    assert!(truncated < modulus, "{truncated} is no number modulo {modulus}");
    // Distance from `expected` forwards to `truncated`, modulo `modulus`.
    let ahead = (truncated + modulus - expected % modulus) % modulus;
    let forward = expected.saturating_add(ahead);
    if ahead >= modulus.div_ceil(2) && forward >= modulus { forward - modulus } else { forward }
}

/// Set of sequence numbers, kept as maximal runs: its memory grows with the number of gaps, not of members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeqSet {
    /// First number of each run, mapped to one past its last.
    runs: BTreeMap<u64, u64>,
}

impl SeqSet {
    /// Empty set.
    pub const fn new() -> Self {
        SeqSet { runs: BTreeMap::new() }
    }

    /// Adds one number; returns true if it was new.
    ///
    /// # Panics
    ///
    /// Panics for `u64::MAX`, after which no run can end.
    pub fn insert(&mut self, number: u64) -> bool {
        assert!(number < u64::MAX, "sequence numbers end below u64::MAX");
        if self.contains(number) {
            return false;
        }
        let mut start = number;
        let mut end = number + 1;
        // Join the run that ends at `number` and the one that starts behind it.
        if let Some((&before, &before_end)) = self.runs.range(..number).next_back()
            && before_end == number
        {
            start = before;
        }
        if let Some(after_end) = self.runs.remove(&end) {
            end = after_end;
        }
        self.runs.insert(start, end);
        true
    }

    /// Adds the numbers of a range.
    pub fn insert_run(&mut self, run: Range<u64>) {
        if run.is_empty() {
            return;
        }
        let Range { mut start, mut end } = run;
        // Extend the run that overlaps or touches the new one from below.
        if let Some((&before, &before_end)) = self.runs.range(..=start).next_back()
            && before_end >= start
        {
            (start, end) = (before, end.max(before_end));
        }
        // Merge the runs that the new one covers or touches.
        while let Some((&inner, &inner_end)) = self.runs.range(start..=end).next() {
            self.runs.remove(&inner);
            end = end.max(inner_end);
        }
        self.runs.insert(start, end);
    }

    /// Returns true if all numbers of a range are in the set.
    pub fn contains_run(&self, run: &Range<u64>) -> bool {
        run.is_empty() || self.first_missing(run.start) >= run.end
    }

    /// Removes every number below `limit`.
    pub fn remove_below(&mut self, limit: u64) {
        let keep = self.runs.split_off(&limit);
        // The last run below `limit` may reach beyond it; its upper part stays.
        if let Some((_, end)) = self.runs.pop_last()
            && end > limit
        {
            self.runs.clear();
            self.runs.insert(limit, end);
        } else {
            self.runs.clear();
        }
        self.runs.extend(keep);
    }

    /// Returns true if the number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        self.runs.range(..=number).next_back().is_some_and(|(_, &end)| number < end)
    }

    /// First number at or after `from` that is not in the set.
    pub fn first_missing(&self, from: u64) -> u64 {
        match self.runs.range(..=from).next_back() {
            Some((_, &end)) if from < end => end,
            _ => from,
        }
    }

    /// Gaps within `range`, in ascending order.
    pub fn missing(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut from = range.start;
        std::iter::from_fn(move || {
            let start = self.first_missing(from);
            if start >= range.end {
                return None;
            }
            let end = self.runs.range(start..).next().map_or(range.end, |(&next, _)| next.min(range.end));
            from = end;
            Some(start..end)
        })
    }

    /// Maximal runs of numbers in the set, in ascending order.
    pub fn runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.runs.iter().map(|(&start, &end)| start..end)
    }

    /// Number of runs.
    pub fn count_runs(&self) -> usize {
        self.runs.len()
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.runs().map(|run| run.end - run.start).sum()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}
