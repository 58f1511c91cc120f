//! Queue of repairs and refusals that NAKs ask for, without duplicates.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::Time;

use super::HoldOff;

/// Repairs due, oldest message first. A NAK that arrives while its repair is due, or shortly after it was sent, adds
/// nothing. Otherwise many receivers that miss the same message would each cause a repair.
#[derive(Debug)]
pub struct DueRepairs<D> {
    /// Time within which a repair is not sent again.
    guard: Duration,
    /// Messages to repair, each with its destination.
    due: BTreeSet<(u64, D)>,
    /// Time and destination of the last repair of each message still held.
    sent: BTreeMap<u64, HoldOff<D>>,
    /// Destinations to notify that a requested message is no longer held.
    refusals: BTreeSet<D>,
    /// Time of the last refusal to each destination.
    refused: HoldOff<D>,
}

impl<D: Copy + Ord> DueRepairs<D> {
    /// Creates an empty queue. The same repair is not sent twice within `guard`.
    pub fn new(guard: Duration) -> Self {
        DueRepairs {
            guard,
            due: BTreeSet::new(),
            sent: BTreeMap::new(),
            refusals: BTreeSet::new(),
            refused: HoldOff::default(),
        }
    }

    /// Requests a message for a destination.
    pub fn request(&mut self, now: Time, number: u64, to: D) {
        if self.sent.get(&number).is_none_or(|sent| sent.is_over(now, to, self.guard)) {
            // The set absorbs further requests while the repair waits for its turn.
            self.due.insert((number, to));
        }
    }

    /// Notes a request for a message that is no longer held.
    pub fn refuse(&mut self, now: Time, to: D) {
        // One refusal covers all messages that are gone, as it states the oldest one held.
        if self.refused.is_over(now, to, self.guard) {
            self.refusals.insert(to);
        }
    }

    /// Takes the next refusal.
    pub fn pop_refusal(&mut self, now: Time) -> Option<D> {
        let to = self.refusals.pop_first()?;
        self.refused.note(now, to, self.guard);
        Some(to)
    }

    /// Takes the next repair.
    pub fn pop(&mut self, now: Time) -> Option<(u64, D)> {
        let (number, to) = self.due.pop_first()?;
        // The guard begins with the transmission, since the repair may have waited long after its request.
        self.sent.entry(number).or_default().note(now, to, self.guard);
        Some((number, to))
    }

    /// Forgets a message that is no longer held. Messages leave in order, and no repair is due for them, since
    /// repairs precede new messages.
    pub fn forget(&mut self, number: u64) {
        while self.sent.first_key_value().is_some_and(|(&first, _)| first <= number) {
            self.sent.pop_first();
        }
    }

    /// Returns true if no repair is due.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_agrees_with_model_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("due-repairs");
        let guard = Duration::from_millis(5);
        let (mut repairs, mut now) = (DueRepairs::new(guard), Time::ZERO);
        let (mut due, mut sent) = (BTreeSet::new(), Vec::<((u64, u64), Time)>::new());
        for oldest in 0..3_000u64 {
            now += Duration::from_millis(rng.below(3));
            for _ in 0..rng.below(4) {
                let asked = (oldest + rng.below(20), rng.below(3));
                repairs.request(now, asked.0, asked.1);
                if sent.iter().all(|&(other, at)| other != asked || now.since(at) >= guard) {
                    due.insert(asked);
                }
            }
            if rng.below(3) > 0 || due.first().is_some_and(|first| first.0 == oldest) {
                // Repairs precede new messages, so no repair is due for a forgotten message.
                while let Some(next) = due.pop_first() {
                    assert_eq!(repairs.pop(now), Some(next));
                    sent.push((next, now));
                }
                assert_eq!(repairs.pop(now), None);
            }
            repairs.forget(oldest);
            assert_eq!(repairs.is_empty(), due.is_empty());
            assert!(repairs.sent.len() <= 20, "only of messages still held");
        }
    }

    #[test]
    fn refusal_is_not_repeated_within_guard() {
        let (mut repairs, at) = (DueRepairs::new(Duration::from_millis(5)), Time::from_nanos);
        repairs.refuse(at(0), 'a');
        repairs.refuse(at(0), 'a');
        assert_eq!((repairs.pop_refusal(at(0)), repairs.pop_refusal(at(0))), (Some('a'), None));
        repairs.refuse(at(4_999_999), 'a');
        assert_eq!(repairs.pop_refusal(at(4_999_999)), None);
        repairs.refuse(at(5_000_000), 'a');
        assert_eq!(repairs.pop_refusal(at(5_000_000)), Some('a'));
    }
}
