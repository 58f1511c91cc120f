//! Network element that repairs from its own store. It is node 9, with the source behind port 0, node 3 upstream, and
//! other nodes behind ports 1, 2 and 4.

use carillon_core::{DropReason, Event, Role};
use carillon_wire::pgm::{Body, Data, Options, Spm};

use super::fixture::{
    Fixture, SOURCE, list, message, nak, ncf, nnak, none, odata, poll, rdata, redirect, spm, time,
};

const NO_PACKETS: [&str; 0] = [];
const SETTINGS: &[(&str, &str)] =
    &[("ne_dlr_sqns", "4"), ("nak_elim_ivl", "500 ms"), ("ne_nak_rpt_rte", "50 ms")];

/// Element through which packets 0 to 2 have passed.
fn element(settings: &[(&str, &str)]) -> Fixture {
    let mut fixture = Fixture::new(Role::Relay, &[SETTINGS, settings].concat());
    fixture.pass(0, spm(0, 3, 0, 0), none());
    for sqn in 0..3 {
        assert_eq!(fixture.pass(0, odata(sqn), none()), "forward");
    }
    fixture
}

#[test]
fn element_confirms_announces_and_repairs_stored_packet() {
    let mut fixture = element(&[]);
    fixture.events();
    fixture.receive_on(1, 5, nak(1), none());
    let answers = ["ncf 1 to p1 as n0 to all", "n-nak 1 to n3", "rdata 1 trail 0 len 4 to p1 as n0 to all"];
    assert_eq!(fixture.sent(), answers);
    let forwarded = |event: &Event| match event {
        Event::Forwarded { source, message, bytes, repair } => Some((*source, *message, *bytes, *repair)),
        _ => None,
    };
    let events = fixture.events();
    assert_eq!(events.iter().filter_map(forwarded).collect::<Vec<_>>(), [(SOURCE, message(1), 28, true)]);
    assert!(events.contains(&Event::Received { packet: "nak", message: message(1) }));
    // No timer or state is left.
    assert_eq!(fixture.pass(0, rdata(1), none()), "absorb");
    fixture.at(60_000);
    assert_eq!(fixture.sent(), NO_PACKETS);
    assert_eq!(fixture.timer(), Some(time(300_000)));
}

#[test]
fn unstored_packets_of_a_list_are_requested_upstream() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 5, nak(1), list(&[0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]));
    let answers = [
        "ncf 1 list [2, 3, 4] to p1 as n0 to all",
        "nak 3 list [4] to n3",
        "n-nak 1 list [2] to n3",
        "rdata 1 trail 0 len 4 to p1 as n0 to all",
        "rdata 2 trail 0 len 4 to p1 as n0 to all",
    ];
    assert_eq!(fixture.sent(), answers);
    // A forwarded repair is stored for later NAKs.
    fixture.pass(0, ncf(3), list(&[0, 0, 0, 4]));
    assert_eq!(fixture.pass(0, rdata(3), none()), "forward on p1");
    fixture.receive_on(2, 6, nak(3), none());
    let answers = ["ncf 3 to p2 as n0 to all", "n-nak 3 to n3", "rdata 3 trail 0 len 4 to p2 as n0 to all"];
    assert_eq!(fixture.sent(), answers);
}

