//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(crate) const STATES: &[States] = &[States {
    of: "sender, for a message",
    transitions: &[
        ("[*]", "Waiting", "message offered"),
        ("Waiting", "NoNack", "effective window above 0 / DATA or DATAPOLL to all"),
        ("NoNack", "Collection", "RESP lacks it, and others have not told"),
        ("NoNack", "Retransmitted", "RESP lacks it, enough to multicast it or all have told / DATA"),
        (
            "Collection",
            "Retransmitted",
            "MTR x NC children lack it / DATA to all; all have told or are silent / DATA to each that lacks it",
        ),
        ("NoNack", "[*]", "all children have it"),
        ("Collection", "[*]", "the children without it have left"),
        ("Retransmitted", "[*]", "all children have it"),
        ("Waiting", "[*]", "no child is left"),
    ],
}];
