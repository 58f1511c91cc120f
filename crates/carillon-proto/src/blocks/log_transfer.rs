//! Log that a member fetches before it accepts a new view, from the place at which its own may differ.
//!
//! The member keeps its own log until the fetched part is complete, so that its vote in the agreement stays true
//! (virtual synchrony: Birman and Joseph 1987).

use std::collections::BTreeMap;
use std::ops::Range;

use carillon_wire::reformation::Ranks;

/// Requests in progress: all places below a bound were requested and have not come.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestedRuns {
    /// Place before which all missing places were requested.
    below: u64,
}

impl RequestedRuns {
    /// Next run of at most `most` missing places in this range that was not requested; it counts as requested now.
    pub fn next(&mut self, range: Range<u64>, most: u64, has: impl Fn(u64) -> bool) -> Option<Range<u64>> {
        // Skip the places that were requested, and the ones present.
        let start = (range.start.max(self.below)..range.end).find(|&place| !has(place))?;
        let end = range.end.min(start.saturating_add(most));
        // End the run at the next place present, so that no entry is sent for nothing.
        self.below = (start + 1..end).find(|&place| has(place)).unwrap_or(end);
        Some(start..self.below)
    }

    /// Marks everything as not requested after a timeout. Returns true if anything was.
    pub fn again(&mut self) -> bool {
        std::mem::take(&mut self.below) > 0
    }
}

/// Part of a log that is being fetched beside the member's own.
#[derive(Clone, Debug)]
pub struct LogTransfer<T> {
    /// Number of the ballot for which the log is fetched.
    ballot: u32,
    /// Member that receives the requests at present.
    from: usize,
    /// Members that may have the log if `from` does not.
    others: Ranks,
    /// First place to fetch.
    start: u64,
    /// Place after the last one to fetch: the length of the log in the new view.
    length: u64,
    /// Entries received.
    entries: BTreeMap<u64, T>,
    /// First missing place.
    missing: u64,
    /// Places requested from the present member.
    asked: RequestedRuns,
    /// Next sequence number of each member at the start, if nothing before it is available.
    skipped: Option<Vec<u64>>,
}

impl<T> LogTransfer<T> {
    /// Creates the transfer of the places from `start` to `length`, which `from` has and perhaps the others, for this
    /// ballot only.
    pub fn new(ballot: u32, from: usize, others: Ranks, start: u64, length: u64) -> Self {
        // The own log may be longer than the one that continues. Then nothing is fetched, and the own log is cut.
        let (entries, start) = (BTreeMap::new(), start.min(length));
        LogTransfer {
            ballot,
            from,
            others,
            start,
            length,
            entries,
            missing: start,
            asked: RequestedRuns::default(),
            skipped: None,
        }
    }

    /// Adds an entry. Returns true if the polled member sent it and it belongs to the range.
    pub fn insert(&mut self, from: usize, place: u64, entry: T) -> bool {
        // Only the polled member may fill the log: another one may hold an order that does not continue.
        if from != self.from || !(self.start..self.length).contains(&place) {
            return false;
        }
        self.entries.insert(place, entry);
        self.advance();
        true
    }

    /// Next request: at most `most` places, no further than `window` from the first missing one.
    pub fn ask(&mut self, window: u64, most: u64) -> Option<(usize, Range<u64>)> {
        // The window bounds the entries in flight, and so the burst of answers.
        let end = self.length.min(self.missing.saturating_add(window));
        let run = self.asked.next(self.missing..end, most, |place| self.entries.contains_key(&place))?;
        Some((self.from, run))
    }

    /// Repeats the requests after a timeout. A member other than the coordinator may never answer, as it may have
    /// failed or not accepted the view, so the next member gets its turn.
    pub fn retry(&mut self, coordinator: usize) {
        // All outstanding requests count as lost.
        self.asked.again();
        let mut others = self.others.iter();
        // Members take turns by rank, so that each one is asked before any is asked again.
        let next = others.find(|&other| other > self.from).or(self.others.iter().next());
        // The coordinator has the whole log of its view, and serves it as long as the ballot lasts.
        if let Some(other) = next.filter(|_| self.from != coordinator) {
            self.others.remove(other);
            self.others.insert(self.from);
            self.from = other;
        }
    }

    /// Chooses another member, since this one no longer has the missing places. Returns false if there is none.
    pub fn try_another(&mut self) -> bool {
        let Some(other) = self.others.iter().next() else { return false };
        // The present member does not return to the others, since it will not regain the missing places.
        self.others.remove(other);
        self.asked.again();
        self.from = other;
        true
    }

    /// Skips to this place, since nothing before it is available. `numbers` are the members' next messages there.
    pub fn skip_to(&mut self, place: u64, numbers: Vec<u64>) {
        // Entries before the place follow a gap that stays open, so that they cannot be delivered.
        self.entries = self.entries.split_off(&place);
        (self.start, self.missing, self.skipped) = (place, place, Some(numbers));
        self.advance();
    }

    /// Number of the ballot for which the log is fetched.
    pub fn ballot(&self) -> u32 {
        self.ballot
    }

    /// Returns true if this member is asked at present.
    pub fn asks(&self, rank: usize) -> bool {
        self.from == rank
    }

    /// First missing place; the length of the log if none is missing.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns true if nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.missing == self.length
    }

    /// Number of entries received.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Returns true if no entry was received.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Place after the last one.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Start of the log, the sequence numbers at that place if earlier ones are unavailable, and the entries in
    /// order.
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

    /// A log is fetched from one of the members that have it, despite losses, and nothing is requested twice without
    /// a reason.
    #[test]
    fn log_is_fetched_completely_despite_loss() {
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
                    if !has[from] && rng.below(2) == 0 && transfer.try_another() {
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
                transfer.retry(9);
            }
            assert!(!transfer.insert(2, length, length), "not a part of it");
            let (from, skipped, entries) = transfer.into_parts();
            assert!(entries.eq(from..length), "seed {seed}");
            assert_eq!(skipped.is_some(), from != start.min(length));
        }
    }
}
