//! Where the parts of a site act, and its timers.

use carillon_wire::chang_maxemchuk::{Ack, Body, Packet};

/// Where the parts of a site act.
pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// The timers of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The token site has had nothing to acknowledge for a while: pass the token on, or confirm.
    Confirm,
    /// The group is idle: send the token around.
    Idle,
    /// The next site has not shown that it accepted the token: repeat the transfer.
    Transfer,
    /// What was asked for has not come: ask again.
    Request,
    /// What is fetched for a new list has not come: ask again.
    Fetch,
    /// The token has not been heard of for long, and ought to move: ask where it is.
    Watch,
    /// This site has shown that it is behind the others not long ago.
    Behind,
    /// This message of the site has not been acknowledged: send it again.
    Message(u64),
}

impl Context {
    /// Appends a packet of this view, or ballot.
    pub(super) fn emit(&self, view: u32, body: Body<'_>, buf: &mut Vec<u8>) {
        Packet { view, body }.emit(self.association, buf);
    }

    /// An acknowledgment goes out.
    pub(super) fn record_ack(&mut self, ack: Ack) {
        match ack.message {
            Some(id) => self.control("ack", id.number),
            None => self.control("transfer", ack.timestamp),
        }
    }
}
