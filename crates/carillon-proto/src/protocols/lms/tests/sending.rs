//! The source, node 0.

use bytes::Bytes;
use carillon_core::{DropReason, Event, OfferError, Role};
use carillon_wire::lms::{Packet, Request};

use super::fixture::{Fixture, refresh, request, turned};

fn source(settings: &[(&str, &str)]) -> Fixture {
    let mut fixture = Fixture::new(Role::Sender, 0, settings);
    assert_eq!(fixture.sent(), ["lms setup next 0 oldest 0 time 0 ns previous none to all"]);
    fixture
}

/// Sending times of packets up to a time, in milliseconds, with their first words.
fn times(fixture: &mut Fixture, to: u64) -> Vec<(u64, String)> {
    let mut sent = Vec::new();
    for now in (0..=to).step_by(10) {
        let word = |line: String| line.split(' ').nth(1).unwrap_or_default().to_owned();
        sent.extend(fixture.at(now).sent().into_iter().map(|line| (now, word(line))));
    }
    sent
}

fn at(time: u64, word: &str) -> (u64, String) {
    (time, word.to_owned())
}

#[test]
fn setup_comes_first_and_is_as_long_as_data() {
    // [N] size of a data packet
    let mut fixture = Fixture::new(Role::Sender, 0, &[]);
    assert_eq!(fixture.lengths(), [118]);
}

#[test]
fn setup_repeats_and_heartbeats_follow_last_message() {
    // choice
    let mut fixture = source(&[("setup_ivl", "2 s"), ("heartbeat", "300 ms")]);
    fixture.offer(1);
    let sent = times(&mut fixture, 4000);
    let expected = [
        at(0, "data"),
        at(300, "spm"),
        at(900, "spm"),
        at(2000, "setup"),
        at(2100, "spm"),
        at(4000, "setup"),
    ];
    assert_eq!(sent, expected);
}

#[test]
fn the_source_offers_itself_when_the_receivers_have() {
    let mut fixture = source(&[("setup_ivl", "2 s"), ("src_refresh", "true")]);
    let sent = times(&mut fixture, 3000);
    assert_eq!(sent, [at(1000, "src_refresh"), at(2000, "setup"), at(3000, "src_refresh")]);
}

#[test]
fn a_request_is_answered_where_it_turned() {
    let mut fixture = source(&[]);
    fixture.offer(3).sent();
    fixture.receive(9, 0, Packet::Req(turned(0, 1, 8, 2)));
    fixture.receive(9, 0, Packet::Req(request(1, 1)));
    fixture.receive(4, 0, Packet::Req(Request { direct: true, ..request(1, 1) }));
    assert_eq!(
        fixture.sent(),
        [
            "lms dmcast on p2 seq 0 oldest 0 len 7 to n8",
            "lms dmcast on p2 seq 1 oldest 0 len 7 to n8",
            "lms repair seq 1 oldest 0 len 7 to all",
            "lms repair seq 1 oldest 0 len 7 to n4",
        ]
    );
}

#[test]
fn a_repair_is_as_long_as_the_message_was() {
    // [N] data size
    let mut fixture = source(&[]);
    fixture.offer(1);
    fixture.receive(9, 0, Packet::Req(turned(0, 0, 8, 2))).receive(9, 0, Packet::Req(request(0, 0)));
    assert_eq!(fixture.lengths(), [25, 25, 25]);
}

#[test]
fn only_first_transmissions_are_originals() {
    let mut fixture = source(&[]);
    fixture.offer(1).receive(9, 0, Packet::Req(request(0, 0)));
    assert_eq!(fixture.originals(), [Some(0), None]);
    let events = fixture.events();
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Sent { .. })).count(), 1);
    assert_eq!(events.iter().filter(|event| matches!(event, Event::RepairSent { .. })).count(), 1);
}

