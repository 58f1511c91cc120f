//! Guarantee, trial and forgeries for tests of Chang and Maxemchuk's protocol.

use super::views::{ALONE, CRASH};
use super::{DeliveryGuarantee, ProtocolTests, TrialNetwork};

/// Tests of Chang and Maxemchuk's protocol.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "chang-maxemchuk",
    // The protocol survives L failures while a majority is alive.
    guarantee: DeliveryGuarantee::Peers { crashes: |nodes| (nodes - 1) / 2 },
    trial: |trial| {
        let resilience = trial.crashes.into();
        let max_resilience = u64::from(trial.nodes - trial.crashes);
        trial
            .count("resilience", resilience, max_resilience)
            .count("transfer_every", 1, 3)
            .count("window", 1, 8);
        trial
            .set("message_timeout", "40 ms")
            .set("transfer_timeout", "30 ms")
            .set("request_timeout", "15 ms");
        trial.ms("confirm_timeout", 1, 15).ms("idle_timeout", 20, 100);
        // Heavy loss without crashes needs many retries, so that no live site is expelled.
        let patient = trial.crashes == 0 || trial.network == TrialNetwork::Loopback;
        trial.set("retries", if patient { 40 } else { 8 });
    },
    rare: &[
        ("member, when views change", "Inviting", "Leading", ALONE),
        ("member, when views change", "Collecting", "Leading", ALONE),
        ("member, when views change", "Collecting", "Waiting", CRASH),
        ("member, when views change", "Starting", "Waiting", CRASH),
        ("member, when views change", "Accepting", "Waiting", CRASH),
        ("member, when views change", "Ready", "Waiting", CRASH),
    ],
    ..ProtocolTests::BASE
};
