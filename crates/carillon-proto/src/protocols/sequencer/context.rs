//! Where the parts of a member act, and its timers.

use carillon_core::Transmit;
use carillon_wire::sequencer::{Body, Packet};

use crate::blocks::reformation::To;

/// Where the parts of a member act.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// The timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The sequencer has not done what this member waits for: ask.
    Wait,
    /// What was asked for has not come: ask again.
    Retrans,
    /// The sequencer: members are not known to have everything.
    Sync,
    /// Between views: what was asked for has not come.
    Fetch,
}

impl Context {
    /// Appends a packet of this view, or ballot.
    pub(super) fn emit(&self, view: u32, body: Body<'_>, buf: &mut Vec<u8>) {
        Packet::Normal { view, body }.emit(self.association, buf);
    }

    /// A packet without a message.
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
