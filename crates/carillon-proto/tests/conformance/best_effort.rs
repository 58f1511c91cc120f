//! Best-effort protocols: they deliver nothing wrong, and everything without loss.

use carillon_testkit::conformance::best_effort::{best_effort, equal, lossless, slow_port, unordered_links};

use super::run_test;

#[test]
fn delivers_everything_without_loss() {
    run_test("best_effort::delivers_everything_without_loss", best_effort, 20, lossless);
}

#[test]
fn delivers_everything_through_a_slow_port() {
    run_test("best_effort::delivers_everything_through_a_slow_port", best_effort, 20, slow_port);
}

#[test]
fn delivers_nothing_wrong_over_unordered_links() {
    run_test("best_effort::delivers_nothing_wrong_over_unordered_links", best_effort, 30, unordered_links);
}

#[test]
fn is_the_same_for_the_same_seed() {
    run_test("best_effort::is_the_same_for_the_same_seed", best_effort, 3, equal);
}
