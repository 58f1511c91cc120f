//! LMS: everything the source still holds is repaired.

use crate::Promises;

pub const PROMISES: Promises = Promises {
    settings: |group, rng| {
        let mut group = group.set("setup_ivl", ["1 s", "5 s"][rng.below(2) as usize]);
        if rng.chance(0.3) {
            group = group.set("replier_choice", "adaptive").set("loss_smpl_ivl", "10");
        }
        if rng.chance(0.3) {
            group = group.set("src_refresh", "true");
        }
        if rng.chance(0.3) {
            group = group.set("replier_buffer", "4");
        }
        group
    },
    // A REFRESH of each receiver for a SETUP, and for its losses a few requests, each sent on by a few
    // routers.
    control_per_node_and_second: 3.0,
};
