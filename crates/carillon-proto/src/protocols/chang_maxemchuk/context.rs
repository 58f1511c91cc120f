//! Context shared by the parts of a site, and its timers.

use carillon_wire::chang_maxemchuk::{Ack, Body, Packet};

/// Time, timers, events and group of a site.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// The timers of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Token site without anything to acknowledge: pass the token on, or confirm.
    Confirm,
    /// Idle group: send the token around.
    Idle,
    /// Transfer not accepted in time: repeat it.
    Transfer,
    /// Request not answered in time: repeat it.
    Request,
    /// Fetch of an entry for a new list not answered in time: repeat it.
    Fetch,
    /// Token silent although it should move: ask where it is.
    Watch,
    /// Hold-off between two announcements of a site that is behind the others.
    Behind,
    /// Message of this site not acknowledged in time: send it again.
    Message(u64),
}

impl Context {
    /// Appends a packet of a view, or of a ballot, to `buf`.
    pub(super) fn emit(&self, view: u32, body: Body<'_>, buf: &mut Vec<u8>) {
        Packet { view, body }.emit(self.association, buf);
    }

    /// Records that an acknowledgment is sent.
    pub(super) fn record_ack(&mut self, ack: Ack) {
        match ack.message {
            Some(id) => self.control("ack", id.number),
            None => self.control("transfer", ack.timestamp),
        }
    }
}
