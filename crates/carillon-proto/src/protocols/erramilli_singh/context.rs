//! Context shared by source and sink, and their timers.

/// Time, timers, events and group of a member.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// The timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// End of T1 or T2: send a status or sanity message.
    Idle,
    /// Earliest time of the next data packet.
    Pace,
    /// End of the time without NAKs: complete all messages.
    Quiet,
    /// Answer to the NAK to this member overdue: repeat the NAK.
    Nak(usize),
    /// Member silent: check for its failure.
    Silence(usize),
}
