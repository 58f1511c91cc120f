//! Protocols with one sender and acknowledged delivery.

use carillon_testkit::Exercise;
use carillon_testkit::conformance::acknowledged::{
    acknowledged, crashes, equal, lossy_ethernet, lossy_links, silence, unordered_links,
};

use super::{run_test, run_test_with_floor};

#[test]
fn delivers_everything_over_lossy_links() {
    run_test("acknowledged::delivers_everything_over_lossy_links", acknowledged, 25, lossy_links);
}

#[test]
fn delivers_everything_over_a_lossy_ethernet() {
    run_test("acknowledged::delivers_everything_over_a_lossy_ethernet", acknowledged, 12, lossy_ethernet);
}

#[test]
fn ends_over_links_that_reorder_and_duplicate() {
    run_test("acknowledged::ends_over_links_that_reorder_and_duplicate", acknowledged, 15, unordered_links);
}

#[test]
fn ends_when_nothing_arrives() {
    // Nothing arrives in one direction: only timers are left.
    let floor = Exercise { datagrams: 0, deliveries: 0, timers: 1 };
    run_test_with_floor("acknowledged::ends_when_nothing_arrives", acknowledged, 10, floor, silence);
}

#[test]
fn continues_when_receivers_crash_and_restart() {
    run_test("acknowledged::continues_when_receivers_crash_and_restart", acknowledged, 15, crashes);
}

#[test]
fn is_the_same_for_the_same_seed() {
    run_test("acknowledged::is_the_same_for_the_same_seed", acknowledged, 3, equal);
}
