//! SRM repairs whatever is still in a buffer: here all messages are. It asks without end, but less and
//! less often, to nine times the first wait here, which is at most four times a fifth of a second.

use carillon_core::Rng;
use carillon_testkit::Group;

use crate::Promises;

pub const PROMISES: Promises =
    Promises { settings, control_per_node_and_second: 20.0, repeated_by_routers: None };

fn settings(group: Group, rng: &mut Rng) -> Group {
    let mut group = group
        .set("timers", ["fixed", "log", "adaptive", "deterministic", "probabilistic"][rng.below(5) as usize])
        .set("session_ivl", &format!("{} ms", 100 + rng.below(900)))
        .set("initial_distance", &format!("{} ms", 20 + rng.below(180)))
        .set("request_backoff_limit", &rng.below(3).to_string())
        .set("buffer", &(30 + rng.below(100)).to_string())
        .set("local_recovery", ["off", "one-step", "two-step"][rng.below(3) as usize])
        .set("local_scope", &(1 + rng.below(6)).to_string());
    if rng.chance(0.3) {
        group = group.set("send_ivl", "1 ms").set("clock_tick", "1 ms");
    }
    group
}
