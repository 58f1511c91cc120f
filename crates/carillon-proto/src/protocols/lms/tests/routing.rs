//! The router, node 9: the source behind port 0, others behind ports 1 to 3.

use carillon_core::{DropReason, PortId, Role};
use carillon_wire::lms::{Data, Offer, Packet, Request};

use super::fixture::{Fixture, data, refresh, request, setup, spm, turned};

fn router(settings: &[(&str, &str)]) -> Fixture {
    Fixture::new(Role::Relay, 9, settings)
}

/// Router below router 8 with replier node 1 behind port 1.
fn with_replier(settings: &[(&str, &str)]) -> Fixture {
    let mut fixture = router(settings);
    fixture.pass(0, 0, setup(Some(8)));
    fixture.receive(1, 1, refresh(0, 0));
    assert_eq!(fixture.sent(), ["lms refresh cost 0 hops 1 to n8"]);
    fixture
}

#[test]
fn setup_and_spm_name_the_last_router() {
    let mut fixture = router(&[]);
    assert_eq!(fixture.pass(0, 0, setup(None)), "lms setup next 0 oldest 0 time 0 ns previous 10.0.0.10");
    assert_eq!(fixture.pass(0, 0, setup(Some(8))), "lms setup next 0 oldest 0 time 0 ns previous 10.0.0.10");
    assert_eq!(fixture.pass(0, 0, spm(3, 1)), "lms spm next 3 oldest 1 previous 10.0.0.10");
    assert_eq!(fixture.pass(0, 0, data(3)), "Forward");
    assert_eq!(fixture.pass(0, 0, Packet::Req(request(1, 1))), "Forward");
}

#[test]
fn of_repliers_as_good_the_nearest_in_time_stays() {
    let mut fixture = router(&[]);
    fixture.pass(0, 0, setup(Some(8)));
    fixture.receive(1, 1, refresh(2, 0));
    fixture.receive(2, 2, refresh(2, 0));
    assert_eq!(fixture.sent(), ["lms refresh cost 2 hops 1 to n8"]);
    assert_eq!(fixture.drops(), [DropReason::Redundant]);
    // Only what costs less takes its place.
    fixture.receive(3, 3, refresh(1, 4));
    assert_eq!(fixture.sent(), ["lms refresh cost 1 hops 5 to n8"]);
    fixture.receive(1, 1, Packet::Req(request(5, 5)));
    assert_eq!(
        fixture.sent(),
        ["lms req 5-5 attempt 0 past 0 hops left 19 turning point 10.0.0.10 p1 to n3"]
    );
}

#[test]
fn worse_replier_stays_until_a_better_offer() {
    let mut fixture = with_replier(&[]);
    fixture.receive(1, 1, refresh(7, 2));
    assert_eq!(fixture.sent(), ["lms refresh cost 7 hops 3 to n8"]);
    fixture.receive(2, 2, refresh(6, 0));
    assert_eq!(fixture.sent(), ["lms refresh cost 6 hops 1 to n8"]);
}

#[test]
fn replier_requests_go_up_and_others_turn_to_replier() {
    let mut fixture = with_replier(&[]);
    fixture.receive(1, 1, Packet::Req(request(5, 6)));
    assert_eq!(fixture.sent(), ["lms req 5-6 attempt 0 past 0 hops left 19 turning point none to n8"]);
    fixture.receive(2, 2, Packet::Req(request(5, 6)));
    assert_eq!(
        fixture.sent(),
        ["lms req 5-6 attempt 0 past 0 hops left 19 turning point 10.0.0.10 p2 to n1"]
    );
    // "later routers do not overwrite": it turned below or above.
    fixture.receive(2, 2, Packet::Req(turned(5, 6, 7, 3)));
    assert_eq!(fixture.sent(), ["lms req 5-6 attempt 0 past 0 hops left 19 turning point 10.0.0.8 p3 to n1"]);
    fixture.receive(8, 0, Packet::Req(turned(5, 6, 8, 2)));
    assert_eq!(fixture.sent(), ["lms req 5-6 attempt 0 past 0 hops left 19 turning point 10.0.0.9 p2 to n1"]);
}

