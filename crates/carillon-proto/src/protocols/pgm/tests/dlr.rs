//! Designated local repairers. The element is node 9: the source behind port 0, upstream of it node 3;
//! behind port 2 the repairer, node 5, behind 1 and 4 receivers.

use carillon_core::{DropReason, Event, Role};
use carillon_wire::pgm::{Body, Poll};

use super::desk::{Desk, list, message, nak, ncf, none, null, odata, poll, rdata, redirect, spm, time};

const NOTHING: [&str; 0] = [];
const SETTINGS: &[(&str, &str)] = &[
    ("dlr_every", "1"),
    ("nak_elim_ivl", "500 ms"),
    ("ne_nak_rpt_rte", "50 ms"),
    ("dlr_nak_rpt_ivl", "100 ms"),
    ("dlr_expiry", "5 s"),
    ("nak_bo_ivl", "0 ms"),
];

fn desk(role: Role, settings: &[(&str, &str)]) -> Desk {
    Desk::new(role, &[SETTINGS, settings].concat())
}

fn answer(sqn: u32) -> Body<'static> {
    Body::Polr { sqn, round: 0 }
}

/// An element that has a repairer.
fn element(settings: &[(&str, &str)]) -> Desk {
    let mut desk = desk(Role::Relay, settings);
    desk.pass(0, spm(0, 3, 0, 0), none());
    desk.pass(0, Body::Poll(poll(0, 0, 3)), none());
    desk.hear_by(2, 5, answer(0), redirect(5));
    assert!(desk.events().contains(&Event::Received { packet: "polr", message: message(0) }));
    desk
}

/// A repairer that has packets 0 to 2, below element 9.
fn repairer(settings: &[(&str, &str)]) -> Desk {
    let mut desk = desk(Role::Receiver, settings);
    desk.hear(0, spm(0, 9, 0, 0), none());
    for sqn in 0..3 {
        desk.hear(0, odata(sqn), none());
    }
    desk.events();
    desk
}

#[test]
fn the_source_looks_for_repairers_only_if_there_are_to_be_some() {
    let mut desk = Desk::new(Role::Sender, &[("dlr_every", "3"), ("dlr_poll_ivl", "1 s")]);
    let begin = [
        "spm 0 trail 0 lead 4294967295 path 10.0.0.1 join 0 to all",
        "poll 0 round 0 type 1 path 10.0.0.1 to all",
    ];
    assert_eq!(desk.sent(), begin);
    desk.at(2500);
    assert_eq!(desk.sent().iter().filter(|line| line.starts_with("poll ")).count(), 2);
    let mut desk = Desk::new(Role::Sender, &[("dlr_every", "3"), ("txw_secs", "1500 ms")]);
    desk.finish();
    desk.at(60_000);
    assert_eq!(desk.sent().iter().filter(|line| line.starts_with("poll ")).count(), 2);
    assert_eq!(desk.timer(), None);
    let mut desk = Desk::new(Role::Sender, &[]);
    desk.at(5000);
    assert!(desk.sent().iter().all(|line| line.starts_with("spm ")));
}

#[test]
fn an_element_looks_for_its_own_children_when_its_parent_does() {
    let mut relay = desk(Role::Relay, &[]);
    assert_eq!(relay.pass(0, Body::Poll(poll(0, 0, 3)), none()), "forward");
    relay.pass(0, spm(0, 3, 0, 0), none());
    let passed = "pgm poll 1 round 0 type 1 path 10.0.0.10";
    assert_eq!(relay.pass(0, Body::Poll(poll(1, 0, 3)), none()), passed);
    assert_eq!(relay.pass(1, Body::Poll(poll(2, 0, 3)), none()), "absorb");
}

