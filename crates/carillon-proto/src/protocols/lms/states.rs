//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[States {
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
}];
