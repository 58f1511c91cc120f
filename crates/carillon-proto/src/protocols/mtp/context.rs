//! Machine context and timers of a member.

/// Machine context with the member's timers.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// Timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The master's heartbeat.
    Heartbeat,
    /// A member's heartbeat while it waits for something.
    Tick,
    /// The window of the next heartbeat opens.
    Window,
    /// Time of the next NAK.
    Nak,
    /// Timeout of a FETCH between views.
    Fetch,
}
