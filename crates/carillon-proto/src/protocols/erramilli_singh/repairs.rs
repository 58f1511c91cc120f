//! Which messages are to be sent again, and to whom; and who is to be told that one is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::Time;

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
    /// When each was last sent; only of messages still held.
    sent: BTreeMap<(u64, To), Time>,
    /// Those who asked for what is not held any more and are to be told so.
    refusals: BTreeSet<To>,
    /// When each was last told.
    refused: BTreeMap<To, Time>,
}

impl Repairs {
    /// None; the same repair is not sent twice within `guard`.
    pub fn new(guard: Duration) -> Self {
        Repairs {
            guard,
            due: BTreeSet::new(),
            sent: BTreeMap::new(),
            refusals: BTreeSet::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Someone lacks the message.
    pub fn ask(&mut self, now: Time, number: u64, to: To) {
        let key = (number, to);
        if self.may_repeat(now, self.sent.get(&key)) {
            self.due.insert(key);
        }
    }

    /// Someone lacks a message that is gone.
    pub fn refuse(&mut self, now: Time, to: To) {
        if self.may_repeat(now, self.refused.get(&to)) {
            self.refusals.insert(to);
        }
    }

    /// Takes the next refusal that is due.
    pub fn pop_refusal(&mut self, now: Time) -> Option<To> {
        let to = self.refusals.pop_first()?;
        self.refused.insert(to, now);
        Some(to)
    }

    /// Takes the next one that is due.
    pub fn pop(&mut self, now: Time) -> Option<(u64, To)> {
        let key = self.due.pop_first()?;
        self.sent.insert(key, now);
        Some(key)
    }

    /// A message is held no more. The messages leave in order, and none for which a repair is due:
    /// repairs go before new messages.
    pub fn forget(&mut self, number: u64) {
        while self.sent.first_key_value().is_some_and(|((first, _), _)| *first <= number) {
            self.sent.pop_first();
        }
    }

    fn may_repeat(&self, now: Time, last: Option<&Time>) -> bool {
        last.is_none_or(|&at| now >= at + self.guard)
    }

    /// Whether no repair is due.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}
