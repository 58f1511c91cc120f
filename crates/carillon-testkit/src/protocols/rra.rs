//! Guarantee, trial and forgeries for tests of RRA.

use super::retransmission;
use super::{DeliveryGuarantee, ProtocolTests, TrialNetwork};

/// Tests of RRA.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "rra",
    guarantee: DeliveryGuarantee::Acknowledged { in_order: false, idle_feedback: None },
    trial: |trial| {
        retransmission::trial(trial, false);
        trial.count("window", 1, 16);
        // A controller may need a rate, and obeys it as a bound otherwise.
        if trial.chance(0.3) {
            trial.set("flow_control", "path").pick("questions", &["2", "8", "4096"]);
            trial.pick_any("congestion").set("rate", "20 Mbit/s");
            // With several polls, a fixed timeout below the round trip expires before every answer, without end.
            if trial.network != TrialNetwork::Loopback {
                trial.set("timeout_method", "adaptive");
            }
        }
    },
    ..ProtocolTests::BASE
};
