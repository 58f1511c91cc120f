//! Tests of congestion control (PGMCC, draft-ietf-rmt-bb-pgmcc-03).

use carillon_core::{DropReason, Role};
use carillon_wire::pgm::{Ack, AckerElection, Body, LossReport, Options};

use super::fixture::{Fixture, address, list, nak, none, odata, spm};

fn source() -> Fixture {
    let mut fixture = Fixture::new(Role::Sender, &[("congestion", "pgmcc"), ("spm_ivl", "1 h")]);
    for payload in ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"] {
        assert!(fixture.offer(payload));
    }
    fixture
}

fn ack(newest: u32, bitmap: u32) -> Body<'static> {
    Body::Ack(Ack { newest, bitmap })
}

/// Report of the receiver at this node: a loss rate in 65536ths.
fn report(timestamp_ms: u32, loss: u16, node: u32) -> Options<'static> {
    Options { report: Some(LossReport { timestamp_ms, loss, receiver: address(node) }), ..none() }
}

/// Option of a data packet that names the acker at this node.
fn elects(timestamp_ms: u32, node: Option<u32>) -> Options<'static> {
    let acker = node.map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), address);
    Options { election: Some(AckerElection { timestamp_ms, acker }), ..none() }
}

/// Data packets since the last call: sequence number, and last octet of the acker's address.
fn data(fixture: &mut Fixture) -> Vec<(u32, u32)> {
    let word = |line: &str, after: &str| -> String {
        line.split(after).nth(1).and_then(|rest| rest.split(' ').next()).expect("it is there").to_owned()
    };
    let lines = fixture.sent().into_iter().filter(|line| line.starts_with("first odata"));
    let node = |line: &str| word(line, "acker ").rsplit('.').next().and_then(|octet| octet.parse().ok());
    lines
        .map(|line| (word(&line, "odata ").parse().expect("a number"), node(&line).expect("an octet")))
        .collect()
}

/// Sections 2.2 and 2.5: the window begins with one packet, which names no acker.
#[test]
fn first_answer_elects_acker_and_acks_open_window() {
    let mut fixture = source();
    assert_eq!(data(&mut fixture), [(0, 0)]);
    fixture.at(50).receive(5, ack(0, 1), report(30, 0, 5));
    assert_eq!(data(&mut fixture), [(1, 6)]);
    // Slow start up to four packets: each acknowledgment adds one.
    fixture.at(70).receive(5, ack(1, 0b11), report(50, 0, 5));
    assert_eq!(data(&mut fixture), [(2, 6), (3, 6)]);
    fixture.at(90).receive(5, ack(3, 0b1111), report(70, 0, 5));
    assert_eq!(data(&mut fixture).len(), 4);
}

/// Section 2.2: a loss halves the window, and acknowledgments of another receiver change nothing.
#[test]
fn loss_at_acker_halves_window() {
    let mut fixture = source();
    for number in 0..4 {
        fixture.receive(5, ack(number, u32::MAX), report(0, 0, 5));
    }
    // Window 4; packets 4 to 7 are in flight.
    assert_eq!(data(&mut fixture).last(), Some(&(7, 6)));
    fixture.receive(6, ack(7, u32::MAX), report(0, 0, 6));
    assert_eq!(fixture.drops(), [DropReason::Redundant]);
    assert_eq!(data(&mut fixture), []);
    // Packet 4 is lost: three packets later the window is two.
    fixture.receive(5, ack(7, 0b1111_0111), report(0, 1000, 5));
    assert_eq!(data(&mut fixture), [(8, 6), (9, 6)]);
}

/// Section 2.3: the receiver to which TCP would be slower by a quarter becomes the acker; the former one still clocks.
#[test]
fn report_in_nak_elects_slower_receiver() {
    let mut fixture = source();
    fixture.at(20).receive(5, ack(0, 1), report(0, 500, 5));
    assert_eq!(data(&mut fixture), [(0, 0), (1, 6)]);
    // The same loss rate and round-trip time is no reason.
    fixture.receive(7, nak(0), report(0, 520, 7));
    fixture.at(40).receive(5, ack(1, 0b11), report(20, 500, 5));
    assert_eq!(data(&mut fixture), [(2, 6), (3, 6)]);
    fixture.receive(7, nak(0), report(20, 2000, 7));
    fixture.receive(5, ack(2, 0b111), report(20, 500, 5));
    assert_eq!(data(&mut fixture), [(4, 8)]);
}

