//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[States {
    of: "sender, for a message",
    transitions: &[
        ("[*]", "Waiting", "message offered"),
        ("Waiting", "Sent", "window open / DATA to all"),
        ("Sent", "Repeated", "timer / DATA to all"),
        ("Repeated", "Repeated", "timer / DATA to all"),
        ("Sent", "[*]", "all receivers have acknowledged it"),
        ("Repeated", "[*]", "all receivers have acknowledged it, or are given up"),
        ("Waiting", "[*]", "no receiver is left"),
    ],
}];