#[test]
fn requests_are_as_long_as_they_came() {
    let mut fixture = with_replier(&[]);
    fixture.receive(2, 2, Packet::Req(request(5, 6)));
    assert_eq!(fixture.lengths(), [41]);
}

#[test]
fn without_a_replier_requests_go_up_and_have_turned() {
    let mut fixture = router(&[]);
    fixture.pass(0, 0, setup(None));
    fixture.receive(2, 2, Packet::Req(request(5, 5)));
    assert_eq!(
        fixture.sent(),
        ["lms req 5-5 attempt 0 past 0 hops left 19 turning point 10.0.0.10 p2 to n0"]
    );
}

#[test]
fn request_is_not_returned_to_its_neighbour() {
    // The replier is behind a network without LMS routers, by which its requests come another way.
    let mut fixture = with_replier(&[]);
    fixture.receive(1, 2, Packet::Req(request(5, 5)));
    assert_eq!(
        fixture.sent(),
        ["lms req 5-5 attempt 0 past 0 hops left 19 turning point 10.0.0.10 p2 to n8"]
    );
}

#[test]
fn a_further_attempt_goes_past_a_replier() {
    // choice: one more at each attempt
    let mut fixture = with_replier(&[]);
    fixture.receive(2, 2, Packet::Req(Request { past: 2, attempt: 2, ..request(5, 5) }));
    assert_eq!(
        fixture.sent(),
        ["lms req 5-5 attempt 2 past 1 hops left 19 turning point 10.0.0.10 p2 to n8"]
    );
    fixture.receive(1, 1, Packet::Req(Request { past: 1, attempt: 1, ..request(5, 5) }));
    let up = "lms req 5-5 attempt 1 past 1 hops left 19 turning point none to n8";
    assert_eq!(fixture.sent(), [up], "it went past none");
}

#[test]
fn no_request_circles() {
    let mut fixture = with_replier(&[]);
    fixture.receive(2, 2, Packet::Req(Request { hops_left: 0, ..request(5, 5) }));
    assert_eq!(fixture.drops(), [DropReason::OutOfWindow]);
    assert!(fixture.sent().is_empty());
}

#[test]
fn directed_multicast_leaves_on_its_interface_as_from_source() {
    let mut fixture = with_replier(&[]);
    let data = Data { sequence: 5, oldest: 2, payload: b"message" };
    fixture.receive(1, 1, Packet::Dmcast { interface: PortId(2), data });
    assert_eq!(fixture.sent(), ["lms repair seq 5 oldest 2 len 7 to p2 as n0"]);
    // No node there would accept it.
    fixture.receive(1, 1, Packet::Dmcast { interface: PortId(0), data });
    assert!(fixture.sent().is_empty());
}

#[test]
fn departed_replier_is_replaced_by_next_offer() {
    let mut fixture = with_replier(&[]);
    fixture.receive(2, 2, Packet::Leave);
    assert!(fixture.sent().is_empty());
    fixture.receive(1, 1, Packet::Leave);
    assert_eq!(fixture.sent(), ["lms leave to n8"]);
    fixture.receive(2, 2, refresh(9, 0));
    assert_eq!(fixture.sent(), ["lms refresh cost 9 hops 1 to n8"]);
}

#[test]
fn replier_expires_after_three_intervals() {
    // choice
    let mut fixture = with_replier(&[("setup_ivl", "1 s")]);
    fixture.at(2_999).receive(2, 2, refresh(0, 0));
    assert!(fixture.sent().is_empty());
    fixture.at(3_000).receive(2, 2, refresh(0, 0));
    assert_eq!(fixture.sent(), ["lms refresh cost 0 hops 1 to n8"]);
}

#[test]
fn new_upstream_interface_drops_its_replier() {
    // choice: routes change
    let mut fixture = with_replier(&[]);
    fixture.pass(0, 1, setup(Some(7)));
    fixture.receive(2, 2, Packet::Req(request(5, 5)));
    assert_eq!(
        fixture.sent(),
        ["lms req 5-5 attempt 0 past 0 hops left 19 turning point 10.0.0.10 p2 to n7"]
    );
}

