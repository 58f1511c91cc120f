//! Guarantee, trial and forgeries for tests of SRM.

use super::{DeliveryGuarantee, ProtocolTests};

/// Tests of SRM.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "srm",
    // Members repair everything still in a buffer. Requests repeat without end, with a back-off of up to nine times
    // the first wait in a trial, which is at most four times the initial distance.
    guarantee: DeliveryGuarantee::ByRequest { control_per_node_and_second: 20.0, repeated_by_routers: None },
    trial: |trial| {
        trial.pick("timers", &["fixed", "log", "adaptive", "deterministic", "probabilistic"]);
        trial.ms("session_ivl", 100, 900).ms("initial_distance", 20, 180).count(
            "request_backoff_limit",
            0,
            3,
        );
        trial.count("buffer", 30, 100).pick("local_recovery", &["off", "one-step", "two-step"]);
        trial.count("local_scope", 1, 6);
        if trial.chance(0.3) {
            trial.set("send_ivl", "1 ms").set("clock_tick", "1 ms");
        }
    },
    ..ProtocolTests::BASE
};
