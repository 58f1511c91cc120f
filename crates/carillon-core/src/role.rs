//! The roles of machines.

use std::fmt;

/// What a machine is in its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Offers messages to the group.
    Sender,
    /// Delivers messages of the group.
    Receiver,
    /// Both: any of its members may offer messages.
    Peer,
    /// Stands on the path between them and helps: a router of the protocol.
    Relay,
    /// Is addressed by others and helps: it keeps messages for them and speaks for them, and neither offers nor delivers
    /// any. A receiver that also helps has the role of a receiver.
    Helper,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Sender => "sender",
            Role::Receiver => "receiver",
            Role::Peer => "peer",
            Role::Relay => "relay",
            Role::Helper => "helper",
        })
    }
}
