//! Guarantee, trial and forgeries for tests of MTP and MTP-2.

use super::views::ALONE;
use super::{DeliveryGuarantee, ProtocolTests, Trial};

/// Tests of MTP.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "mtp",
    // The transport is abandoned with its master, and any member may be it.
    guarantee: DeliveryGuarantee::Peers { crashes: |_| 0 },
    trial: |trial| {
        draw(trial);
        trial.count("master", 0, 3);
    },
    rare: &[
        ("member of the web", "Member", "Quitting", REPAIRED),
        ("member of the web", "Quitting", "Left", REPAIRED),
        ("member of the web", "Left", "[*]", "a node that joins again is another transport"),
        ("member of the web", "Master", "[*]", "the web lasts as long as its master"),
    ],
    ..ProtocolTests::BASE
};

/// Tests of MTP-2.
pub(super) const MTP2_TESTS: ProtocolTests = ProtocolTests {
    name: "mtp-2",
    // Survives as many crashes as its resilience, as long as a majority lives.
    guarantee: DeliveryGuarantee::Peers { crashes: |nodes| nodes.div_ceil(2) - 1 },
    trial: |trial| {
        draw(trial);
        match trial.crashes {
            0 => trial.count("resilience", 0, trial.nodes.into()),
            crashes => trial.set("resilience", crashes),
        };
        trial.ms("vote_interval", 10, 20).pick("migrate_after", &["0", "0", "3"]);
    },
    rare: &[
        ("member, when views change", "Inviting", "Leading", ALONE),
        ("member, when views change", "Collecting", "Leading", ALONE),
    ],
    ..ProtocolTests::BASE
};

/// Reason for rare transitions: no trial loses a message for good.
const REPAIRED: &str = "a message would have to be lost for longer than the retention";

fn draw(trial: &mut Trial<'_>) {
    // At 30 % loss each way, half of all NAKs are repaired: only a long silence indicates a failure.
    trial.ms("heartbeat", 10, 20).count("retention", 60, 20).count("window", 2, 30);
    trial.count("message_packets", 1, 4).count("queue", 1, 12).count("streams", 1, 3);
    trial.pick("announce", &["heartbeat", "prompt"]).ms("hibernation", 20, 300);
}
