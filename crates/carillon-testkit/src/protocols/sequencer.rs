//! Guarantee, trial and forgeries for tests of the sequencer protocol.

use carillon_core::ANY_STATE;

use super::views::{ALONE, CRASH, LIVE};
use super::{DeliveryGuarantee, ProtocolTests};

/// Tests of the sequencer protocol.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "sequencer",
    // Survives as many crashes as its resilience, as long as a majority lives.
    guarantee: DeliveryGuarantee::Peers { crashes: |nodes| nodes.div_ceil(2) - 1 },
    trial: |trial| {
        match trial.crashes {
            0 => trial.count("resilience", 0, trial.nodes.into()),
            crashes => trial.set("resilience", crashes),
        };
        trial.pick("method", &["auto", "pb", "bb"]).count("large", 0, 100).count("window", 1, 8);
        trial.count("history", 4, 60).ms("request_timeout", 10, 30).ms("retrans_interval", 10, 20);
        trial.ms("sync_interval", 10, 60).pick("alive_interval", &["0 ms", "200 ms"]).ms(
            "vote_interval",
            10,
            20,
        );
        // At 30 % loss each way, half of all polls are answered: only a long silence indicates a crash.
        trial.count("tries", 40, 20);
    },
    rare: &[
        ("member, when views change", "Inviting", "Leading", ALONE),
        ("member, when views change", "Collecting", "Leading", ALONE),
        ("member, when views change", "Collecting", "Waiting", CRASH),
        ("member, when views change", "Accepting", "Waiting", CRASH),
        ("member, when views change", "Ready", "Waiting", CRASH),
        ("member, when views change", ANY_STATE, "Outside", LIVE),
    ],
    ..ProtocolTests::BASE
};
