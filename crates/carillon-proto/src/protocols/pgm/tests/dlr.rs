//! Designated local repairers. The element is node 9, with the source behind port 0 and node 3 upstream. The
//! repairer, node 5, is behind port 2; receivers are behind ports 1 and 4.

use carillon_core::{DropReason, Event, Role};
use carillon_wire::pgm::{Body, Poll};

use super::fixture::{Fixture, list, message, nak, ncf, nnak, none, odata, poll, rdata, redirect, spm, time};

const NO_PACKETS: [&str; 0] = [];
const SETTINGS: &[(&str, &str)] = &[
    ("dlr_every", "1"),
    ("nak_elim_ivl", "500 ms"),
    ("ne_nak_rpt_rte", "50 ms"),
    ("dlr_nak_rpt_ivl", "100 ms"),
    ("dlr_expiry", "5 s"),
    ("nak_bo_ivl", "0 ms"),
];

fn fixture(role: Role, settings: &[(&str, &str)]) -> Fixture {
    Fixture::new(role, &[SETTINGS, settings].concat())
}

fn answer(sqn: u32) -> Body<'static> {
    Body::Polr { sqn, round: 0 }
}

/// Element with one repairer.
fn element(settings: &[(&str, &str)]) -> Fixture {
    let mut fixture = fixture(Role::Relay, settings);
    fixture.pass(0, spm(0, 3, 0, 0), none());
    fixture.pass(0, Body::Poll(poll(0, 0, 3)), none());
    fixture.receive_on(2, 5, answer(0), redirect(5));
    assert!(fixture.events().contains(&Event::Received { packet: "polr", message: message(0) }));
    fixture
}

/// Repairer below element 9 that holds packets 0 to 2.
fn repairer(settings: &[(&str, &str)]) -> Fixture {
    let mut fixture = fixture(Role::Receiver, settings);
    fixture.receive(0, spm(0, 9, 0, 0), none());
    for sqn in 0..3 {
        fixture.receive(0, odata(sqn), none());
    }
    fixture.events();
    fixture
}

/// The source sends POLLs only if `dlr_every` asks for designated local repairers.
#[test]
fn source_polls_for_repairers_only_if_configured() {
    let mut fixture = Fixture::new(Role::Sender, &[("dlr_every", "3"), ("dlr_poll_ivl", "1 s")]);
    let begin = [
        "spm 0 trail 0 lead 4294967295 path 10.0.0.1 join 0 to all",
        "poll 0 round 0 type 1 path 10.0.0.1 to all",
    ];
    assert_eq!(fixture.sent(), begin);
    fixture.at(2500);
    assert_eq!(fixture.sent().iter().filter(|line| line.starts_with("poll ")).count(), 2);
    let mut fixture = Fixture::new(Role::Sender, &[("dlr_every", "3"), ("txw_secs", "1500 ms")]);
    fixture.finish();
    fixture.at(60_000);
    assert_eq!(fixture.sent().iter().filter(|line| line.starts_with("poll ")).count(), 2);
    assert_eq!(fixture.timer(), None);
    let mut fixture = Fixture::new(Role::Sender, &[]);
    fixture.at(5000);
    assert!(fixture.sent().iter().all(|line| line.starts_with("spm ")));
}

#[test]
fn element_forwards_polls_of_its_parent_as_its_own() {
    let mut relay = fixture(Role::Relay, &[]);
    assert_eq!(relay.pass(0, Body::Poll(poll(0, 0, 3)), none()), "forward");
    relay.pass(0, spm(0, 3, 0, 0), none());
    let passed = "pgm poll 1 round 0 type 1 path 10.0.0.10";
    assert_eq!(relay.pass(0, Body::Poll(poll(1, 0, 3)), none()), passed);
    assert_eq!(relay.pass(1, Body::Poll(poll(2, 0, 3)), none()), "absorb");
}

