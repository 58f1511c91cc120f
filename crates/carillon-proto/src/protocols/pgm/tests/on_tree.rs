//! A network element that repairs. It is node 9: the source behind port 0, upstream of it node 3; behind 1, 2
//! and 4 others.

use carillon_core::{DropReason, Event, Role};
use carillon_wire::pgm::{Body, Data, Options, Spm};

use super::desk::{
    Desk, SOURCE, list, message, nak, ncf, none, null, odata, poll, rdata, redirect, spm, time,
};

const NOTHING: [&str; 0] = [];
const SETTINGS: &[(&str, &str)] =
    &[("ne_dlr_sqns", "4"), ("nak_elim_ivl", "500 ms"), ("ne_nak_rpt_rte", "50 ms")];

/// An element through which packets 0 to 2 have passed.
fn element(settings: &[(&str, &str)]) -> Desk {
    let mut desk = Desk::new(Role::Relay, &[SETTINGS, settings].concat());
    desk.pass(0, spm(0, 3, 0, 0), none());
    for sqn in 0..3 {
        assert_eq!(desk.pass(0, odata(sqn), none()), "forward");
    }
    desk
}

#[test]
fn what_has_passed_is_confirmed_announced_and_repaired_where_it_was_asked_for() {
    let mut desk = element(&[]);
    desk.events();
    desk.hear_by(1, 5, nak(1), none());
    let answers = ["ncf 1 to p1 as n0 to all", "n-nak 1 to n3", "rdata 1 trail 0 len 4 to p1 as n0 to all"];
    assert_eq!(desk.sent(), answers);
    let forwarded = |event: &Event| match event {
        Event::Forwarded { source, message, bytes, repair } => Some((*source, *message, *bytes, *repair)),
        _ => None,
    };
    let events = desk.events();
    assert_eq!(events.iter().filter_map(forwarded).collect::<Vec<_>>(), [(SOURCE, message(1), 28, true)]);
    assert!(events.contains(&Event::Received { packet: "nak", message: message(1) }));
    // Nothing waits for anything.
    assert_eq!(desk.pass(0, rdata(1), none()), "absorb");
    desk.at(60_000);
    assert_eq!(desk.sent(), NOTHING);
    assert_eq!(desk.timer(), Some(time(300_000)));
}

#[test]
fn of_a_list_what_is_not_kept_goes_upstream() {
    let mut desk = element(&[]);
    desk.hear_by(1, 5, nak(1), list(&[0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]));
    let answers = [
        "ncf 1 list [2, 3, 4] to p1 as n0 to all",
        "nak 3 list [4] to n3",
        "n-nak 1 list [2] to n3",
        "rdata 1 trail 0 len 4 to p1 as n0 to all",
        "rdata 2 trail 0 len 4 to p1 as n0 to all",
    ];
    assert_eq!(desk.sent(), answers);
    // What comes of it goes on, and is kept then.
    desk.pass(0, ncf(3), list(&[0, 0, 0, 4]));
    assert_eq!(desk.pass(0, rdata(3), none()), "forward on p1");
    desk.hear_by(2, 6, nak(3), none());
    let answers = ["ncf 3 to p2 as n0 to all", "n-nak 3 to n3", "rdata 3 trail 0 len 4 to p2 as n0 to all"];
    assert_eq!(desk.sent(), answers);
}

