//! Guarantee, trial and forgeries for tests of LMS.

use super::{DeliveryGuarantee, ProtocolTests};

/// Tests of LMS.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "lms",
    // The source repairs every message that it holds. Each receiver sends a REFRESH per SETUP, and a few requests per
    // loss, each forwarded by a few routers.
    guarantee: DeliveryGuarantee::ByRequest { control_per_node_and_second: 3.0, repeated_by_routers: None },
    trial: |trial| {
        // On a path of nine links with 20 % loss each, about one request in fifty is answered.
        trial.set("retry_max", "100 ms").pick("setup_ivl", &["1 s", "3 s"]);
        if trial.chance(0.3) {
            trial.pick("replier_choice", &["adaptive", "triggered"]).set("loss_smpl_ivl", 10);
            trial.pick("refresh_limit", &["0", "3"]);
        }
        if trial.chance(0.3) {
            trial.set("src_refresh", true);
        }
        if trial.chance(0.3) {
            trial.set("replier_buffer", 4);
        }
    },
    rare: &[(
        "router, for a link",
        "Upstream",
        "Replier",
        "a source offers itself at no cost, and no receiver can offer less",
    )],
    ..ProtocolTests::BASE
};
