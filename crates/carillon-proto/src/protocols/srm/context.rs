//! Machine context and timers of a member.

use carillon_core::{Dest, Scope};

/// Machine context with the member's timers.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// Timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Next session message.
    Session,
    /// The pacer allows the next request.
    RequestPace,
    /// The pacer allows the next message or repair.
    SendPace,
}

/// Converts seconds to whole microseconds.
pub(super) fn micros(seconds: f64) -> u32 {
    (seconds * 1e6) as u32
}

impl Context {
    /// Destination of a datagram to the group, limited to `scope` hops.
    pub(super) fn within(&self, scope: u8) -> Dest {
        Dest::Group { group: self.group, scope: Scope(scope) }
    }
}