/// As a further request for what is on its way is eliminated for that long: a repair that was lost is asked
/// for again later than that.
#[test]
fn by_one_port_a_packet_is_repaired_once_in_nak_elim_ivl() {
    let mut desk = element(&[]);
    desk.hear_by(1, 5, nak(1), none());
    desk.sent();
    desk.events();
    desk.at(499).hear_by(1, 5, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to p1 as n0 to all"]);
    assert_eq!(desk.drops(), [DropReason::Redundant]);
    // The source has heard of it; another port has not had it.
    desk.hear_by(2, 6, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to p2 as n0 to all", "rdata 1 trail 0 len 4 to p2 as n0 to all"]);
    desk.at(500).hear_by(1, 5, nak(1), none()).hear_by(2, 6, nak(1), none());
    let answers = [
        "ncf 1 to p1 as n0 to all",
        "n-nak 1 to n3",
        "rdata 1 trail 0 len 4 to p1 as n0 to all",
        "ncf 1 to p2 as n0 to all",
    ];
    assert_eq!(desk.sent(), answers);
}

#[test]
fn a_repair_that_has_passed_is_not_repeated_at_once_either() {
    let mut desk = element(&[]);
    desk.hear_by(1, 5, nak(3), none());
    desk.at(100);
    assert_eq!(desk.pass(0, rdata(3), none()), "forward on p1");
    desk.sent();
    desk.at(599).hear_by(1, 5, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p1 as n0 to all"]);
    desk.at(600).hear_by(1, 5, nak(3), none());
    assert_eq!(desk.sent()[2..], ["rdata 3 trail 0 len 4 to p1 as n0 to all"]);
}

#[test]
fn it_keeps_the_newest_packets_of_the_sources_window() {
    let mut desk = element(&[("ne_dlr_sqns", "2")]);
    desk.hear_by(1, 5, nak(0), none());
    assert_eq!(desk.sent(), ["ncf 0 to p1 as n0 to all", "nak 0 to n3"]);
    desk.hear_by(1, 5, nak(1), none());
    assert_eq!(desk.sent()[2..], ["rdata 1 trail 0 len 4 to p1 as n0 to all"]);
    // The trailing edge of SPMs, which does not go back; repairs tell it too.
    desk.pass(0, ncf(0), none());
    desk.pass(0, spm(1, 3, 2, 3), none());
    desk.pass(0, spm(2, 3, 1, 3), none());
    desk.at(1000).hear_by(1, 5, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to p1 as n0 to all", "nak 1 to n3"]);
    desk.hear_by(1, 5, nak(2), none());
    assert_eq!(desk.sent()[2..], ["rdata 2 trail 2 len 4 to p1 as n0 to all"]);
    // What the source does not hold any more is not kept when it comes late.
    desk.pass(0, odata(1), none());
    desk.hear_by(2, 6, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to p2 as n0 to all"]);
}

#[test]
fn numbers_go_round() {
    let mut desk = Desk::new(Role::Relay, SETTINGS);
    let last = u32::MAX;
    desk.pass(0, spm(0, 3, last - 1, last), none());
    for sqn in [last - 1, last, 0, 1, 2] {
        desk.pass(0, Body::Odata(Data { sqn, trail: last - 1, payload: b"data" }), none());
    }
    // The oldest has made room.
    desk.hear_by(1, 5, nak(last - 1), none());
    assert_eq!(desk.sent()[1..], ["nak 4294967294 to n3"]);
    desk.hear_by(1, 5, nak(last), list(&[0, 0, 0, 0]));
    assert_eq!(desk.sent().len(), 4);
    desk.pass(0, spm(1, 3, 1, 3), none());
    desk.hear_by(2, 5, nak(0), list(&[0, 0, 0, 1]));
    let answers = [
        "ncf 0 list [1] to p2 as n0 to all",
        "nak 0 to n3",
        "n-nak 1 to n3",
        "rdata 1 trail 1 len 4 to p2 as n0 to all",
    ];
    assert_eq!(desk.sent(), answers);
}

#[test]
fn options_of_the_original_are_those_of_the_repair() {
    let mut desk = element(&[]);
    desk.pass(0, odata(3), Options { fin: true, join: Some(7), ..none() });
    desk.hear_by(1, 5, nak(3), none());
    assert_eq!(desk.sent()[2..], ["rdata 3 trail 0 len 4 join 7 fin to p1 as n0 to all"]);
}

#[test]
fn only_what_comes_by_the_port_of_the_spms_is_kept() {
    let mut desk = element(&[]);
    assert_eq!(desk.pass(2, odata(3), none()), "forward");
    desk.pass(2, rdata(4), none());
    desk.hear_by(1, 5, nak(3), list(&[0, 0, 0, 4]));
    assert_eq!(desk.sent()[1..], ["nak 3 list [4] to n3"]);
}

#[test]
fn nothing_is_kept_unless_that_is_wanted_or_before_an_spm_tells_of_the_window() {
    let mut desk = element(&[("ne_dlr_sqns", "0")]);
    desk.hear_by(1, 5, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to p1 as n0 to all", "nak 1 to n3"]);
    let mut desk = Desk::new(Role::Relay, SETTINGS);
    desk.pass(0, odata(0), none());
    let (trail, lead) = Spm::NO_WINDOW;
    desk.pass(0, spm(0, 3, trail, lead.wrapping_add(1)), none());
    desk.pass(0, odata(1), none());
    desk.hear_by(1, 5, nak(0), list(&[0, 0, 0, 1]));
    assert_eq!(desk.sent()[1..], ["nak 0 list [1] to n3"]);
}

/// What repairs on the tree has nothing to offer its parent: what the parent misses, it misses too.
#[test]
fn it_does_not_offer_itself_to_its_parent() {
    let mut desk = element(&[("dlr_every", "1")]);
    let passed = "pgm poll 0 round 0 type 1 path 10.0.0.10";
    assert_eq!(desk.pass(0, Body::Poll(poll(0, 0, 3)), none()), passed);
    desk.at(5000);
    assert_eq!(desk.sent(), NOTHING);
}

/// An element that keeps packets 1 and 2 of what has passed, with node 5 behind port 2 a repairer off the tree.
fn with_repairer() -> Desk {
    let mut desk = element(&[("ne_dlr_sqns", "2"), ("dlr_every", "1"), ("dlr_nak_rpt_ivl", "100 ms")]);
    desk.pass(0, Body::Poll(poll(0, 0, 3)), none());
    desk.hear_by(2, 5, Body::Polr { sqn: 0, round: 0 }, redirect(5));
    desk
}

#[test]
fn a_repairer_off_the_tree_is_asked_for_what_has_passed_and_is_not_kept_any_more() {
    let mut desk = with_repairer();
    desk.hear_by(1, 6, nak(0), list(&[0, 0, 0, 1]));
    let answers = [
        "ncf 0 list [1] to p1 as n0 to all",
        "nak 0 to n5",
        "n-nak 1 to n3",
        "rdata 1 trail 0 len 4 to p1 as n0 to all",
    ];
    assert_eq!(desk.sent(), answers);
    desk.hear_by(2, 5, ncf(0), none()).hear_by(2, 5, null(0), none()).hear_by(2, 5, rdata(0), none());
    assert_eq!(desk.sent(), ["n-nak 0 to n3", "rdata 0 trail 0 len 4 to p1 as n0 to all"]);
}

/// What has not passed it does not have either: the source is asked at once.
#[test]
fn a_repairer_off_the_tree_is_not_asked_for_what_has_not_passed() {
    let mut desk = with_repairer();
    desk.hear_by(1, 6, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n3"]);
    assert_eq!(desk.pass(0, ncf(3), none()), "absorb");
    assert_eq!(desk.pass(0, rdata(3), none()), "forward on p1");
    // Nor for a gap in what is kept.
    desk.pass(0, odata(5), none());
    desk.hear_by(1, 6, nak(4), none());
    assert_eq!(desk.sent(), ["ncf 4 to p1 as n0 to all", "nak 4 to n3"]);
    // Now 3 and 5 are kept, and 2 may be there.
    desk.hear_by(1, 6, nak(2), none());
    assert_eq!(desk.sent(), ["ncf 2 to p1 as n0 to all", "nak 2 to n5"]);
}

/// After a restart nothing is known of what has passed.
#[test]
fn an_element_that_has_just_begun_asks_the_repairer_off_the_tree() {
    let mut desk = Desk::new(Role::Relay, &[SETTINGS, &[("dlr_every", "1")]].concat());
    desk.pass(0, spm(7, 3, 0, 9), none());
    desk.pass(0, Body::Poll(poll(3, 0, 3)), none());
    desk.hear_by(2, 5, Body::Polr { sqn: 3, round: 0 }, redirect(5));
    desk.hear_by(1, 6, nak(3), none());
    assert_eq!(desk.sent()[1..], ["nak 3 to n5"]);
    desk.pass(0, odata(8), none());
    desk.hear_by(1, 6, nak(7), none());
    assert_eq!(desk.sent()[1..], ["nak 7 to n5"]);
    // What it sends is kept.
    desk.hear_by(2, 5, ncf(7), none()).hear_by(2, 5, rdata(7), none());
    assert_eq!(desk.sent(), ["rdata 7 trail 0 len 4 to p1 as n0 to all"]);
    desk.hear_by(4, 7, nak(7), none());
    assert_eq!(desk.sent()[2..], ["rdata 7 trail 0 len 4 to p4 as n0 to all"]);
    desk.hear_by(1, 6, nak(7), none());
    assert_eq!(desk.sent(), ["ncf 7 to p1 as n0 to all"]);
}

#[test]
fn a_repairer_off_the_tree_is_repaired_itself() {
    let mut desk = with_repairer();
    desk.hear_by(2, 5, nak(1), none());
    assert_eq!(desk.sent()[2..], ["rdata 1 trail 0 len 4 to p2 as n0 to all"]);
    // It was asked for what it lacks: its own request goes to the source.
    desk.hear_by(1, 6, nak(0), none()).hear_by(2, 5, nak(0), none());
    let answers = ["ncf 0 to p1 as n0 to all", "nak 0 to n5", "ncf 0 to p2 as n0 to all", "nak 0 to n3"];
    assert_eq!(desk.sent(), answers);
    assert_eq!(desk.pass(0, rdata(0), none()), "forward on p1 p2");
}

/// An N-NAK of an element below goes on to the source, past one that keeps the packet itself.
#[test]
fn an_n_nak_of_another_element_goes_on() {
    let mut desk = element(&[]);
    desk.hear_by(1, 5, null(1), none());
    assert_eq!(desk.sent(), ["n-nak 1 to n3"]);
    // The same source need not hear of it twice.
    desk.hear_by(2, 6, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to p2 as n0 to all", "rdata 1 trail 0 len 4 to p2 as n0 to all"]);
}

#[test]
fn a_source_that_is_silent_takes_what_was_kept_with_it() {
    let mut desk = element(&[("ne_tsi_expiry", "10 s")]);
    desk.at(10_000);
    desk.pass(0, spm(0, 3, 0, 3), none());
    desk.hear_by(1, 5, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to p1 as n0 to all", "nak 1 to n3"]);
}

/// Whatever passes: of each source so many packets, and each once.
#[test]
fn what_it_keeps_is_bounded() {
    let mut desk = element(&[("ne_dlr_sqns", "4"), ("ne_repairs", "1")]);
    for sqn in (3..2000).chain([1 << 30, (1 << 31) - 1, 1 << 31, u32::MAX]) {
        desk.pass(0, odata(sqn), none());
        desk.pass(0, rdata(sqn), none());
    }
    let mut kept = 0;
    for sqn in (0..2000).chain([1 << 30, (1 << 31) - 1, 1 << 31, u32::MAX]) {
        desk.hear_by(1, 5, nak(sqn), none());
        kept += desk.sent().iter().filter(|line| line.starts_with("rdata ")).count();
    }
    assert_eq!(kept, 4);
}
