//! Which messages are to be sent again, and to whom.

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
}

impl Repairs {
    /// None; the same repair is not sent twice within `guard`.
    pub fn new(guard: Duration) -> Self {
        Repairs { guard, due: BTreeSet::new(), sent: BTreeMap::new() }
    }

    /// Someone lacks the message.
    pub fn ask(&mut self, now: Time, number: u64, to: To) {
        let key = (number, to);
        if self.sent.get(&key).is_none_or(|&at| now >= at + self.guard) {
            self.due.insert(key);
        }
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

    /// Whether none is due.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}
