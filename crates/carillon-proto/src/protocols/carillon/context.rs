//! Context shared by the parts of a sender, and its timers.

use std::time::Duration;

/// Context of a sender: time, timers, events and the group.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// Timers of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Deadline of the response to the poll with this number.
    Answer(u64),
    /// Deadline of the open block: close it.
    Close,
    /// Members awaited in a round may be polled again.
    Repeat,
    /// A large group is asked to confirm what it has.
    Sweep,
    /// End of a pause of `quiet` without any packet.
    Quiet,
    /// The pacer permits the next packet.
    Pace,
}

/// Lower bound of `quiet` and `block_time`, so that a zero setting does not arm a timer for the present instant again
/// and again.
pub(super) const MIN_QUIET: Duration = Duration::from_micros(100);

/// Time as a field of a poll.
pub(super) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
