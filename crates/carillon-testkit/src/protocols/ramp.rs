//! Guarantee, trial and forgeries for tests of RAMP.

use std::time::Duration;

use super::{DeliveryGuarantee, ProtocolTests, TrialNetwork};

/// Tests of RAMP.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "ramp",
    // In idle mode a receiver that has not seen the end of the stream goes on sending Idles.
    guarantee: DeliveryGuarantee::Acknowledged {
        in_order: false,
        idle_feedback: Some(Duration::from_millis(20)),
    },
    trial: |trial| {
        trial.set("response_limit", trial.max_attempts.unwrap_or(1_000_000));
        trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
        trial.pick("mode", &["burst", "idle", "adaptive"]).pick("idle_ack", &["true", "false"]);
        trial.pick("timeouts", &["measured", "fixed"]).ms("timeout_min", 5, 20);
        trial.count("window", 1, 40).count("mcast_thresh", 0, 4).count("burst_packets", 1, 20);
        match trial.network {
            // A frame takes more than a millisecond: short intervals would fill the medium with repeated packets.
            TrialNetwork::Ethernet => {
                trial.set("response_timeout", "400 ms").set("resend_timeout", "200 ms");
                trial.set("idle_interval", "500 ms").set("receiver_idle_interval", "500 ms")
            }
            TrialNetwork::Loopback => {
                let timeout = if trial.is_lossy { "40 ms" } else { "2 s" };
                trial.set("response_timeout", timeout)
            }
            _ => trial.pick("resend_timeout", &["20 ms", "50 ms"]).pick("hold", &["0 ms", "10 ms"]),
        };
        if trial.chance(0.3) {
            trial.set("hold", "0 ms").set("hold_max", "0 ms").set("mcast_thresh", 1_000_000);
        }
    },
    forge_feedback: Some(crate::formats::ramp::forge_feedback),
    rare: &[
        (
            "sender, for the channel to one receiver",
            "Open",
            "[*]",
            "receivers of the suite send Idles until they crash, and a flagged packet follows",
        ),
        (
            "receiver, for its channel",
            "Closed",
            "Open",
            "a sender of the suite that is silent for so long has crashed",
        ),
    ],
    ..ProtocolTests::BASE
};
