//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[
    States {
        of: "sender, repair cycle",
        transitions: &[
            ("[*]", "Normal", ""),
            ("Normal", "Aggregating", "NACK"),
            ("Aggregating", "HoldOff", "K + 1 round-trip times / begin repairs"),
            ("HoldOff", "Normal", "a round-trip time"),
        ],
    },
    States {
        of: "receiver, requests",
        transitions: &[
            ("[*]", "Idle", ""),
            (
                "Idle",
                "BackOff",
                "symbols are missing at the end of a block, a FLUSH or in silence / random wait",
            ),
            ("BackOff", "HoldOff", "end of the wait / NACK, unless others requested as much"),
            ("BackOff", "Idle", "nothing is missing any more"),
            ("Idle", "HoldOff", "unicast NACKs: the wait is left to others"),
            ("HoldOff", "Idle", "K + 2 round-trip times"),
            ("HoldOff", "BackOff", "symbols are still missing / random wait"),
            ("HoldOff", "HoldOff", "symbols are still missing, and the wait is left to others"),
        ],
    },
];
