//! What a member fetches before it accepts a new view: the log that goes on, from where its own may differ.

use std::collections::BTreeMap;
use std::ops::Range;

use carillon_wire::reformation::Ranks;

/// What has been asked for and has not come: all below a place, until it is asked for again.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskedRuns {
    below: u64,
}

impl AskedRuns {
    /// The next run of this range that is not there and has not been asked for, of no more than `most`: it is now.
    pub fn next(&mut self, range: Range<u64>, most: u64, has: impl Fn(u64) -> bool) -> Option<Range<u64>> {
        let start = (range.start.max(self.below)..range.end).find(|&place| !has(place))?;
        let end = range.end.min(start.saturating_add(most));
        self.below = (start + 1..end).find(|&place| has(place)).unwrap_or(end);
        Some(start..self.below)
    }

    /// It has not come: all is asked for again. Returns whether anything was.
    pub fn again(&mut self) -> bool {
        std::mem::take(&mut self.below) > 0
    }
}

/// The part of a log that is fetched, beside what the member holds until it is complete: a vote must stay true.
#[derive(Clone, Debug)]
pub struct LogTransfer<T> {
    /// The number of the ballot for which it is fetched.
    ballot: u32,
    from: usize,
    /// Who may have it if that one has not.
    others: Ranks,
    start: u64,
    length: u64,
    /// What has come.
    entries: BTreeMap<u64, T>,
    /// The first place that has not.
    missing: u64,
    asked: AskedRuns,
    /// The numbers of the members' next messages at the start, if nothing before it is to be had.
    skipped: Option<Vec<u64>>,
}

impl<T> LogTransfer<T> {
    /// The places from `start` to `length`, which `from` has, and perhaps the others; of use in this ballot only.
    pub fn new(ballot: u32, from: usize, others: Ranks, start: u64, length: u64) -> Self {
        let (entries, start) = (BTreeMap::new(), start.min(length));
        LogTransfer {
            ballot,
            from,
            others,
            start,
            length,
            entries,
            missing: start,
            asked: AskedRuns::default(),
            skipped: None,
        }
    }

    /// A part of it has come. Whether it is: one of those asked has sent it, and it belongs there.
    pub fn insert(&mut self, from: usize, place: u64, entry: T) -> bool {
        if from != self.from || !(self.start..self.length).contains(&place) {
            return false;
        }
        self.entries.insert(place, entry);
        self.advance();
        true
    }

    /// What to ask for now: no further than `window` from the first place that is missing, so many at a time.
    pub fn ask(&mut self, window: u64, most: u64) -> Option<(usize, Range<u64>)> {
        let end = self.length.min(self.missing.saturating_add(window));
        let run = self.asked.next(self.missing..end, most, |place| self.entries.contains_key(&place))?;
        Some((self.from, run))
    }

    /// What was asked for has not come. One that is not the coordinator may never answer: it may not have accepted the
    /// view, and may have failed. Each has its turn.
    pub fn ask_again(&mut self, coordinator: usize) {
        self.asked.again();
        let mut others = self.others.iter();
        let next = others.find(|&other| other > self.from).or(self.others.iter().next());
        if let Some(other) = next.filter(|_| self.from != coordinator) {
            self.others.remove(other);
            self.others.insert(self.from);
            self.from = other;
        }
    }

    /// What is missing is not kept there any more: asks another one. Returns whether there is one.
    pub fn ask_another(&mut self) -> bool {
        let Some(other) = self.others.iter().next() else { return false };
        self.others.remove(other);
        self.asked.again();
        self.from = other;
        true
    }

    /// Nothing before this place is to be had any more, where these are the members' next messages.
    pub fn skip_to(&mut self, place: u64, numbers: Vec<u64>) {
        self.entries = self.entries.split_off(&place);
        (self.start, self.missing, self.skipped) = (place, place, Some(numbers));
        self.advance();
    }

    /// The number of the ballot for which it is fetched.
    pub fn ballot(&self) -> u32 {
        self.ballot
    }

    /// Whether this member is to answer.
    pub fn asks(&self, rank: usize) -> bool {
        self.from == rank
    }

    /// The first place that is missing; the length of the log if none is.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Whether nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.missing == self.length
    }

    /// How many places have come.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// One past the last place.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Where it begins, what lies before that if it cannot be had, and what has come, in order.
    pub fn into_parts(self) -> (u64, Option<Vec<u64>>, impl Iterator<Item = T>) {
        (self.start, self.skipped, self.entries.into_values())
    }

    fn advance(&mut self) {
        while self.entries.contains_key(&self.missing) {
            self.missing += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is lost on the way, a log is fetched from one of those that have it, and nothing is asked for twice
    /// without a reason.
    #[test]
    fn all_of_a_log_comes_from_those_who_have_it() {
        for seed in 0..200 {
            let mut rng = carillon_core::Seeds::new(seed).stream("transfer");
            let (start, length) = (rng.below(50), rng.below(100));
            let (window, most) = (1 + rng.below(40), 1 + rng.below(8));
            let base = length.min(start + rng.below(3) * rng.below(20));
            let has: Vec<bool> = (0..4).map(|rank| rank == 2 || rng.below(2) == 0).collect();
            let mut transfer = LogTransfer::new(1, 1, [0, 2, 3].into_iter().collect(), start, length);
            let mut rounds = 0;
            while !transfer.is_complete() {
                rounds += 1;
                assert!(rounds < 1000, "seed {seed}");
                let mut asked = std::collections::BTreeSet::new();
                while let Some((from, run)) = transfer.ask(window, most) {
                    assert!(transfer.asks(from) && run.end - run.start <= most);
                    assert!(run.start >= transfer.missing() && run.end <= length);
                    if !has[from] && rng.below(2) == 0 && transfer.ask_another() {
                        asked.clear();
                        continue;
                    }
                    if run.start < base && has[from] {
                        transfer.skip_to(base, vec![7]);
                        asked.clear();
                        continue;
                    }
                    for place in run {
                        assert!(asked.insert(place), "asked for twice");
                        if has[from] && rng.below(3) > 0 {
                            assert!(!transfer.insert(from + 1, place, place), "not asked");
                            assert!(transfer.insert(from, place, place));
                        }
                    }
                }
                transfer.ask_again(9);
            }
            assert!(!transfer.insert(2, length, length), "not a part of it");
            let (from, skipped, entries) = transfer.into_parts();
            assert!(entries.eq(from..length), "seed {seed}");
            assert_eq!(skipped.is_some(), from != start.min(length));
        }
    }
}
