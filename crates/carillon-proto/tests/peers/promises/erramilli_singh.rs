//! Erramilli and Singh promise reliability if every message can be repaired for as long as anyone
//! may miss it: the back window holds all of them here. Crashed nodes are nobody's concern.

use carillon_core::Rng;
use carillon_testkit::Group;

use crate::Promises;

pub const PROMISES: Promises = Promises { settings, crashes: |nodes| nodes - 1 };

fn settings(group: Group, _nodes: u32, _crashes: u32, rng: &mut Rng) -> Group {
    let ms = |from: u64, span: u64, rng: &mut Rng| format!("{} ms", from + rng.below(span));
    let mut group = group
        .set("b", &(20 + rng.below(100)).to_string())
        .set("k", &rng.below(8).to_string())
        .set("t1", &ms(5, 16, rng))
        .set("t2", &ms(100, 201, rng))
        .set("t3", &ms(1, 30, rng))
        .set("repeat", ["requested", "go-back"][rng.below(2) as usize])
        .set("retransmission", ["unicast", "multicast"][rng.below(2) as usize])
        .set("buffer", &(1 + rng.below(40)).to_string())
        .set("choke_at", &format!("{} %", 25 + rng.below(76)))
        .set("send_interval", ["0 bit", "1 ms", "15000 bit"][rng.below(3) as usize])
        // With three packets in ten lost, a round of NAK and repair fails two times in three, and
        // silence is no sign of failure until it is very long.
        .set("finish_intervals", "30")
        .set("failure_intervals", "20");
    if rng.chance(0.5) {
        group = group.set("nak_timer", &ms(4, 20, rng));
    }
    if rng.chance(0.5) {
        // All messages of a run, twice: more than the numbers need to be told apart.
        group = group.set("n", &(241 + rng.below(1000)).to_string());
    }
    group
}
