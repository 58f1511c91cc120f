//! Guarantee, trial and forgeries for tests of RMTP.

use std::time::Duration;

use super::{DeliveryGuarantee, ProtocolTests, TrialNetwork};

/// Tests of RMTP.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "rmtp",
    // Receivers send periodic acknowledgments even when idle.
    guarantee: DeliveryGuarantee::Acknowledged {
        in_order: false,
        idle_feedback: Some(Duration::from_millis(10)),
    },
    trial: |trial| {
        trial.set("ack_limit", trial.max_attempts.map_or(200, |tries| 2 * tries + 4));
        trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
        match trial.network {
            // A frame takes more than a millisecond: short intervals would fill the medium with repeated repairs.
            TrialNetwork::Ethernet => trial.set("t_ack", "200 ms").set("t_retx", "100 ms"),
            TrialNetwork::Loopback => trial.set("t_ack", "40 ms"),
            _ => trial.pick("t_ack", &["20 ms", "50 ms"]).pick("t_retx", &["5 ms", "30 ms"]),
        };
        trial.count("window", 1, 32).pick("cache_size", &["8", "64", "1024"]);
        trial.count("mcast_thresh", 0, 4).count("txnow_burst", 0, 8);
        if trial.chance(0.3) {
            trial.set("k_max", 8);
        }
        if trial.chance(0.3) {
            trial.set("ap_choice", "nearest").set("t_sap", "100 ms");
        }
    },
    forge_feedback: Some(crate::formats::rmtp::forge_feedback),
    ..ProtocolTests::BASE
};
