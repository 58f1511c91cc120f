//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[States {
    of: "sender, for one receiver",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Asking", "repair, new message or POLL names a receiver / start timer"),
        ("Asking", "Idle", "ACK of that receiver"),
        ("Asking", "Asking", "timer, count <= limit / ask again, count + 1"),
        ("Asking", "Idle", "timer, count > limit / expel it, or skip its messages"),
    ],
}];
