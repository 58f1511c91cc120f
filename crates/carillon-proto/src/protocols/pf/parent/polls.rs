//! Timeout queue of the outstanding polls.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::Time;

/// Outstanding polls, each with the deadline of its responses.
#[derive(Debug, Default)]
pub(super) struct Polls {
    next: u64,
    open: BTreeMap<u64, Poll>,
    deadlines: BTreeSet<(Time, u64)>,
}

/// Outstanding poll.
#[derive(Debug)]
pub(super) struct Poll {
    pub children: Vec<usize>,
    awaited: usize,
    deadline: Time,
}

impl Polls {
    /// Number of the next poll.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Adds a sent poll.
    pub fn push(&mut self, children: Vec<usize>, deadline: Time) {
        let awaited = children.len();
        self.deadlines.insert((deadline, self.next));
        self.open.insert(self.next, Poll { children, awaited, deadline });
        self.next += 1;
    }

    /// Notes that one of the polled children is no longer awaited.
    pub fn on_answer(&mut self, poll: u64) {
        let Some(open) = self.open.get_mut(&poll) else { return };
        open.awaited -= 1;
        if open.awaited == 0 {
            self.deadlines.remove(&(open.deadline, poll));
            self.open.remove(&poll);
        }
    }

    /// Removes the next expired poll.
    pub fn expire(&mut self, now: Time) -> Option<(u64, Poll)> {
        let &(at, poll) = self.deadlines.first()?;
        if at > now {
            return None;
        }
        self.deadlines.pop_first();
        self.open.remove(&poll).map(|open| (poll, open))
    }

    /// Earliest deadline.
    pub fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Removes all polls.
    pub fn clear(&mut self) {
        self.open.clear();
        self.deadlines.clear();
    }
}