/// A NAK within NAK_ELIM_IVL of the repair counts as a duplicate; a lost repair is requested again later.
#[test]
fn port_gets_one_repair_per_elimination_interval() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 5, nak(1), none());
    fixture.sent();
    fixture.events();
    fixture.at(499).receive_on(1, 5, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to p1 as n0 to all"]);
    assert_eq!(fixture.drops(), [DropReason::Redundant]);
    // The source knows already; the other port has not had the repair.
    fixture.receive_on(2, 6, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to p2 as n0 to all", "rdata 1 trail 0 len 4 to p2 as n0 to all"]);
    fixture.at(500).receive_on(1, 5, nak(1), none()).receive_on(2, 6, nak(1), none());
    let answers = [
        "ncf 1 to p1 as n0 to all",
        "n-nak 1 to n3",
        "rdata 1 trail 0 len 4 to p1 as n0 to all",
        "ncf 1 to p2 as n0 to all",
    ];
    assert_eq!(fixture.sent(), answers);
}

#[test]
fn passed_repair_starts_the_elimination_interval_too() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 5, nak(3), none());
    fixture.at(100);
    assert_eq!(fixture.pass(0, rdata(3), none()), "forward on p1");
    fixture.sent();
    fixture.at(599).receive_on(1, 5, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p1 as n0 to all"]);
    fixture.at(600).receive_on(1, 5, nak(3), none());
    assert_eq!(fixture.sent()[2..], ["rdata 3 trail 0 len 4 to p1 as n0 to all"]);
}

