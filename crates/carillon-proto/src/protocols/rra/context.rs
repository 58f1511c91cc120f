//! Machine context and timers of the sender.

/// Machine context with the sender's timers.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// Timers of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Timeout of the poll with this number: repeat it, or apply `past_limit`.
    Answer(u64),
    /// Idle delay after the last packet: poll the receivers that were not polled since.
    Quiet,
    /// The pacer allows the next packet.
    Pace,
}