#[test]
fn the_source_is_the_replier_of_its_own_router() {
    let mut fixture = router(&[]);
    fixture.pass(0, 0, setup(None));
    fixture.receive(1, 1, refresh(0, 0));
    assert!(fixture.sent().is_empty(), "it is told of no other");
    fixture.receive(1, 1, Packet::Req(request(5, 5)));
    assert_eq!(fixture.sent(), ["lms req 5-5 attempt 0 past 0 hops left 19 turning point none to n0"]);
}

#[test]
fn nearer_upstream_interface_becomes_replier() {
    // [N] SRC_REFRESH: adopted if not dearer and nearer
    let offer = |cost, hops| Packet::SrcRefresh(Offer { cost, hops });
    let mut fixture = router(&[]);
    fixture.pass(0, 0, setup(Some(8)));
    assert_eq!(fixture.pass(0, 0, offer(0, 1)), "lms src_refresh cost 0 hops 2");
    // It has no replier that the source could be nearer than.
    fixture.receive(2, 2, Packet::Req(request(5, 5)));
    fixture.receive(1, 1, refresh(0, 1));
    fixture.receive(2, 2, Packet::Req(request(6, 6)));
    fixture.pass(0, 0, offer(0, 1));
    fixture.receive(2, 2, Packet::Req(request(7, 7)));
    fixture.pass(0, 0, offer(0, 0));
    fixture.receive(2, 2, Packet::Req(request(8, 8)));
    fixture.receive(1, 1, Packet::Req(request(8, 8)));
    fixture.receive(1, 1, refresh(0, 0));
    let line = |number, port, to| {
        format!(
            "lms req {number}-{number} attempt 0 past 0 hops left 19 turning point 10.0.0.10 p{port} to n{to}"
        )
    };
    assert_eq!(
        fixture.sent(),
        [
            line(5, 2, 8),
            "lms refresh cost 0 hops 2 to n8".to_owned(),
            line(6, 2, 1),
            line(7, 2, 1),
            line(8, 2, 8),
            line(8, 1, 8)
        ]
    );
}

#[test]
fn sessions_with_equal_numbers_stay_separate() {
    let mut fixture = with_replier(&[]);
    assert_eq!(fixture.pass(5, 2, setup(None)), "Forward");
    // When the first is over, the second takes its place.
    fixture.at(15_000);
    assert_eq!(fixture.pass(5, 2, setup(None)), "lms setup next 0 oldest 0 time 0 ns previous 10.0.0.10");
    fixture.receive(1, 1, Packet::Req(request(5, 5)));
    assert_eq!(
        fixture.sent(),
        ["lms req 5-5 attempt 0 past 0 hops left 19 turning point 10.0.0.10 p1 to n5"]
    );
}

#[test]
fn packet_of_unknown_session_is_dropped() {
    let mut fixture = router(&[]);
    let data = Data { sequence: 5, oldest: 2, payload: b"message" };
    fixture.receive(1, 1, Packet::Req(request(5, 5)));
    fixture.receive(1, 1, Packet::Dmcast { interface: PortId(2), data });
    fixture.receive(1, 1, refresh(0, 0));
    fixture.receive(1, 1, Packet::Leave);
    assert_eq!(fixture.drops(), [DropReason::Foreign; 4]);
    assert!(fixture.sent().is_empty());
}

/// Thesis, section 5.8.4.
#[test]
fn filter_limits_updates_of_each_interface() {
    let mut fixture = router(&[("refresh_limit", "2"), ("setup_ivl", "1 s")]);
    fixture.pass(0, 0, setup(Some(8)));
    for cost in [5, 9, 1] {
        fixture.receive(1, 1, refresh(cost, 0));
    }
    assert_eq!(fixture.sent(), ["lms refresh cost 5 hops 1 to n8", "lms refresh cost 9 hops 1 to n8"]);
    assert_eq!(fixture.drops(), [DropReason::OutOfWindow]);
    // A SETUP does not begin a new interval, and other interfaces have their own.
    fixture.at(500).pass(0, 0, setup(Some(8)));
    fixture.receive(1, 1, refresh(1, 0)).receive(2, 2, refresh(7, 0));
    assert_eq!(fixture.sent(), ["lms refresh cost 7 hops 1 to n8"]);
    fixture.at(1000).receive(1, 1, refresh(3, 0));
    assert_eq!(fixture.sent(), ["lms refresh cost 3 hops 1 to n8"]);
}
