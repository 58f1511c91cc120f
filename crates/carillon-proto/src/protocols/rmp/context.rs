//! Context shared by the parts of a member, and its timers.

use carillon_wire::rmp::{Body, Packet};

/// Time, timers, events and group of a member.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// The timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Token site without messages: send a null acknowledgment for resilience, or confirm.
    Confirm,
    /// Idle group: send a null acknowledgment.
    Idle,
    /// Token not accepted in time: repeat the acknowledgment.
    Pass,
    /// Random delay before a negative acknowledgment.
    Nack,
    /// Negative acknowledgment not answered in time: repeat it.
    Request,
    /// Fetch of a slot for a new view not answered in time: repeat it.
    Fetch,
    /// Token silent although it should move: ask where it is.
    Watch,
    /// Hold-off between two announcements of a member that is behind the others.
    Behind,
    /// Expelled member still in the list: form a view without it.
    Expelled,
    /// Message of this member not ordered in time: send it again.
    Data(u64),
}

impl Context {
    /// Appends a packet of a view, or of a ballot, to `buf`.
    pub(super) fn emit(&self, view: u32, body: Body<'_>, buf: &mut Vec<u8>) {
        Packet { view, body }.emit(self.association, buf);
    }
}
