//! Which messages are to be sent again, and to whom; and who is to be told that one is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::Time;

use crate::blocks::HoldOff;

/// To whom a repair goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum To {
    /// The whole group.
    All,
    /// The member of this rank.
    Member(usize),
}

/// Repairs that are due, the oldest message first. A NAK that comes while its repair is due, or
/// shortly after it was sent, adds nothing: otherwise each of many receivers that miss the same
/// message, and each message that follows the missing one, would have it sent again.
#[derive(Debug)]
pub(super) struct Repairs {
    guard: Duration,
    due: BTreeSet<(u64, To)>,
    /// When and whither each was last sent; only of messages still held.
    sent: BTreeMap<u64, HoldOff<To>>,
    /// Those who asked for what is not held any more and are to be told so.
    refusals: BTreeSet<To>,
    /// When each was last told.
    refused: HoldOff<To>,
}

impl Repairs {
    /// None; the same repair is not sent twice within `guard`.
    pub fn new(guard: Duration) -> Self {
        Repairs {
            guard,
            due: BTreeSet::new(),
            sent: BTreeMap::new(),
            refusals: BTreeSet::new(),
            refused: HoldOff::default(),
        }
    }

    /// Someone lacks the message.
    pub fn ask(&mut self, now: Time, number: u64, to: To) {
        if self.sent.get(&number).is_none_or(|sent| sent.is_over(now, to, self.guard)) {
            self.due.insert((number, to));
        }
    }

    /// Someone lacks a message that is gone.
    pub fn refuse(&mut self, now: Time, to: To) {
        if self.refused.is_over(now, to, self.guard) {
            self.refusals.insert(to);
        }
    }

    /// Takes the next refusal that is due.
    pub fn pop_refusal(&mut self, now: Time) -> Option<To> {
        let to = self.refusals.pop_first()?;
        self.refused.note(now, to, self.guard);
        Some(to)
    }

    /// Takes the next one that is due.
    pub fn pop(&mut self, now: Time) -> Option<(u64, To)> {
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