#[test]
fn a_repairer_answers_its_parent_after_a_random_time() {
    let mut desk = repairer(&[]);
    desk.hear(0, Body::Poll(poll(4, 0, 9)), none());
    let at = desk.timer().expect("an answer");
    assert!(at <= time(50), "{at}");
    desk.at(50);
    assert_eq!(desk.sent(), ["polr 4 round 0 redirect 10.0.0.6 to n9"]);
    // The same again, an older one, that of another parent, another kind, one for others, a later
    // round of one whose first was not heard.
    let other = Poll { subtype: 0, ..poll(6, 0, 9) };
    let [zeros, ones] = [0, u32::MAX].map(|random| Poll { random, mask: 1, ..poll(8, 0, 9) });
    for poll in [poll(4, 0, 9), poll(3, 0, 9), poll(5, 0, 8), other, poll(7, 1, 9)] {
        desk.hear(0, Body::Poll(poll), none());
    }
    desk.at(200);
    assert_eq!(desk.sent(), NOTHING);
    desk.hear(0, Body::Poll(zeros), none()).hear(0, Body::Poll(Poll { sqn: 9, ..ones }), none());
    // A new POLL takes the place of the old; of the two one is for this node.
    desk.at(300);
    assert!(desk.sent().len() <= 1);
    desk.hear(0, Body::Poll(Poll { sqn: 10, ..ones }), none()).at(400);
    let first = desk.sent().len();
    desk.hear(0, Body::Poll(Poll { sqn: 11, ..zeros }), none()).at(500);
    assert_eq!(first + desk.sent().len(), 1);
}

#[test]
fn who_is_no_repairer_or_has_only_the_source_above_it_answers_no_poll() {
    let mut desk = Desk::new(Role::Receiver, &[]);
    desk.hear(0, spm(0, 9, 0, 0), none());
    desk.hear(0, Body::Poll(poll(0, 0, 9)), none());
    assert_eq!(desk.timer(), None);
    let mut desk = Desk::new(Role::Receiver, &[("dlr_every", "1")]);
    desk.hear(0, spm(0, 0, 0, 0), none());
    desk.hear(0, Body::Poll(poll(0, 0, 0)), none());
    assert_eq!(desk.timer(), None);
}

#[test]
fn a_repairer_confirms_tells_the_source_and_repairs_by_unicast_to_its_parent() {
    let mut desk = repairer(&[]);
    desk.hear(9, nak(0), list(&[0, 0, 0, 2]));
    let answers = [
        "ncf 0 list [2] to n9",
        "n-nak 0 list [2] to n9",
        "rdata 0 trail 0 len 4 to n9",
        "rdata 2 trail 0 len 4 to n9",
    ];
    assert_eq!(desk.sent(), answers);
    // Only for its parent.
    desk.events();
    desk.hear(8, nak(0), none());
    assert_eq!(desk.drops(), [DropReason::Foreign]);
    assert_eq!(desk.sent(), NOTHING);
}

#[test]
fn what_a_repairer_lacks_it_does_not_answer_but_asks_for_at_once() {
    let mut desk = repairer(&[("nak_bo_ivl", "30 ms")]);
    desk.hear(9, nak(1), list(&[0, 0, 0, 3]));
    let answers = ["ncf 1 to n9", "n-nak 1 to n9", "rdata 1 trail 0 len 4 to n9", "nak 3 to n9"];
    assert_eq!(desk.sent(), answers);
    // It was asked for already: that is not repeated.
    desk.hear(9, nak(3), none());
    assert_eq!(desk.sent(), NOTHING);
}

#[test]
fn a_repairer_holds_the_newest_packets_of_the_sources_window() {
    let mut desk = repairer(&[("dlr_sqns", "2")]);
    desk.hear(9, nak(0), none());
    assert_eq!(desk.sent(), NOTHING);
    desk.hear(9, nak(1), none());
    assert_eq!(desk.sent().len(), 3);
    desk.hear(0, spm(1, 9, 2, 3), none());
    desk.hear(9, nak(1), none());
    assert_eq!(desk.sent(), NOTHING);
    desk.hear(9, nak(2), none());
    assert_eq!(desk.sent()[2..], ["rdata 2 trail 2 len 4 to n9"]);
}

