//! Protocols that have plain sessions only: they deliver everything without loss, and the same for the same seed.

use carillon_testkit::Exercise;
use carillon_testkit::conformance::best_effort::{best_effort, equal, lossless, slow_port};

use super::{Body, PLAIN_ONLY, run_entries};

fn run(test: &'static str, runs: u64, body: Body<()>) {
    let floor = Exercise { datagrams: 10, deliveries: 5, timers: 0 };
    run_entries(test, best_effort, runs, floor, body, PLAIN_ONLY);
}

#[test]
fn delivers_everything_without_loss() {
    run("plain_only::delivers_everything_without_loss", 20, lossless);
}

#[test]
fn delivers_everything_through_a_slow_port() {
    run("plain_only::delivers_everything_through_a_slow_port", 10, slow_port);
}

#[test]
fn is_the_same_for_the_same_seed() {
    run("plain_only::is_the_same_for_the_same_seed", 3, equal);
}
