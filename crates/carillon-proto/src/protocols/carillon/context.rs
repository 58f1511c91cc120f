//! Where the parts of a sender act, and its timers.

use std::time::Duration;

/// Where the parts of a sender act.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// The sender's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The receiver that was asked this has had time to answer: ask again, or give up.
    Answer(u64),
    /// The open block has been open for long enough.
    Close,
    /// Those who are awaited in a round may be asked once more.
    Echo,
    /// A crowd is asked to confirm what it has.
    Sweep,
    /// Nothing more was sent for a while.
    Quiet,
    /// The next packet may leave.
    Pace,
}

/// A pause is not shorter than this.
pub(super) const LEAST_QUIET: Duration = Duration::from_micros(100);
