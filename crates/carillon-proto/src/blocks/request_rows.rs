//! Requests for ranges of missing messages: one request per range.

use std::ops::Range;
use std::time::Duration;

use carillon_core::Time;

use super::{Doubling, FeedbackDelay, RequestSchedule, Stage, Tries};

/// Ranges of missing messages with the state of their requests, by first message. Requests are neither confirmed nor
/// suppressed.
#[derive(Debug)]
pub struct RequestRows {
    rows: RequestSchedule<u64, Row>,
    /// Upper bound of the wait after a request.
    longest: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// Sequence number after the last message of the range.
    end: u64,
    /// Number of requests sent.
    attempts: u32,
    /// Wait after the first request.
    first_wait: Duration,
}

impl RequestRows {
    /// Creates an empty set. `longest` bounds the wait after a request.
    pub fn new(longest: Duration) -> Self {
        RequestRows { rows: RequestSchedule::new(Tries::UNLIMITED), longest }
    }

    /// Adds missing messages. Their request is due at once ("no random delay").
    pub fn found(&mut self, now: Time, numbers: Range<u64>) {
        self.put(now, numbers, Row { end: 0, attempts: 0, first_wait: Duration::ZERO }, true);
    }

    /// Records the arrival of a message. Returns true if it was missing. The rest of its range restarts its wait,
    /// since repairs are coming.
    pub fn repaired(&mut self, now: Time, number: u64) -> bool {
        let Some((start, &row)) = self.rows.last_up_to(number).filter(|(_, row)| number < row.end) else {
            return false;
        };
        // A request that was due for the whole range stays due for the rest.
        let is_due = self.remove(start);
        for rest in [start..number, number + 1..row.end] {
            self.put(now, rest, row, is_due);
        }
        true
    }

    /// Forgets the messages before `oldest`.
    pub fn forget_before(&mut self, now: Time, oldest: u64) {
        while let Some(start) = self.rows.first().filter(|&start| start < oldest)
            && let Some(&row) = self.rows.get(start)
        {
            let is_due = self.remove(start);
            self.put(now, oldest..row.end, row, is_due);
        }
    }

    /// Marks requests as due after their wait.
    pub fn expire(&mut self, now: Time) {
        // The schedule moves ended waits to the stage `Due` itself. With unlimited tries and no confirmations, no
        // other outcome occurs.
        while self.rows.expire(now).is_some() {}
    }

    /// Takes the next due request: its range and the number of earlier attempts. `first_wait` is the wait after the
    /// first one.
    pub fn pop(&mut self, now: Time, first_wait: Duration) -> Option<(Range<u64>, u32)> {
        let start = self.rows.take_due()?;
        let row = self.rows.get_mut(start)?;
        // Only the first request fixes the base of the waits, so that each later wait doubles the one before.
        if row.attempts == 0 {
            row.first_wait = first_wait;
        }
        let attempt = row.attempts;
        row.attempts = attempt.saturating_add(1);
        let row = *row;
        // Nothing confirms a request, so the wait for the repair is a back-off before the next request.
        self.rows.back_off(now, start, self.wait(row));
        Some((start..row.end, attempt))
    }

    /// Time at which the next request is due.
    pub fn next_timeout(&self) -> Option<Time> {
        self.rows.next_timeout()
    }

    /// Removes a range. Returns true if its request was due.
    fn remove(&mut self, start: u64) -> bool {
        let stage = self.rows.stage(start);
        self.rows.remove(start);
        stage == Some(Stage::Due)
    }

    /// Wait after the last request of a range.
    fn wait(&self, row: Row) -> Duration {
        // `attempts` counts the request just sent, and its wait is not doubled.
        let mut waits = Doubling { first: row.first_wait, most: self.longest };
        waits.delay(row.attempts.saturating_sub(1), 0.0)
    }

    fn put(&mut self, now: Time, numbers: Range<u64>, mut row: Row, is_due: bool) {
        // A repair at the edge of a range leaves an empty part.
        if numbers.is_empty() {
            return;
        }
        let wait = if is_due { Duration::ZERO } else { self.wait(row) };
        row.end = numbers.end;
        self.rows.begin(now, numbers.start, wait, row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_BACKOFF: Duration = Duration::from_millis(10);
    const MAX_BACKOFF: Duration = Duration::from_millis(30);

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn all(losses: &mut RequestRows, now: u64) -> Vec<(Range<u64>, u32)> {
        losses.expire(at(now));
        std::iter::from_fn(|| losses.pop(at(now), FIRST_BACKOFF)).collect()
    }

    #[test]
    fn waits_double_up_to_bound() {
        let mut losses = RequestRows::new(MAX_BACKOFF);
        losses.found(at(0), 3..5);
        let mut sent = Vec::new();
        for now in 0..130 {
            sent.extend(all(&mut losses, now).into_iter().map(|(_, attempt)| (now, attempt)));
        }
        assert_eq!(sent, [(0, 0), (10, 1), (30, 2), (60, 3), (90, 4), (120, 5)]);
    }

    #[test]
    fn repair_splits_row() {
        let mut losses = RequestRows::new(MAX_BACKOFF);
        losses.found(at(0), 3..8);
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
    fn needless_request_is_not_sent() {
        let mut losses = RequestRows::new(MAX_BACKOFF);
        losses.found(at(0), 3..5);
        assert!(losses.repaired(at(0), 3));
        assert_eq!(all(&mut losses, 0), [(4..5, 0)], "what is left is asked for at once");
        losses.found(at(0), 7..8);
        assert!(losses.repaired(at(1), 7));
        losses.forget_before(at(1), 9);
        assert_eq!(all(&mut losses, 100), []);
    }
}
