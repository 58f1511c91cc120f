//! What a receiver misses and asks for: an object for each row of messages, as in ns-2's agent.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use carillon_core::{Time, Timers};

/// Rows of missing messages, each with its request.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// By the first message.
    rows: BTreeMap<u64, Row>,
    /// Rows whose request may be due, by their first message at that time.
    due: VecDeque<u64>,
    /// When a row's request is due again.
    timers: Timers<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// One past its last message.
    end: u64,
    is_due: bool,
    /// Requests sent.
    attempts: u32,
    /// How long the last one has been given.
    wait: Duration,
}

/// How long requests wait for their repair: at first, and at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub first: Duration,
    pub most: Duration,
}

impl Losses {
    /// These are missing: a request is due at once, "no random delay".
    pub fn found(&mut self, numbers: Range<u64>) {
        let row = Row { end: numbers.end, is_due: true, attempts: 0, wait: Duration::ZERO };
        self.rows.insert(numbers.start, row);
        self.due.push_back(numbers.start);
    }

    /// A message came; returns whether it was missing. What is left of its row goes on by itself: its
    /// wait starts anew, since repairs are coming.
    pub fn repaired(&mut self, now: Time, number: u64) -> bool {
        let Some((&start, &row)) = self.rows.range(..=number).next_back() else { return false };
        if number >= row.end {
            return false;
        }
        self.remove(start);
        for rest in [start..number, number + 1..row.end] {
            self.put_back(now, rest, row);
        }
        true
    }

    /// What lies before `oldest` is not asked for any more.
    pub fn forget_before(&mut self, now: Time, oldest: u64) {
        while let Some((&start, &row)) = self.rows.first_key_value()
            && start < oldest
        {
            self.remove(start);
            self.put_back(now, oldest..row.end, row);
        }
    }

    /// The waits that are over make their requests due.
    pub fn expire(&mut self, now: Time) {
        while let Some(start) = self.timers.expire(now) {
            if let Some(row) = self.rows.get_mut(&start) {
                row.is_due = true;
                self.due.push_back(start);
            }
        }
    }

    /// The next request that is due: for which messages, and which attempt it is.
    pub fn pop(&mut self, now: Time, waits: Waits) -> Option<(Range<u64>, u32)> {
        loop {
            let start = self.due.pop_front()?;
            let Some(row) = self.rows.get_mut(&start).filter(|row| row.is_due) else { continue };
            row.is_due = false;
            row.wait = match row.attempts {
                0 => waits.first,
                _ => row.wait.saturating_mul(2).min(waits.most),
            };
            let attempt = row.attempts;
            row.attempts = attempt.saturating_add(1);
            self.timers.arm(start, now + row.wait);
            return Some((start..row.end, attempt));
        }
    }

    /// When a request is due again.
    pub fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn remove(&mut self, start: u64) {
        self.rows.remove(&start);
        self.timers.cancel(start);
        if self.rows.is_empty() {
            // An empty map keeps memory, and most receivers miss nothing most of the time.
            self.rows = BTreeMap::new();
        }
    }

    fn put_back(&mut self, now: Time, numbers: Range<u64>, row: Row) {
        if numbers.is_empty() {
            return;
        }
        self.rows.insert(numbers.start, Row { end: numbers.end, ..row });
        if row.is_due {
            self.due.push_back(numbers.start);
        } else {
            self.timers.arm(numbers.start, now + row.wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Waits = Waits { first: Duration::from_millis(10), most: Duration::from_millis(30) };

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn all(losses: &mut Losses, now: u64) -> Vec<(Range<u64>, u32)> {
        losses.expire(at(now));
        std::iter::from_fn(|| losses.pop(at(now), WAITS)).collect()
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut losses = Losses::default();
        losses.found(3..5);
        let mut sent = Vec::new();
        for now in 0..130 {
            sent.extend(all(&mut losses, now).into_iter().map(|(_, attempt)| (now, attempt)));
        }
        assert_eq!(sent, [(0, 0), (10, 1), (30, 2), (60, 3), (90, 4), (120, 5)]);
    }

    #[test]
    fn a_repair_inside_splits_a_row() {
        let mut losses = Losses::default();
        losses.found(3..8);
        assert_eq!(all(&mut losses, 0), [(3..8, 0)]);
        assert!(losses.repaired(at(5), 5));
        assert!(!losses.repaired(at(5), 5));
        assert!(!losses.repaired(at(5), 8));
        assert!(!losses.repaired(at(5), 2));
        assert_eq!(all(&mut losses, 14), [], "the wait started anew");
        assert_eq!(all(&mut losses, 15), [(3..5, 1), (6..8, 1)]);
        assert!(losses.repaired(at(16), 3) && losses.repaired(at(16), 4) && losses.repaired(at(16), 7));
        losses.forget_before(at(16), 6);
        assert_eq!(all(&mut losses, 36), [(6..7, 2)]);
        losses.forget_before(at(37), 7);
        assert_eq!(losses.next_timeout(), None);
    }

    #[test]
    fn a_request_that_has_become_needless_is_not_sent() {
        let mut losses = Losses::default();
        losses.found(3..5);
        assert!(losses.repaired(at(0), 3));
        assert_eq!(all(&mut losses, 0), [(4..5, 0)], "what is left is asked for at once");
        losses.found(7..8);
        assert!(losses.repaired(at(1), 7));
        losses.forget_before(at(1), 9);
        assert_eq!(all(&mut losses, 100), []);
    }
}
