//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[
    States {
        of: "sender",
        transitions: &[
            ("[*]", "Open", ""),
            ("Open", "Finishing", "no further files"),
            ("Finishing", "Closing", "all passes are done / announce the end"),
            ("Closing", "Closed", "close_packets announcements"),
            ("Finishing", "Closed", "all passes are done / announce the end once"),
        ],
    },
    States {
        of: "receiver",
        transitions: &[
            ("[*]", "Open", ""),
            ("Open", "Closing", "announced end, and files are missing"),
            ("Open", "Closed", "announced end, and nothing is missing"),
            ("Closing", "Closed", "close_wait, or the last file"),
        ],
    },
];
