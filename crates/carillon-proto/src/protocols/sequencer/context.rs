//! Machine context and timers of a member.

use carillon_core::Transmit;
use carillon_wire::sequencer::{Body, Packet};

use crate::blocks::reformation::To;

/// Machine context with the member's timers.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// Timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Timeout of packets that this member awaits from the sequencer: ask for it.
    Wait,
    /// Timeout of a RETRANS: ask again.
    Retrans,
    /// At the sequencer: members are not known to be complete.
    Sync,
    /// Timeout of a FETCH between views.
    Fetch,
}

impl Context {
    /// Emits a packet of this view, or ballot.
    pub(super) fn emit(&self, view: u32, body: Body<'_>, buf: &mut Vec<u8>) {
        Packet::Normal { view, body }.emit(self.association, buf);
    }

    /// Emits a control packet and records it.
    pub(super) fn control_to(
        &mut self,
        to: To,
        view: u32,
        body: Body<'_>,
        number: u64,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        self.control(body.name(), number);
        self.emit(view, body, buf);
        self.transmit(to)
    }
}
