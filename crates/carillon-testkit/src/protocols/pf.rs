//! Guarantee, trial and forgeries for tests of PF and PRMP.

use super::{DeliveryGuarantee, ProtocolTests, TrialNetwork};

/// Tests of PF.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "pf",
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
    forge_feedback: Some(crate::formats::pf::forge_feedback),
    ..ProtocolTests::BASE
};

/// Tests of PRMP, which polls along a tree.
pub(super) const TREE_TESTS: ProtocolTests = ProtocolTests {
    name: "prmp",
    trial: |trial| {
        (TESTS.trial)(trial);
        trial.pick("data", &["hop", "root"]);
    },
    ..TESTS
};
