//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State diagram of a block at the source.
pub(super) const STATES: &[States] = &[States {
    of: "sender, for a block",
    transitions: &[
        ("[*]", "Waiting", "block offered"),
        ("Waiting", "Sent", "every child has its window open and room / DATA"),
        ("Sent", "Repeated", "a status of r_f RTD later does not have it / DATA"),
        ("Sent", "[*]", "all have it, as their statuses say"),
        ("Repeated", "[*]", "all have it, or the others are expelled"),
        ("Waiting", "[*]", "no child is left"),
    ],
}];
