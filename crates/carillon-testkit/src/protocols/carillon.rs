//! Guarantee, trial and forgeries for tests of Carillon's own protocol.

use super::{DeliveryGuarantee, ProtocolTests, TrialNetwork};

/// Tests of Carillon's own protocol.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "carillon",
    guarantee: DeliveryGuarantee::Acknowledged { in_order: false, idle_feedback: None },
    trial: |trial| {
        // The silence timeout ends the wait for a member.
        match trial.max_attempts {
            Some(tries) => trial.set("patience", format_args!("{} ms", 200 * tries)),
            None => trial.set("patience", "100000 s"),
        };
        trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
        match trial.network {
            TrialNetwork::Loopback => {
                trial
                    .set("timeout_min", if trial.is_lossy { "20 ms" } else { "500 ms" })
                    .set("timeout_max", "2 s");
            }
            // A frame takes more than a millisecond on this link.
            TrialNetwork::Ethernet => drop(trial.set("timeout_min", "20 ms").set("timeout", "100 ms")),
            _ => drop(trial.pick("timeout", &["50 ms", "5 ms"])),
        }
        // Small values make short runs reach the bounds.
        trial
            .count("window", 1, 40)
            .pick("block", &["1", "4", "16", "2048"])
            .pick("burst", &["1", "8", "32"]);
        trial
            .pick("redundancy", &["0", "0", "0.1", "1"])
            .pick("proactive", &["fixed", "loss"])
            .pick("order", &["source", "source", "arrival"])
            .pick("block_time", &["5 ms", "1 s"])
            .pick("quiet", &["1 ms", "5 ms"]);
        // Half of the runs have the default. A controller may need a rate, and obeys it as a bound otherwise.
        if trial.chance(0.5) {
            trial.pick_any("congestion").set("rate", "20 Mbit/s");
        }
    },
    rare: &[(
        "sender, a block",
        "Filling",
        "Asked",
        "the window is full before the first block is, and nothing goes out for a while",
    )],
    ..ProtocolTests::BASE
};
