//! Packets with the ACK flag that the sender owes the receivers.

use std::collections::BTreeSet;

use super::repairs::Target;

/// Last flagged message, and the flagged packets that are due.
#[derive(Debug, Default)]
pub(super) struct Poll {
    /// Last message that carried the flag.
    pub message: Option<u64>,
    /// Number after the last message when a flagged packet last went to the group.
    pub covers: Option<u64>,
    /// Destinations of the flagged packets to send again.
    pub due: BTreeSet<Target>,
    /// True if an IDLE to the group is due that asks for confirmation.
    pub confirm: bool,
}

impl Poll {
    /// Records a flagged packet to the group, after the messages before `sent`.
    pub fn on_asked(&mut self, sent: u64, message: Option<u64>) {
        self.message = message;
        self.covers = Some(sent);
    }
}
