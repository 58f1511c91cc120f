//! The polls that have not been answered by all they asked: the timeout queue.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::Time;

/// The polls under way, each with the time until which its answers are waited for.
#[derive(Debug, Default)]
pub(super) struct Polls {
    next: u64,
    open: BTreeMap<u64, Poll>,
    deadlines: BTreeSet<(Time, u64)>,
}

/// A poll.
#[derive(Debug)]
pub(super) struct Poll {
    pub children: Vec<usize>,
    awaited: usize,
    deadline: Time,
}

impl Polls {
    /// The number of the next poll.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A poll went out.
    pub fn push(&mut self, children: Vec<usize>, deadline: Time) {
        let awaited = children.len();
        self.deadlines.insert((deadline, self.next));
        self.open.insert(self.next, Poll { children, awaited, deadline });
        self.next += 1;
    }

    /// One of those that this poll asked is not awaited any more.
    pub fn on_answer(&mut self, poll: u64) {
        let Some(open) = self.open.get_mut(&poll) else { return };
        open.awaited -= 1;
        if open.awaited == 0 {
            self.deadlines.remove(&(open.deadline, poll));
            self.open.remove(&poll);
        }
    }

    /// The next poll whose time is over.
    pub fn expire(&mut self, now: Time) -> Option<(u64, Poll)> {
        let &(at, poll) = self.deadlines.first()?;
        if at > now {
            return None;
        }
        self.deadlines.pop_first();
        self.open.remove(&poll).map(|open| (poll, open))
    }

    /// When the next one's time is over.
    pub fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Nobody is awaited.
    pub fn clear(&mut self) {
        self.open.clear();
        self.deadlines.clear();
    }
}
