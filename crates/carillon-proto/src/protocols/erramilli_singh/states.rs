//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[States {
    of: "source",
    transitions: &[
        ("[*]", "Sanity", "random part of T2"),
        ("Sanity", "Sanity", "T2 / SANITY"),
        ("Sanity", "Status", "message / DATA"),
        ("Status", "Status", "message / DATA, count = 0"),
        ("Status", "Status", "T1, count < K / STATUS, count + 1"),
        ("Status", "Sanity", "count = K"),
    ],
}];
