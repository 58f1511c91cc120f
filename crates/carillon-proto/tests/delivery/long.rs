//! Files longer than what a protocol keeps for repairs, and cells that once cost much more than they need to:
//! what is lost early is still repaired when the file has gone far beyond it. `make nightly` adds the cells that
//! take long.

use std::env::var_os;

use carillon_core::Duration;
use carillon_proto::REGISTRY;

use super::network::{Cell, Fault};
use super::{line, run};

/// A protocol, loss, receivers, milliseconds each way, megabytes; and what it may take: seconds, and bytes sent
/// for each useful one.
type Long = (&'static str, f64, usize, u64, usize, u64, f64);

const SHORT_TIER: &[Long] = &[
    ("srm", 0.2, 1, 10, 12, 60, 3.0),
    ("srm", 0.2, 4, 0, 12, 60, 3.0),
    ("mbap", 0.2, 4, 10, 2, 30, 4.0),
    ("bap", 0.2, 4, 10, 2, 90, 12.0),
    ("erramilli-singh", 0.2, 16, 10, 1, 10, 8.0),
    ("erramilli-singh", 0.0, 4, 10, 8, 5, 1.25),
    ("mbap", 0.0, 4, 10, 8, 5, 1.1),
];

const LONG_TIER: &[Long] = &[
    ("srm", 0.2, 4, 10, 60, 60, 4.0),
    ("srm", 0.2, 16, 10, 20, 60, 5.0),
    ("lms", 0.2, 4, 10, 60, 60, 5.0),
    ("pgm", 0.2, 4, 10, 60, 60, 5.0),
    ("mbap", 0.2, 16, 10, 8, 60, 6.0),
    ("bap", 0.2, 16, 10, 2, 300, 48.0),
];

#[test]
fn a_file_longer_than_what_is_kept_for_repairs_is_complete_too() {
    let long = if var_os("CARILLON_RUNS").is_some() { LONG_TIER } else { &[] };
    let mut complaints = Vec::new();
    for &(name, loss, receivers, ms, megabytes, seconds, factor) in SHORT_TIER.iter().chain(long) {
        let protocol = REGISTRY.iter().find(|entry| entry.name == name).expect("it is in the registry");
        let cell = Cell {
            protocol,
            loss,
            receivers,
            delay: Duration::from_millis(ms).max(Duration::from_micros(100)),
            bytes: megabytes * 1_000_000,
            seed: 1,
            settings: Vec::new(),
            rate: None,
            fault: Fault::None,
        };
        let Some(outcome) = run(&cell) else {
            complaints.push(format!("{name}: it panicked"));
            continue;
        };
        let share = outcome.sent as f64 / (outcome.messages * 1472) as f64;
        let complete = outcome.verified == receivers && outcome.over;
        let is_ok = complete && share <= factor && outcome.time <= Duration::from_secs(seconds);
        println!("{}", line(&cell, &outcome, is_ok));
        if !is_ok {
            complaints.push(format!("{}\n{outcome:#?}", line(&cell, &outcome, false)));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}