/// Section 2.7: a timeout leaves one packet, and a second one ends the role of the acker.
#[test]
fn silent_acker_is_dropped_after_two_timeouts() {
    let mut fixture = source();
    for number in 0..3 {
        fixture.receive(5, ack(number, u32::MAX), report(0, 0, 5));
    }
    data(&mut fixture);
    let mut later = Vec::new();
    for ms in (0..3000).step_by(100) {
        fixture.at(ms);
        later.extend(data(&mut fixture));
    }
    assert_eq!(later.first(), Some(&(6, 6)));
    assert_eq!(later.get(1), Some(&(7, 0)));
    assert!(later.len() <= 3, "{later:?}");
}

#[test]
fn implausible_reports_are_ignored() {
    let mut fixture = source();
    data(&mut fixture);
    // From the future, without an address, and for a packet that was not sent.
    fixture.at(10).receive(5, ack(0, 1), report(11, 0, 5));
    let nobody = LossReport { timestamp_ms: 0, loss: 9, receiver: std::net::Ipv4Addr::UNSPECIFIED.into() };
    fixture.receive(5, ack(0, 1), Options { report: Some(nobody), ..none() });
    fixture.receive(5, ack(0, 1), none());
    assert_eq!(fixture.drops().len(), 3);
    assert_eq!(data(&mut fixture), []);
    fixture.receive(5, ack(1, 1), report(0, 0, 5));
    assert_eq!(data(&mut fixture), []);
    // Without the option, acknowledgments are foreign.
    let mut plain = Fixture::new(Role::Sender, &[]);
    plain.offer("zero");
    assert!(!plain.sent().iter().any(|line| line.contains("acker")));
    plain.receive(5, ack(0, 1), report(0, 0, 5));
    assert_eq!(plain.drops(), [DropReason::Foreign]);
}

/// Section 2.5: without an acker every receiver answers after a random wait; the acker answers each packet.
#[test]
fn receiver_acks_as_acker_and_proposes_itself_without_one() {
    let mut fixture = Fixture::new(Role::Receiver, &[("nak_bo_ivl", "30 ms")]);
    fixture.receive(0, spm(0, 0, 0, 0), none());
    fixture.receive(0, odata(0), elects(700, None));
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.at(30);
    let lines = fixture.sent();
    assert!(lines[0].starts_with("ack 0 map 00000001 at 7"), "{lines:?}");
    assert!(lines.len() == 1 && lines[0].ends_with("loss 0 of 10.0.0.6 to n0"), "{lines:?}");
    // Another receiver is the acker.
    fixture.receive(0, odata(1), elects(800, None)).receive(0, odata(2), elects(810, Some(7)));
    fixture.at(100);
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.receive(0, odata(3), elects(900, Some(5)));
    assert_eq!(fixture.sent(), ["ack 3 map 0000000f at 900 loss 0 of 10.0.0.6 to n0"]);
    // Packet 4 is lost; the report of the NAK counts the time since the last packet.
    fixture.receive(0, odata(5), elects(950, Some(7))).at(140);
    let lines = fixture.sent();
    assert!(lines[0].starts_with("nak 4 at 9") && lines[0].contains(" loss 496 of 10.0.0.6"), "{lines:?}");
}

/// Network elements pass acknowledgments on, and the report with the NAK that they send for a receiver's.
#[test]
fn element_forwards_acks_and_reports() {
    let mut fixture = Fixture::new(Role::Relay, &[]);
    fixture.pass(0, spm(0, 0, 0, 10), none());
    fixture.receive_on(1, 5, ack(3, 0xf), report(40, 7, 5));
    assert_eq!(fixture.sent(), ["ack 3 map 0000000f at 40 loss 7 of 10.0.0.6 to n0"]);
    // From above.
    fixture.receive_on(0, 5, ack(3, 0xf), report(40, 7, 5));
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.receive_on(1, 5, nak(2), report(50, 8, 5));
    assert_eq!(fixture.sent()[1], "nak 2 at 50 loss 8 of 10.0.0.6 to n0");
    // An eliminated NAK takes its report with it.
    fixture.receive_on(2, 6, nak(2), report(60, 9, 6));
    fixture.receive_on(2, 6, nak(4), list(&[]));
    let lines = fixture.sent();
    assert!(lines.iter().any(|line| line == "nak 4 to n0"), "{lines:?}");
}
