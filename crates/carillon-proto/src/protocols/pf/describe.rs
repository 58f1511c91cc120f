//! Description of the protocol for test suites and for its documentation page.

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States, TrialNetwork};

/// Fields of the entry that suites and the protocol's page read.
pub(crate) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    guarantee: DeliveryGuarantee::Acknowledged { in_order: false, idle_feedback: None },
    // The trial picks settings with which a parent learns the state of its children in time.
    trial: |trial| {
        trial.set("absent_polls", trial.max_attempts.unwrap_or(1_000_000));
        trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
        trial.count("window", 1, 40).pick("mtr", &["0", "0.2", "1"]).pick("repair_budget", &["0", "9"]);
        trial.pick("congestion", &["none", "window"]);
        trial.pick("epoch", &["2 ms", "10 ms"]).pick("response_rate", &["600", "1500", "20000"]);
        match trial.network {
            // A machine may pause: its silence must not look like a failure.
            TrialNetwork::Loopback => trial.set("rto_min", if trial.is_lossy { "40 ms" } else { "2 s" }),
            // A frame takes more than a millisecond.
            TrialNetwork::Ethernet => trial.set("ipg", "4 ms").set("rto_min", "20 ms").set("rtt", "50 ms"),
            // Several polls are in flight at a time, so that one loss is unlikely to hit all of them.
            _ if trial.max_attempts.is_some() => trial.set("ipg", "1 ms").set("rto_min", "50 ms"),
            _ => trial.pick("ipg", &["1 ms", "100 us"]).pick("rtt", &["20 ms", "1 ms"]),
        };
    },
    states: &[States {
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
        rare: &[],
    }],
    ..ProtocolEntry::PLAIN
};
