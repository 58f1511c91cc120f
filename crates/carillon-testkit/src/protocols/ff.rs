//! Guarantee, trial and forgeries for tests of FF.

use super::{DeliveryGuarantee, ProtocolTests, TrialNetwork};

/// Tests of FF.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "ff",
    forge_feedback: Some(crate::formats::ff::forge_feedback),
    guarantee: DeliveryGuarantee::Acknowledged { in_order: false, idle_feedback: None },
    trial: |trial| {
        trial.set("retransmission_limit", trial.max_attempts.unwrap_or(1_000_000));
        trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
        trial.count("window", 1, 40);
        match trial.network {
            TrialNetwork::Loopback => trial.set("rto_min", if trial.is_lossy { "40 ms" } else { "2 s" }),
            // A frame takes more than a millisecond, and so do its acknowledgments.
            TrialNetwork::Ethernet => trial.set("ipg", "10 ms").set("rto_min", "50 ms").set("rtt", "50 ms"),
            _ if trial.max_attempts.is_some() => trial.set("rto_min", "50 ms"),
            _ => trial.pick("ipg", &["1 ms", "100 us"]).pick("rtt", &["20 ms", "1 ms"]),
        };
    },
    rare: &[(
        "sender, for a message",
        "Waiting",
        "[*]",
        "the last child has to be given up while messages wait for room",
    )],
    ..ProtocolTests::BASE
};
