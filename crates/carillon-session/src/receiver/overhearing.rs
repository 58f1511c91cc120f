//! Overhearing: a receiver that a catch-up session will serve keeps data of a session it is not in.
//!
//! A machine of the session's protocol reads the packets that the sender multicasts, in any order, and never sends.
//! The application may keep the resulting messages, and the catch-up session
//! [withholds](carillon_core::Sender::withhold) them.

use carillon_core::{AssociationId, Machine, NodeId, States};

/// Declared states.
pub(super) const STATES: States = States {
    of: "receiver, overhearing",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Chosen", "REFUSE later"),
        ("Chosen", "Listening", "INVITE, which has the settings of the protocol"),
        ("Listening", "Chosen", "REFUSE later of another session"),
        ("Any", "Idle", "WELCOME"),
    ],
};

/// Session that is overheard.
#[derive(Debug)]
pub(super) struct Overhearing {
    pub session: (AssociationId, NodeId),
    /// Machine of the protocol, created by the next invitation, which states the settings.
    pub machine: Option<Box<dyn Machine>>,
    pub longest: usize,
}

impl Overhearing {
    /// Prepares to overhear this session.
    pub fn new(association: AssociationId, sender: NodeId) -> Self {
        Overhearing { session: (association, sender), machine: None, longest: 0 }
    }
}