#[test]
fn an_element_asks_the_repairer_and_sends_its_repair_to_the_group() {
    let mut desk = element(&[]);
    desk.hear_by(1, 6, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n5"]);
    desk.hear_by(2, 5, ncf(3), none());
    // The source has not heard of it otherwise.
    desk.hear_by(2, 5, null(3), none());
    assert_eq!(desk.sent(), ["n-nak 3 to n3"]);
    desk.hear_by(4, 7, nak(3), none());
    // Confirmed: it is not repeated, and others are eliminated.
    desk.at(400);
    assert_eq!(desk.sent(), ["ncf 3 to p4 as n0 to all"]);
    desk.hear_by(2, 5, rdata(3), none());
    assert_eq!(desk.sent(), ["rdata 3 trail 0 len 4 to p1 p4 as n0 to all"]);
    // The state is gone.
    desk.hear_by(2, 5, rdata(3), none());
    desk.at(600);
    assert_eq!(desk.sent(), NOTHING);
    assert_eq!(desk.pass(0, rdata(3), none()), "absorb");
    // Only the source's silence is left.
    assert_eq!(desk.timer(), Some(time(300_000)));
}

#[test]
fn a_repairer_that_does_not_confirm_is_dropped_and_the_source_asked() {
    let mut desk = element(&[]);
    desk.hear_by(1, 6, nak(3), none());
    desk.at(99);
    assert_eq!(desk.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n5", "nak 3 to n5"]);
    desk.at(100);
    assert_eq!(desk.sent(), ["nak 3 to n3"]);
    // It goes on there until it is confirmed, and so do all others.
    desk.at(150);
    assert_eq!(desk.sent(), ["nak 3 to n3"]);
    desk.hear_by(1, 6, nak(4), none());
    assert_eq!(desk.sent(), ["ncf 4 to p1 as n0 to all", "nak 4 to n3"]);
    // The repairer is too late now.
    desk.hear_by(2, 5, ncf(3), none()).hear_by(2, 5, rdata(3), none());
    assert_eq!(desk.sent(), NOTHING);
    assert_eq!(desk.pass(0, rdata(3), none()), "forward on p1");
    // Until it answers again.
    desk.hear_by(2, 5, answer(0), redirect(5));
    desk.hear_by(1, 6, nak(5), none());
    assert_eq!(desk.sent(), ["ncf 5 to p1 as n0 to all", "nak 5 to n5"]);
}

#[test]
fn a_repairer_that_asks_itself_is_not_asked() {
    let mut desk = element(&[]);
    // Before it was asked: by its port.
    desk.hear_by(2, 5, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p2 as n0 to all", "nak 3 to n3"]);
    // After it was: the source is asked at once, and the repairer stays.
    desk.hear_by(1, 6, nak(4), none());
    desk.at(10).hear_by(2, 5, nak(4), none());
    let sent = ["ncf 4 to p1 as n0 to all", "nak 4 to n5", "ncf 4 to p2 as n0 to all", "nak 4 to n3"];
    assert_eq!(desk.sent(), sent);
    desk.pass(0, ncf(3), list(&[0, 0, 0, 4]));
    desk.at(200).hear_by(1, 6, nak(5), none());
    assert_eq!(desk.sent(), ["ncf 5 to p1 as n0 to all", "nak 5 to n5"]);
    assert_eq!(desk.pass(0, rdata(4), none()), "forward on p1 p2");
}

/// The repair was lost on its way to the element.
#[test]
fn for_one_packet_a_repairer_is_asked_once() {
    let mut desk = element(&[]);
    desk.hear_by(1, 6, nak(3), none()).hear_by(2, 5, ncf(3), none());
    desk.sent();
    desk.at(500).hear_by(1, 6, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n3"]);
}

#[test]
fn what_goes_different_ways_goes_in_different_packets() {
    let mut desk = element(&[]);
    desk.hear_by(2, 5, nak(4), none());
    desk.hear_by(1, 6, nak(3), list(&[0, 0, 0, 5, 0, 0, 0, 6]));
    desk.sent();
    // All are due again at once, in the order of their numbers.
    desk.at(50);
    assert_eq!(desk.sent(), ["nak 3 to n5", "nak 4 to n3", "nak 5 list [6] to n5"]);
}

#[test]
fn a_repairer_is_forgotten_unless_it_answers_anew() {
    let mut desk = element(&[("dlr_expiry", "5 s")]);
    desk.at(4999).hear_by(1, 6, nak(3), none());
    assert_eq!(desk.sent()[1..], ["nak 3 to n5"]);
    desk.hear_by(2, 5, rdata(3), none());
    desk.sent();
    desk.at(5000).hear_by(1, 6, nak(4), none());
    assert_eq!(desk.sent()[1..], ["nak 4 to n3"]);
}

#[test]
fn only_a_child_that_was_looked_for_is_a_repairer_and_only_so_many() {
    let mut desk = element(&[("ne_dlrs", "1")]);
    desk.events();
    // Of an old POLL, from upstream, for somebody else.
    desk.hear_by(4, 7, answer(9), redirect(7)).hear_by(0, 7, answer(0), redirect(7));
    desk.hear_by(4, 7, answer(0), redirect(6)).hear_by(4, 7, answer(0), none());
    assert_eq!(desk.drops(), [DropReason::Foreign; 4]);
    desk.hear_by(4, 7, answer(0), redirect(7));
    assert_eq!(desk.drops(), [DropReason::BufferFull]);
    desk.at(5000).hear_by(4, 7, answer(0), redirect(7));
    assert_eq!(desk.drops(), []);
}

#[test]
fn nobody_but_the_repairer_that_was_asked_answers_for_it() {
    let mut desk = element(&[]);
    desk.hear_by(1, 6, nak(3), none());
    desk.sent();
    desk.hear_by(4, 7, ncf(3), none()).hear_by(4, 7, rdata(3), none());
    desk.at(50);
    assert_eq!(desk.sent(), ["nak 3 to n5"]);
}

#[test]
fn what_repairers_send_to_other_elements_passes() {
    let mut desk = element(&[]);
    desk.hear_by(1, 6, nak(3), none());
    for packet in [ncf(3), rdata(3), rdata(7)] {
        assert_eq!(desk.pass_to_node(0, packet), "forward");
    }
    assert_eq!(desk.pass(0, rdata(3), none()), "forward on p1");
}

#[test]
fn an_n_nak_goes_on_once_and_stands_in_the_way_of_no_nak() {
    let mut desk = element(&[]);
    desk.hear_by(2, 5, null(3), list(&[0, 0, 0, 4]));
    assert_eq!(desk.sent(), ["n-nak 3 list [4] to n3"]);
    desk.at(499).hear_by(2, 5, null(3), none());
    assert_eq!(desk.sent(), NOTHING);
    desk.hear_by(2, 5, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p2 as n0 to all", "nak 3 to n3"]);
    // Where a NAK has gone on, the source knows.
    desk.at(600);
    desk.sent();
    desk.hear_by(2, 5, null(3), list(&[0, 0, 0, 4]));
    assert_eq!(desk.sent(), ["n-nak 4 to n3"]);
    // It makes no state for repairs.
    assert_eq!(desk.pass(0, rdata(4), none()), "absorb");
}

#[test]
fn an_n_nak_makes_the_source_hold_a_packet_and_no_more() {
    let settings =
        [("window_advance", "data"), ("txw_adv_ivl", "1 s"), ("txw_sqns", "2"), ("rdata_delay", "0 ms")];
    let mut desk = Desk::new(Role::Sender, &settings);
    assert!(desk.offer("zero") && desk.offer("one"));
    desk.at(900);
    desk.sent();
    desk.hear(9, null(0), none());
    assert_eq!(desk.sent(), NOTHING);
    desk.at(1000);
    assert!(!desk.offer("two"));
    desk.at(1900);
    assert!(desk.offer("two"));
}
