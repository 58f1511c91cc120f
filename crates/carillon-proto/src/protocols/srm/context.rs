//! Where the parts of a member act, and its timers.

use carillon_core::{Dest, Scope};

/// Where the parts of a member act.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// The timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Send a session message.
    Session,
    /// The next request may go out.
    RequestPace,
    /// The next message or repair may go out.
    SendPace,
}

/// Seconds in whole microseconds.
pub(super) fn micros(seconds: f64) -> u32 {
    (seconds * 1e6) as u32
}

impl Context {
    /// A datagram that goes so many hops far.
    pub(super) fn within(&self, scope: u8) -> Dest {
        Dest::Group { group: self.group, scope: Scope(scope) }
    }
}
