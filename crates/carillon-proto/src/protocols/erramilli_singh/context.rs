//! Where source and sink act, and their timers.

/// Where source and sink act.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// The timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// T1 or T2 is over: say how far this node has come.
    Idle,
    /// The next data packet may go out.
    Pace,
    /// No NAK has come for long: all messages are done with.
    Quiet,
    /// The answer to the NAK to this member is overdue: ask again.
    Nak(usize),
    /// This member has not been heard for long: it may have failed.
    Silence(usize),
}