#[test]
fn repairer_answers_its_parents_poll_after_random_delay() {
    let mut fixture = repairer(&[]);
    fixture.receive(0, Body::Poll(poll(4, 0, 9)), none());
    let at = fixture.timer().expect("an answer");
    assert!(at <= time(50), "{at}");
    fixture.at(50);
    assert_eq!(fixture.sent(), ["polr 4 round 0 redirect 10.0.0.6 to n9"]);
    // Ignored: a repeated POLL, an older one, another parent's, another subtype, other addressees, and a later round
    // without its first.
    let other = Poll { subtype: 0, ..poll(6, 0, 9) };
    let [zeros, ones] = [0, u32::MAX].map(|random| Poll { random, mask: 1, ..poll(8, 0, 9) });
    for poll in [poll(4, 0, 9), poll(3, 0, 9), poll(5, 0, 8), other, poll(7, 1, 9)] {
        fixture.receive(0, Body::Poll(poll), none());
    }
    fixture.at(200);
    assert_eq!(fixture.sent(), NO_PACKETS);
    fixture.receive(0, Body::Poll(zeros), none()).receive(0, Body::Poll(Poll { sqn: 9, ..ones }), none());
    // A new POLL replaces the pending one; exactly one of the two addresses this node.
    fixture.at(300);
    assert!(fixture.sent().len() <= 1);
    fixture.receive(0, Body::Poll(Poll { sqn: 10, ..ones }), none()).at(400);
    let first = fixture.sent().len();
    fixture.receive(0, Body::Poll(Poll { sqn: 11, ..zeros }), none()).at(500);
    assert_eq!(first + fixture.sent().len(), 1);
}

/// Neither an ordinary receiver nor a repairer directly below the source answers a POLL.
#[test]
fn other_receivers_answer_no_poll() {
    let mut fixture = Fixture::new(Role::Receiver, &[]);
    fixture.receive(0, spm(0, 9, 0, 0), none());
    fixture.receive(0, Body::Poll(poll(0, 0, 9)), none());
    assert_eq!(fixture.timer(), None);
    let mut fixture = Fixture::new(Role::Receiver, &[("dlr_every", "1")]);
    fixture.receive(0, spm(0, 0, 0, 0), none());
    fixture.receive(0, Body::Poll(poll(0, 0, 0)), none());
    assert_eq!(fixture.timer(), None);
}

#[test]
fn repairer_sends_ncf_n_nak_and_repair_to_its_parent() {
    let mut fixture = repairer(&[]);
    fixture.receive(9, nak(0), list(&[0, 0, 0, 2]));
    let answers = [
        "ncf 0 list [2] to n9",
        "n-nak 0 list [2] to n9",
        "rdata 0 trail 0 len 4 to n9",
        "rdata 2 trail 0 len 4 to n9",
    ];
    assert_eq!(fixture.sent(), answers);
    // It serves its parent only.
    fixture.events();
    fixture.receive(8, nak(0), none());
    assert_eq!(fixture.drops(), [DropReason::Foreign]);
    assert_eq!(fixture.sent(), NO_PACKETS);
}

#[test]
fn repairer_requests_missing_packet_instead_of_answering() {
    let mut fixture = repairer(&[("nak_bo_ivl", "30 ms")]);
    fixture.receive(9, nak(1), list(&[0, 0, 0, 3]));
    let answers = ["ncf 1 to n9", "n-nak 1 to n9", "rdata 1 trail 0 len 4 to n9", "nak 3 to n9"];
    assert_eq!(fixture.sent(), answers);
    // A pending NAK is not repeated.
    fixture.receive(9, nak(3), none());
    assert_eq!(fixture.sent(), NO_PACKETS);
}

#[test]
fn repairer_holds_newest_packets_of_the_transmit_window() {
    let mut fixture = repairer(&[("dlr_sqns", "2")]);
    fixture.receive(9, nak(0), none());
    assert_eq!(fixture.sent(), NO_PACKETS);
    fixture.receive(9, nak(1), none());
    assert_eq!(fixture.sent().len(), 3);
    fixture.receive(0, spm(1, 9, 2, 3), none());
    fixture.receive(9, nak(1), none());
    assert_eq!(fixture.sent(), NO_PACKETS);
    fixture.receive(9, nak(2), none());
    assert_eq!(fixture.sent()[2..], ["rdata 2 trail 2 len 4 to n9"]);
}

