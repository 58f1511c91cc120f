//! The sequencer protocol promises to survive as many crashes as its resilience while a majority
//! lives.

use carillon_core::Rng;
use carillon_testkit::Group;

use crate::Promises;

pub const PROMISES: Promises = Promises { settings, crashes: |nodes| nodes.div_ceil(2) - 1 };

fn settings(group: Group, nodes: u32, crashes: u32, rng: &mut Rng) -> Group {
    let ms = |from: u64, span: u64, rng: &mut Rng| format!("{} ms", from + rng.below(span));
    let resilience = crashes + rng.below(u64::from(nodes - crashes)) as u32;
    let resilience = if crashes == 0 { resilience } else { crashes };
    group
        .set("resilience", &resilience.to_string())
        .set("method", ["auto", "pb", "bb"][rng.below(3) as usize])
        .set("large", &rng.below(100).to_string())
        .set("window", &(1 + rng.below(8)).to_string())
        .set("history", &(4 + rng.below(60)).to_string())
        .set("request_timeout", &ms(10, 30, rng))
        .set("retrans_interval", &ms(10, 20, rng))
        .set("sync_interval", &ms(10, 60, rng))
        .set("alive_interval", ["0 ms", "200 ms"][rng.below(2) as usize])
        .set("vote_interval", &ms(10, 20, rng))
        // With three packets in ten lost in either direction, half of all questions are answered:
        // silence is no sign of failure until it is very long.
        .set("tries", &(40 + rng.below(20)).to_string())
}
