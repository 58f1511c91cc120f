//! Description of the protocol for test suites and for its documentation page.

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States};

/// Fields of the entry that suites and the protocol's page read.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
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
    states: &[States {
        of: "router, for a link",
        transitions: &[
            ("[*]", "NoReplier", "SETUP or SPM"),
            ("NoReplier", "Replier", "REFRESH / send it up"),
            ("Replier", "Replier", "REFRESH from it, or cheaper / send it up"),
            ("Replier", "NoReplier", "LEAVE from it / send it up"),
            ("Replier", "NoReplier", "not refreshed for three setup intervals"),
            ("Replier", "Upstream", "SRC_REFRESH, not dearer and nearer"),
            ("Upstream", "Upstream", "SRC_REFRESH"),
            ("Upstream", "NoReplier", "not refreshed for three setup intervals"),
            ("Upstream", "Replier", "cheaper REFRESH"),
        ],
        rare: &[("Upstream", "Replier", "a source offers itself at no cost, and no receiver can offer less")],
    }],
    ..ProtocolEntry::PLAIN
};
