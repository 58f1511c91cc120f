//! State machines of the protocol, which its page draws.

use carillon_core::States;

use crate::blocks::reformation::VIEWS;

/// State machines.
pub(super) const STATES: &[States] = &[WEB, PRODUCER];

/// State machines of MTP-2.
pub(super) const MTP2_STATES: &[States] = &[VIEWS, PRODUCER];

/// States of a node in the web.
const WEB: States = States {
    of: "member of the web",
    transitions: &[
        ("[*]", "Master", "takes the web's address"),
        ("[*]", "Joining", "join request"),
        ("Joining", "Member", "join confirm"),
        ("Joining", "Left", "join deny, or no answer"),
        ("Member", "Quitting", "a message is lost / quit request"),
        ("Member", "Left", "banished, or the master failed"),
        ("Quitting", "Left", "quit confirm, or no answer"),
        ("Left", "[*]", ""),
        ("Master", "[*]", ""),
    ],
};

/// States of a producer.
const PRODUCER: States = States {
    of: "producer",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Requesting", "message waits / token request"),
        ("Idle", "Sending", "master, message waits / its own token"),
        ("Requesting", "Sending", "token confirm"),
        ("Requesting", "Idle", "view change, or the web is left"),
        ("Sending", "Idle", "eom"),
    ],
};
