//! Roles of machines.

use std::fmt;

/// Role of a machine in its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Offers messages to the group.
    Sender,
    /// Delivers messages of the group.
    Receiver,
    /// Sender and receiver in one: any peer may offer messages.
    Peer,
    /// Stands on the path between members and assists them: a router of the protocol.
    Relay,
    /// Keeps messages for its children, repairs and aggregates feedback on their behalf, and neither offers nor
    /// delivers. A receiver that also helps has the role of a receiver.
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
