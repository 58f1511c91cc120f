//! LMS: everything the source still holds is repaired.

use crate::Promises;

pub const PROMISES: Promises = Promises {
    settings: |group, rng| {
        // Where a way of nine links loses a fifth on each, one request in fifty is answered.
        let mut group = group.set("retry_max", "100 ms");
        group = group.set("setup_ivl", ["1 s", "3 s"][rng.below(2) as usize]);
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
    repeated_by_routers: None,
};
