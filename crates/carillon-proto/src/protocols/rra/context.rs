//! Where the parts of a sender act, and its timers.

/// Where the parts of a sender act.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// The sender's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The receiver that was asked this has had time to answer: ask again, or give up.
    Answer(u64),
    /// Nothing more was sent for a while: those who were not asked about the last of it are.
    Quiet,
    /// The next packet may leave.
    Pace,
}