#[test]
fn element_stores_newest_packets_of_the_transmit_window() {
    let mut fixture = element(&[("ne_dlr_sqns", "2")]);
    fixture.receive_on(1, 5, nak(0), none());
    assert_eq!(fixture.sent(), ["ncf 0 to p1 as n0 to all", "nak 0 to n3"]);
    fixture.receive_on(1, 5, nak(1), none());
    assert_eq!(fixture.sent()[2..], ["rdata 1 trail 0 len 4 to p1 as n0 to all"]);
    // The trailing edge of SPMs never moves back, and repairs carry it too.
    fixture.pass(0, ncf(0), none());
    fixture.pass(0, spm(1, 3, 2, 3), none());
    fixture.pass(0, spm(2, 3, 1, 3), none());
    fixture.at(1000).receive_on(1, 5, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to p1 as n0 to all", "nak 1 to n3"]);
    fixture.receive_on(1, 5, nak(2), none());
    assert_eq!(fixture.sent()[2..], ["rdata 2 trail 2 len 4 to p1 as n0 to all"]);
    // Late data behind the trailing edge is not stored.
    fixture.pass(0, odata(1), none());
    fixture.receive_on(2, 6, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to p2 as n0 to all"]);
}

/// Sequence numbers wrap from 2^32 - 1 to 0 in the store too.
#[test]
fn stored_sequence_numbers_wrap() {
    let mut fixture = Fixture::new(Role::Relay, SETTINGS);
    let last = u32::MAX;
    fixture.pass(0, spm(0, 3, last - 1, last), none());
    for sqn in [last - 1, last, 0, 1, 2] {
        fixture.pass(0, Body::Odata(Data { sqn, trail: last - 1, payload: b"data" }), none());
    }
    // The oldest packet was evicted.
    fixture.receive_on(1, 5, nak(last - 1), none());
    assert_eq!(fixture.sent()[1..], ["nak 4294967294 to n3"]);
    fixture.receive_on(1, 5, nak(last), list(&[0, 0, 0, 0]));
    assert_eq!(fixture.sent().len(), 4);
    fixture.pass(0, spm(1, 3, 1, 3), none());
    fixture.receive_on(2, 5, nak(0), list(&[0, 0, 0, 1]));
    let answers = [
        "ncf 0 list [1] to p2 as n0 to all",
        "nak 0 to n3",
        "n-nak 1 to n3",
        "rdata 1 trail 1 len 4 to p2 as n0 to all",
    ];
    assert_eq!(fixture.sent(), answers);
}

#[test]
fn repair_keeps_options_of_the_original() {
    let mut fixture = element(&[]);
    fixture.pass(0, odata(3), Options { fin: true, join: Some(7), ..none() });
    fixture.receive_on(1, 5, nak(3), none());
    assert_eq!(fixture.sent()[2..], ["rdata 3 trail 0 len 4 join 7 fin to p1 as n0 to all"]);
}

#[test]
fn element_stores_only_packets_from_the_port_of_spms() {
    let mut fixture = element(&[]);
    assert_eq!(fixture.pass(2, odata(3), none()), "forward");
    fixture.pass(2, rdata(4), none());
    fixture.receive_on(1, 5, nak(3), list(&[0, 0, 0, 4]));
    assert_eq!(fixture.sent()[1..], ["nak 3 list [4] to n3"]);
}

/// The store is off with `ne_dlr_sqns` = 0 and before an SPM has announced a window.
#[test]
fn element_stores_nothing_without_setting_or_window() {
    let mut fixture = element(&[("ne_dlr_sqns", "0")]);
    fixture.receive_on(1, 5, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to p1 as n0 to all", "nak 1 to n3"]);
    let mut fixture = Fixture::new(Role::Relay, SETTINGS);
    fixture.pass(0, odata(0), none());
    let (trail, lead) = Spm::NO_WINDOW;
    fixture.pass(0, spm(0, 3, trail, lead.wrapping_add(1)), none());
    fixture.pass(0, odata(1), none());
    fixture.receive_on(1, 5, nak(0), list(&[0, 0, 0, 1]));
    assert_eq!(fixture.sent()[1..], ["nak 0 list [1] to n3"]);
}

/// The element misses every packet that its parent misses, so it does not offer itself as a repairer.
#[test]
fn repairing_element_does_not_answer_polls() {
    let mut fixture = element(&[("dlr_every", "1")]);
    let passed = "pgm poll 0 round 0 type 1 path 10.0.0.10";
    assert_eq!(fixture.pass(0, Body::Poll(poll(0, 0, 3)), none()), passed);
    fixture.at(5000);
    assert_eq!(fixture.sent(), NO_PACKETS);
}

/// Element that stores packets 1 and 2, with an off-tree repairer, node 5, behind port 2.
fn with_repairer() -> Fixture {
    let mut fixture = element(&[("ne_dlr_sqns", "2"), ("dlr_every", "1"), ("dlr_nak_rpt_ivl", "100 ms")]);
    fixture.pass(0, Body::Poll(poll(0, 0, 3)), none());
    fixture.receive_on(2, 5, Body::Polr { sqn: 0, round: 0 }, redirect(5));
    fixture
}

#[test]
fn off_tree_repairer_is_asked_for_evicted_packet() {
    let mut fixture = with_repairer();
    fixture.receive_on(1, 6, nak(0), list(&[0, 0, 0, 1]));
    let answers = [
        "ncf 0 list [1] to p1 as n0 to all",
        "nak 0 to n5",
        "n-nak 1 to n3",
        "rdata 1 trail 0 len 4 to p1 as n0 to all",
    ];
    assert_eq!(fixture.sent(), answers);
    fixture.receive_on(2, 5, ncf(0), none()).receive_on(2, 5, nnak(0), none()).receive_on(
        2,
        5,
        rdata(0),
        none(),
    );
    assert_eq!(fixture.sent(), ["n-nak 0 to n3", "rdata 0 trail 0 len 4 to p1 as n0 to all"]);
}

/// A packet that never passed is missing at the repairer too: the NAK goes to the source at once.
#[test]
fn off_tree_repairer_is_not_asked_for_packet_lost_above() {
    let mut fixture = with_repairer();
    fixture.receive_on(1, 6, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n3"]);
    assert_eq!(fixture.pass(0, ncf(3), none()), "absorb");
    assert_eq!(fixture.pass(0, rdata(3), none()), "forward on p1");
    // Nor for a gap in what is kept.
    fixture.pass(0, odata(5), none());
    fixture.receive_on(1, 6, nak(4), none());
    assert_eq!(fixture.sent(), ["ncf 4 to p1 as n0 to all", "nak 4 to n3"]);
    // Packets 3 and 5 are stored now; the repairer may hold packet 2.
    fixture.receive_on(1, 6, nak(2), none());
    assert_eq!(fixture.sent(), ["ncf 2 to p1 as n0 to all", "nak 2 to n5"]);
}

/// After a restart, the element does not know which packets passed before.
#[test]
fn restarted_element_asks_the_off_tree_repairer() {
    let mut fixture = Fixture::new(Role::Relay, &[SETTINGS, &[("dlr_every", "1")]].concat());
    fixture.pass(0, spm(7, 3, 0, 9), none());
    fixture.pass(0, Body::Poll(poll(3, 0, 3)), none());
    fixture.receive_on(2, 5, Body::Polr { sqn: 3, round: 0 }, redirect(5));
    fixture.receive_on(1, 6, nak(3), none());
    assert_eq!(fixture.sent()[1..], ["nak 3 to n5"]);
    fixture.pass(0, odata(8), none());
    fixture.receive_on(1, 6, nak(7), none());
    assert_eq!(fixture.sent()[1..], ["nak 7 to n5"]);
    // A repair of the repairer is stored.
    fixture.receive_on(2, 5, ncf(7), none()).receive_on(2, 5, rdata(7), none());
    assert_eq!(fixture.sent(), ["rdata 7 trail 0 len 4 to p1 as n0 to all"]);
    fixture.receive_on(4, 7, nak(7), none());
    assert_eq!(fixture.sent()[2..], ["rdata 7 trail 0 len 4 to p4 as n0 to all"]);
    fixture.receive_on(1, 6, nak(7), none());
    assert_eq!(fixture.sent(), ["ncf 7 to p1 as n0 to all"]);
}

#[test]
fn element_repairs_the_off_tree_repairer() {
    let mut fixture = with_repairer();
    fixture.receive_on(2, 5, nak(1), none());
    assert_eq!(fixture.sent()[2..], ["rdata 1 trail 0 len 4 to p2 as n0 to all"]);
    // The repairer requests a packet that it was asked for: its NAK goes to the source.
    fixture.receive_on(1, 6, nak(0), none()).receive_on(2, 5, nak(0), none());
    let answers = ["ncf 0 to p1 as n0 to all", "nak 0 to n5", "ncf 0 to p2 as n0 to all", "nak 0 to n3"];
    assert_eq!(fixture.sent(), answers);
    assert_eq!(fixture.pass(0, rdata(0), none()), "forward on p1 p2");
}

/// The element forwards an N-NAK from below even if it stores the packet.
#[test]
fn n_nak_of_element_below_is_forwarded() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 5, nnak(1), none());
    assert_eq!(fixture.sent(), ["n-nak 1 to n3"]);
    // The source needs no second N-NAK.
    fixture.receive_on(2, 6, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to p2 as n0 to all", "rdata 1 trail 0 len 4 to p2 as n0 to all"]);
}

#[test]
fn expired_session_frees_the_store() {
    let mut fixture = element(&[("ne_tsi_expiry", "10 s")]);
    fixture.at(10_000);
    fixture.pass(0, spm(0, 3, 0, 3), none());
    fixture.receive_on(1, 5, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to p1 as n0 to all", "nak 1 to n3"]);
}

/// The store keeps a bounded number of distinct packets per source, whatever sequence numbers pass.
#[test]
fn store_is_bounded() {
    let mut fixture = element(&[("ne_dlr_sqns", "4"), ("ne_repairs", "1")]);
    for sqn in (3..2000).chain([1 << 30, (1 << 31) - 1, 1 << 31, u32::MAX]) {
        fixture.pass(0, odata(sqn), none());
        fixture.pass(0, rdata(sqn), none());
    }
    let mut kept = 0;
    for sqn in (0..2000).chain([1 << 30, (1 << 31) - 1, 1 << 31, u32::MAX]) {
        fixture.receive_on(1, 5, nak(sqn), none());
        kept += fixture.sent().iter().filter(|line| line.starts_with("rdata ")).count();
    }
    assert_eq!(kept, 4);
}
