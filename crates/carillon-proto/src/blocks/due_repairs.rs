//! Which messages are to be sent again, and to whom; and who is to be told that one is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::Time;

use super::HoldOff;

/// Repairs that are due, the oldest message first. A NAK that comes while its repair is due, or
/// shortly after it was sent, adds nothing: otherwise each of many receivers that miss the same
/// message, and each message that follows the missing one, would have it sent again.
#[derive(Debug)]
pub struct DueRepairs<D> {
    guard: Duration,
    due: BTreeSet<(u64, D)>,
    /// When and whither each was last sent; only of messages still held.
    sent: BTreeMap<u64, HoldOff<D>>,
    /// Those who asked for what is not held any more and are to be told so.
    refusals: BTreeSet<D>,
    /// When each was last told.
    refused: HoldOff<D>,
}

impl<D: Copy + Ord> DueRepairs<D> {
    /// None; the same repair is not sent twice within `guard`.
    pub fn new(guard: Duration) -> Self {
        DueRepairs {
            guard,
            due: BTreeSet::new(),
            sent: BTreeMap::new(),
            refusals: BTreeSet::new(),
            refused: HoldOff::default(),
        }
    }

    /// Someone lacks the message.
    pub fn ask(&mut self, now: Time, number: u64, to: D) {
        if self.sent.get(&number).is_none_or(|sent| sent.is_over(now, to, self.guard)) {
            self.due.insert((number, to));
        }
    }

    /// Someone lacks a message that is gone.
    pub fn refuse(&mut self, now: Time, to: D) {
        if self.refused.is_over(now, to, self.guard) {
            self.refusals.insert(to);
        }
    }

    /// Takes the next refusal that is due.
    pub fn pop_refusal(&mut self, now: Time) -> Option<D> {
        let to = self.refusals.pop_first()?;
        self.refused.note(now, to, self.guard);
        Some(to)
    }

    /// Takes the next one that is due.
    pub fn pop(&mut self, now: Time) -> Option<(u64, D)> {
        let (number, to) = self.due.pop_first()?;
        self.sent.entry(number).or_default().note(now, to, self.guard);
        Some((number, to))
    }

    /// A message is held no more. The messages leave in order, and none for which a repair is due:
    /// repairs go before new messages.
    pub fn forget(&mut self, number: u64) {
        while self.sent.first_key_value().is_some_and(|(&first, _)| first <= number) {
            self.sent.pop_first();
        }
    }

    /// Whether no repair is due.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_agree_with_the_list_of_all_that_was_asked_and_sent() {
        let mut rng = carillon_core::Seeds::new(1).stream("due-repairs");
        let guard = Duration::from_millis(5);
        let (mut repairs, mut now) = (DueRepairs::new(guard), Time::ZERO);
        let (mut due, mut sent) = (BTreeSet::new(), Vec::<((u64, u64), Time)>::new());
        for oldest in 0..3_000u64 {
            now += Duration::from_millis(rng.below(3));
            for _ in 0..rng.below(4) {
                let asked = (oldest + rng.below(20), rng.below(3));
                repairs.ask(now, asked.0, asked.1);
                if sent.iter().all(|&(other, at)| other != asked || now.since(at) >= guard) {
                    due.insert(asked);
                }
            }
            if rng.below(3) > 0 || due.first().is_some_and(|first| first.0 == oldest) {
                // Repairs go before new messages: none is due of what is forgotten.
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
    fn nobody_is_told_twice_in_a_short_time_that_a_message_is_gone() {
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