#[test]
fn element_forwards_repair_of_repairer_to_the_group() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 6, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n5"]);
    fixture.receive_on(2, 5, ncf(3), none());
    // The N-NAK is the only packet that tells the source.
    fixture.receive_on(2, 5, nnak(3), none());
    assert_eq!(fixture.sent(), ["n-nak 3 to n3"]);
    fixture.receive_on(4, 7, nak(3), none());
    // After the NCF the NAK is not repeated, and further NAKs are eliminated.
    fixture.at(400);
    assert_eq!(fixture.sent(), ["ncf 3 to p4 as n0 to all"]);
    fixture.receive_on(2, 5, rdata(3), none());
    assert_eq!(fixture.sent(), ["rdata 3 trail 0 len 4 to p1 p4 as n0 to all"]);
    // The repair deleted the state.
    fixture.receive_on(2, 5, rdata(3), none());
    fixture.at(600);
    assert_eq!(fixture.sent(), NO_PACKETS);
    assert_eq!(fixture.pass(0, rdata(3), none()), "absorb");
    // Only the session's expiry timer is left.
    assert_eq!(fixture.timer(), Some(time(300_000)));
}

#[test]
fn repairer_without_ncf_is_dropped_in_favour_of_the_source() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 6, nak(3), none());
    fixture.at(99);
    assert_eq!(fixture.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n5", "nak 3 to n5"]);
    fixture.at(100);
    assert_eq!(fixture.sent(), ["nak 3 to n3"]);
    // The element repeats the NAK upstream, and sends later NAKs there too.
    fixture.at(150);
    assert_eq!(fixture.sent(), ["nak 3 to n3"]);
    fixture.receive_on(1, 6, nak(4), none());
    assert_eq!(fixture.sent(), ["ncf 4 to p1 as n0 to all", "nak 4 to n3"]);
    // An NCF and repair of the dropped repairer come too late.
    fixture.receive_on(2, 5, ncf(3), none()).receive_on(2, 5, rdata(3), none());
    assert_eq!(fixture.sent(), NO_PACKETS);
    assert_eq!(fixture.pass(0, rdata(3), none()), "forward on p1");
    // A new POLR registers it again.
    fixture.receive_on(2, 5, answer(0), redirect(5));
    fixture.receive_on(1, 6, nak(5), none());
    assert_eq!(fixture.sent(), ["ncf 5 to p1 as n0 to all", "nak 5 to n5"]);
}

#[test]
fn requesting_repairer_gets_no_request() {
    let mut fixture = element(&[]);
    // A NAK from the repairer's own port goes upstream.
    fixture.receive_on(2, 5, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p2 as n0 to all", "nak 3 to n3"]);
    // A NAK of the repairer for a packet it was asked for redirects the request to the source and keeps the repairer.
    fixture.receive_on(1, 6, nak(4), none());
    fixture.at(10).receive_on(2, 5, nak(4), none());
    let sent = ["ncf 4 to p1 as n0 to all", "nak 4 to n5", "ncf 4 to p2 as n0 to all", "nak 4 to n3"];
    assert_eq!(fixture.sent(), sent);
    fixture.pass(0, ncf(3), list(&[0, 0, 0, 4]));
    fixture.at(200).receive_on(1, 6, nak(5), none());
    assert_eq!(fixture.sent(), ["ncf 5 to p1 as n0 to all", "nak 5 to n5"]);
    assert_eq!(fixture.pass(0, rdata(4), none()), "forward on p1 p2");
}

/// The repair was lost on its way to the element: the second NAK goes upstream.
#[test]
fn repairer_gets_one_request_per_packet() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 6, nak(3), none()).receive_on(2, 5, ncf(3), none());
    fixture.sent();
    fixture.at(500).receive_on(1, 6, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n3"]);
}