#[test]
fn the_same_request_is_answered_once() {
    let mut fixture = source(&[]);
    fixture.offer(1).sent();
    fixture.receive(8, 0, Packet::Req(request(0, 0))).receive(9, 0, Packet::Req(request(0, 0)));
    assert_eq!(fixture.drops(), [DropReason::Redundant]);
    assert_eq!(fixture.sent().len(), 1);
    fixture.receive(9, 0, Packet::Req(Request { attempt: 1, ..request(0, 0) }));
    assert_eq!(fixture.sent().len(), 1);
    // Each that asks directly has its own answer.
    let direct = Request { direct: true, attempt: 6, ..request(0, 0) };
    fixture.receive(3, 0, Packet::Req(direct)).receive(4, 0, Packet::Req(direct)).receive(
        4,
        0,
        Packet::Req(direct),
    );
    assert_eq!(fixture.sent().len(), 2);
}

#[test]
fn request_for_discarded_message_is_refused() {
    // choice
    let mut fixture = source(&[("buffer", "2")]);
    fixture.offer(5).sent();
    fixture.receive(9, 0, Packet::Req(turned(1, 3, 8, 2)));
    assert_eq!(
        fixture.sent(),
        ["lms spm next 5 oldest 3 previous none to all", "lms dmcast on p2 seq 3 oldest 3 len 7 to n8"]
    );
    // Not to all again at once, whoever asks.
    fixture.at(99).receive(9, 0, Packet::Req(request(0, 0)));
    assert!(fixture.sent().is_empty());
    fixture.at(100).receive(9, 0, Packet::Req(request(2, 2)));
    assert_eq!(fixture.sent(), ["lms spm next 5 oldest 3 previous none to all"]);
    fixture.receive(4, 0, Packet::Req(Request { direct: true, ..request(0, 0) }));
    assert_eq!(fixture.sent(), ["lms spm next 5 oldest 3 previous none to n4"]);
}

#[test]
fn messages_are_paced_and_send_queue_is_bounded() {
    // choice
    let mut fixture = source(&[("send_interval", "10 ms"), ("heartbeat", "0 s")]);
    fixture.offer(65);
    let sender = fixture.machine().as_sender().expect("a source");
    assert_eq!(sender.offer(carillon_core::Time::ZERO, Bytes::new()), Err(OfferError::Full));
    sender.finish(carillon_core::Time::ZERO);
    assert!(!sender.is_finished());
    let sent = times(&mut fixture, 1000);
    assert_eq!(sent.len(), 65);
    assert_eq!((sent[1].0, sent[64].0), (10, 640));
    let sender = fixture.machine().as_sender().expect("a source");
    assert!(sender.is_finished());
}

#[test]
fn source_stays_replier_at_its_own_router() {
    let mut fixture = source(&[]);
    fixture.receive(9, 0, refresh(0, 0)).receive(9, 0, Packet::Leave);
    assert!(fixture.drops().is_empty());
    fixture.receive(9, 0, Packet::Req(request(0, 0)));
    assert_eq!(fixture.drops(), [DropReason::OutOfWindow], "it has sent nothing");
    assert!(fixture.sent().is_empty());
}

#[test]
fn repeated_requests_are_limited_by_budget() {
    let mut fixture = source(&[("repair_budget", "9"), ("heartbeat", "0 s"), ("setup_ivl", "1000 s")]);
    fixture.offer(3).sent();
    let mut repairs = 0;
    for attempt in 0..2000 {
        fixture.at(u64::from(attempt) * 10);
        fixture.receive(9, 0, Packet::Req(Request { direct: true, attempt, ..request(0, 2) }));
        repairs += fixture.sent().len();
    }
    // 1024, and nine for each of the three messages.
    assert_eq!(repairs, 1024 + 27);
    assert!(fixture.drops().contains(&DropReason::Redundant));
}

#[test]
fn recent_repair_is_not_repeated() {
    let mut fixture = source(&[("repair_holdoff", "8 ms"), ("heartbeat", "0 s")]);
    fixture.offer(2).sent();
    let ask = |fixture: &mut Fixture, at, attempt, direct| {
        fixture.at(at).receive(9, 0, Packet::Req(Request { attempt, direct, ..request(0, 0) })).sent().len()
    };
    assert_eq!(ask(&mut fixture, 0, 0, false), 1);
    assert_eq!(ask(&mut fixture, 7, 1, false), 0);
    // A repair to all also answers a single requester.
    assert_eq!(ask(&mut fixture, 7, 2, true), 0);
    assert_eq!(ask(&mut fixture, 8, 3, true), 1);
    // What went to one has not gone to all.
    assert_eq!(ask(&mut fixture, 9, 4, false), 1);
}
