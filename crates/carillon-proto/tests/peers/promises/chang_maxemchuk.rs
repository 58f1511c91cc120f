//! Chang and Maxemchuk: survives L failures if a majority lives.

use carillon_core::Rng;
use carillon_testkit::Group;

use crate::Promises;

pub const PROMISES: Promises = Promises { settings, crashes: |nodes| (nodes - 1) / 2 };

fn settings(group: Group, nodes: u32, crashes: u32, rng: &mut Rng) -> Group {
    let resilience = u64::from(crashes) + rng.below(u64::from(nodes - crashes));
    let group = group
        .set("resilience", &resilience.to_string())
        .set("transfer_every", &(1 + rng.below(3)).to_string())
        .set("window", &(1 + rng.below(8)).to_string())
        .set("message_timeout", "40 ms")
        .set("transfer_timeout", "30 ms")
        .set("request_timeout", "15 ms")
        .set("confirm_timeout", &format!("{} ms", 1 + rng.below(15)))
        .set("idle_timeout", &format!("{} ms", 20 + rng.below(100)));
    // Without crashes and with much loss, patience: nobody who lives is to be given up.
    group.set("retries", if crashes == 0 { "40" } else { "8" })
}