#[test]
fn requests_to_different_nodes_go_in_separate_packets() {
    let mut fixture = element(&[]);
    fixture.receive_on(2, 5, nak(4), none());
    fixture.receive_on(1, 6, nak(3), list(&[0, 0, 0, 5, 0, 0, 0, 6]));
    fixture.sent();
    // All NAKs are due again at once, in the order of their sequence numbers.
    fixture.at(50);
    assert_eq!(fixture.sent(), ["nak 3 to n5", "nak 4 to n3", "nak 5 list [6] to n5"]);
}

#[test]
fn repairer_expires_unless_it_answers_again() {
    let mut fixture = element(&[("dlr_expiry", "5 s")]);
    fixture.at(4999).receive_on(1, 6, nak(3), none());
    assert_eq!(fixture.sent()[1..], ["nak 3 to n5"]);
    fixture.receive_on(2, 5, rdata(3), none());
    fixture.sent();
    fixture.at(5000).receive_on(1, 6, nak(4), none());
    assert_eq!(fixture.sent()[1..], ["nak 4 to n3"]);
}

#[test]
fn element_accepts_limited_number_of_polled_children() {
    let mut fixture = element(&[("ne_dlrs", "1")]);
    fixture.events();
    // An old POLL, an answer from upstream, and another node's address.
    fixture.receive_on(4, 7, answer(9), redirect(7)).receive_on(0, 7, answer(0), redirect(7));
    fixture.receive_on(4, 7, answer(0), redirect(6)).receive_on(4, 7, answer(0), none());
    assert_eq!(fixture.drops(), [DropReason::Foreign; 4]);
    fixture.receive_on(4, 7, answer(0), redirect(7));
    assert_eq!(fixture.drops(), [DropReason::BufferFull]);
    fixture.at(5000).receive_on(4, 7, answer(0), redirect(7));
    assert_eq!(fixture.drops(), []);
}

#[test]
fn element_ignores_answers_of_other_repairers() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 6, nak(3), none());
    fixture.sent();
    fixture.receive_on(4, 7, ncf(3), none()).receive_on(4, 7, rdata(3), none());
    fixture.at(50);
    assert_eq!(fixture.sent(), ["nak 3 to n5"]);
}

#[test]
fn unicast_of_repairers_to_other_elements_passes() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 6, nak(3), none());
    for packet in [ncf(3), rdata(3), rdata(7)] {
        assert_eq!(fixture.pass_to_node(0, packet), "forward");
    }
    assert_eq!(fixture.pass(0, rdata(3), none()), "forward on p1");
}

#[test]
fn n_nak_is_forwarded_once_and_suppresses_no_nak() {
    let mut fixture = element(&[]);
    fixture.receive_on(2, 5, nnak(3), list(&[0, 0, 0, 4]));
    assert_eq!(fixture.sent(), ["n-nak 3 list [4] to n3"]);
    fixture.at(499).receive_on(2, 5, nnak(3), none());
    assert_eq!(fixture.sent(), NO_PACKETS);
    fixture.receive_on(2, 5, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p2 as n0 to all", "nak 3 to n3"]);
    // The source knows of packets with a forwarded NAK.
    fixture.at(600);
    fixture.sent();
    fixture.receive_on(2, 5, nnak(3), list(&[0, 0, 0, 4]));
    assert_eq!(fixture.sent(), ["n-nak 4 to n3"]);
    // An N-NAK creates no repair state.
    assert_eq!(fixture.pass(0, rdata(4), none()), "absorb");
}

#[test]
fn n_nak_makes_the_source_keep_but_not_repair() {
    let settings =
        [("window_advance", "data"), ("txw_adv_ivl", "1 s"), ("txw_sqns", "2"), ("rdata_delay", "0 ms")];
    let mut fixture = Fixture::new(Role::Sender, &settings);
    assert!(fixture.offer("zero") && fixture.offer("one"));
    fixture.at(900);
    fixture.sent();
    fixture.receive(9, nnak(0), none());
    assert_eq!(fixture.sent(), NO_PACKETS);
    fixture.at(1000);
    assert!(!fixture.offer("two"));
    fixture.at(1900);
    assert!(fixture.offer("two"));
}
