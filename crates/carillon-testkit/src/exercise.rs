//! Count of exercised calls, so that a test that exercises nothing fails.

use std::cell::Cell;
use std::ops::Sub;

/// Number of calls of machines and applications in this thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exercise {
    /// Number of datagrams that machines handled.
    pub datagrams: u64,
    /// Number of messages that applications took.
    pub deliveries: u64,
    /// Number of timers that fired.
    pub timers: u64,
}

impl Sub for Exercise {
    type Output = Exercise;

    fn sub(self, earlier: Exercise) -> Exercise {
        Exercise {
            datagrams: self.datagrams - earlier.datagrams,
            deliveries: self.deliveries - earlier.deliveries,
            timers: self.timers - earlier.timers,
        }
    }
}

/// Counts of this thread so far.
pub fn exercised() -> Exercise {
    EXERCISED.get()
}

pub(crate) fn count(change: impl FnOnce(&mut Exercise)) {
    let mut exercised = EXERCISED.get();
    change(&mut exercised);
    EXERCISED.set(exercised);
}

thread_local! {
    static EXERCISED: Cell<Exercise> = const { Cell::new(Exercise { datagrams: 0, deliveries: 0, timers: 0 }) };
}
