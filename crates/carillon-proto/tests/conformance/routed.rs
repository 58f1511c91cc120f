//! Protocols that recover by request, over random routed networks.

use carillon_testkit::conformance::by_request::{Suite, by_request};

use super::run_test;

#[test]
fn repairs_everything_over_lossy_routes() {
    run_test("routed::repairs_everything_over_lossy_routes", by_request, 20, |entry, promised, seed| {
        Suite { entry, promised }.lossy_routes(seed)
    });
}

#[test]
fn reports_every_loss_at_twenty_percent_loss() {
    run_test("routed::reports_every_loss_at_twenty_percent_loss", by_request, 20, |entry, promised, seed| {
        Suite { entry, promised }.a_fifth(seed)
    });
}

#[test]
fn continues_when_routers_restart() {
    run_test("routed::continues_when_routers_restart", by_request, 20, |entry, promised, seed| {
        Suite { entry, promised }.router_restarts(seed)
    });
}

#[test]
fn continues_when_receivers_crash() {
    run_test("routed::continues_when_receivers_crash", by_request, 20, |entry, promised, seed| {
        Suite { entry, promised }.receivers_die(seed)
    });
}

#[test]
fn continues_when_routes_change() {
    run_test("routed::continues_when_routes_change", by_request, 20, |entry, promised, seed| {
        Suite { entry, promised }.routes_change(seed)
    });
}

#[test]
fn is_the_same_for_the_same_seed() {
    run_test("routed::is_the_same_for_the_same_seed", by_request, 3, |entry, promised, seed| {
        Suite { entry, promised }.same(seed)
    });
}
