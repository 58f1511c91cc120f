//! Tests of the sequencer.

use carillon_core::{DropReason, Event};
use carillon_wire::sequencer::{Body, Report};

use super::fixture::{MEMBERS, Member, report, request};

const NO_PACKETS: [&str; 0] = [];

#[test]
fn messages_are_multicast_in_arrival_order() {
    let mut sequencer = Member::new(0, &[]);
    let sent = sequencer.receive(2, request(0, 0));
    assert_eq!(sent, ["ordered view 0 order 0 accepted 1 purge 0 source 2 message 0 len 1 to all"]);
    sequencer.offer("ab").unwrap();
    let sent = sequencer.sent();
    assert_eq!(sent, ["ordered view 0 order 1 accepted 2 purge 0 source 0 message 0 len 2 to all"]);
    assert_eq!(sequencer.take_all(), [(2, 0), (0, 0)]);
}

#[test]
fn ordered_message_gets_no_second_sequence_number() {
    let mut sequencer = Member::new(0, &[]);
    sequencer.receive(2, request(0, 0));
    let sent = sequencer.receive(2, request(0, 0));
    assert_eq!(sent, ["alive view 0 next 1 accepted 1 purge 0 wanted {} to rank 2"]);
    assert_eq!(sequencer.drops(), [DropReason::Duplicate]);
}

#[test]
fn message_waits_for_earlier_ones_of_its_source() {
    let mut sequencer = Member::new(0, &[("window", "4")]);
    assert_eq!(sequencer.receive(2, request(0, 1)), NO_PACKETS);
    let sent = sequencer.receive(2, request(0, 0));
    assert_eq!(sent.len(), 2);
    assert_eq!(sequencer.take_all(), [(2, 0), (2, 1)]);
    sequencer.events();
    sequencer.receive(2, request(0, 6));
    assert_eq!(sequencer.drops(), [DropReason::OutOfWindow], "no member has more outstanding");
}

#[test]
fn repair_goes_to_requester_only() {
    let mut sequencer = Member::new(0, &[]);
    sequencer.receive(2, request(0, 0));
    let sent = sequencer.receive(1, Body::Retrans { ack: 0, order: 0 });
    assert_eq!(sent, ["ordered view 0 order 0 accepted 1 purge 0 source 2 message 0 len 1 to rank 1"]);
    let again = |event: &Event| matches!(event, Event::Forwarded { repair: true, .. });
    assert!(sequencer.events().iter().any(again));
    assert_eq!(sequencer.receive(1, Body::Retrans { ack: 0, order: 1 }), NO_PACKETS, "there is no such");
}

#[test]
fn broadcast_message_gets_short_ordered_packet() {
    // Amoeba: the sequencer sends its own messages with their payload.
    let mut sequencer = Member::new(0, &[("method", "bb")]);
    let body = Body::Request { ack: 0, message: 0, broadcast: true, payload: b"abc" };
    let sent = sequencer.receive(2, body);
    assert_eq!(sent, ["short view 0 order 0 accepted 1 purge 0 source 2 message 0 to all"]);
    sequencer.offer("a").unwrap();
    assert!(sequencer.sent()[0].starts_with("ordered view 0 order 1"));
    let sent = sequencer.receive(1, Body::Retrans { ack: 0, order: 0 });
    assert!(sent[0].starts_with("ordered view 0 order 0") && sent[0].ends_with("len 3 to rank 1"));
}

#[test]
fn message_is_accepted_when_resilience_members_hold_it() {
    let mut sequencer = Member::new(0, &[("resilience", "2")]);
    let sent = sequencer.receive(3, request(0, 0));
    assert_eq!(sent, ["ordered view 0 order 0 accepted 0 purge 0 source 3 message 0 len 1 to all"]);
    assert_eq!(sequencer.receive(1, report(Report::Ack, 1)), NO_PACKETS);
    assert_eq!(sequencer.take_all(), []);
    let sent = sequencer.receive(2, report(Report::Ack, 1));
    assert_eq!(sent, ["accept view 0 next 1 accepted 1 purge 0 wanted {} to all"]);
    assert_eq!(sequencer.take_all(), [(3, 0)]);
}

#[test]
fn repeated_acknowledgment_counts_once() {
    let mut sequencer = Member::new(0, &[("resilience", "2")]);
    sequencer.receive(3, request(0, 0));
    sequencer.receive(1, report(Report::Ack, 1));
    sequencer.receive(1, report(Report::Ack, 1));
    assert_eq!(sequencer.take_all(), []);
    // An acknowledgment of messages not yet ordered is ignored.
    sequencer.receive(2, report(Report::Ack, 9));
    sequencer.receive(3, request(1, 1));
    assert_eq!(sequencer.take_all(), [(3, 0)]);
}

#[test]
fn full_history_synchronises_in_two_phases() {
    let mut sequencer = Member::new(0, &[("history", "4")]);
    for number in 0..4 {
        assert_eq!(sequencer.receive(3, request(0, number)).len(), 1);
        sequencer.take_all();
    }
    let sent = sequencer.receive(3, request(4, 4));
    assert_eq!(sent, ["phase1 view 0 next 4 accepted 4 purge 0 wanted {1 2} to all"]);
    assert_eq!(sequencer.receive(1, report(Report::AckCommit, 4)), NO_PACKETS);
    assert_eq!(sequencer.at(50), ["phase1 view 0 next 4 accepted 4 purge 0 wanted {2} to all"], "again");
    let sent = sequencer.receive(2, report(Report::AckCommit, 4));
    assert_eq!(sent, ["phase2 view 0 next 4 accepted 4 purge 4 wanted {1 2 3} to all"]);
    assert_eq!(sequencer.receive(1, report(Report::AckPhase2, 4)), NO_PACKETS);
    assert_eq!(sequencer.receive(2, report(Report::AckPhase2, 4)), NO_PACKETS);
    let sent = sequencer.receive(3, report(Report::AckPhase2, 4));
    assert_eq!(sent, ["ordered view 0 order 4 accepted 5 purge 4 source 3 message 4 len 1 to all"]);
}

#[test]
fn idle_sequencer_polls_unconfirmed_members() {
    let mut sequencer = Member::new(0, &[]);
    sequencer.receive(3, request(0, 0));
    sequencer.receive(1, report(Report::Dummy, 1));
    assert_eq!(sequencer.at(99), NO_PACKETS);
    assert_eq!(sequencer.at(100), ["phase1 view 0 next 1 accepted 1 purge 0 wanted {2 3} to all"]);
    sequencer.receive(2, report(Report::AckCommit, 1));
    sequencer.receive(3, report(Report::AckCommit, 1));
    assert_eq!(sequencer.at(10_000), NO_PACKETS);
}

#[test]
fn basic_form_drops_silent_member_until_it_answers() {
    let mut sequencer = Member::new(0, &[("tries", "3")]);
    sequencer.receive(3, request(0, 0));
    sequencer.receive(1, report(Report::Dummy, 1));
    sequencer.receive(2, report(Report::Dummy, 1));
    assert_eq!(sequencer.at(300).len(), 3);
    sequencer.events();
    sequencer.at(400);
    assert!(sequencer.events().contains(&Event::MemberLost { member: MEMBERS[3] }));
    assert_eq!(sequencer.at(10_000), NO_PACKETS);
    sequencer.receive(3, report(Report::AliveReq, 0));
    assert!(sequencer.events().contains(&Event::MemberJoined { member: MEMBERS[3] }));
    assert_eq!(sequencer.at(10_100).len(), 1, "and is asked again");
}

#[test]
fn request_for_purged_message_is_answered_gone() {
    let mut sequencer = Member::new(0, &[("history", "4"), ("tries", "1")]);
    for number in 0..4 {
        sequencer.receive(3, request(number, number));
        sequencer.take_all();
    }
    sequencer.at(1_000);
    for number in 4..9 {
        sequencer.receive(3, request(number, number));
        sequencer.take_all();
    }
    let sent = sequencer.receive(1, Body::Retrans { ack: 0, order: 0 });
    assert!(sent.iter().any(|line| line.starts_with("gone view 0 order")), "{sent:?}");
}

#[test]
fn senders_take_turns() {
    let mut sequencer = Member::new(0, &[("history", "4"), ("window", "8")]);
    for number in 0..8 {
        sequencer.receive(2, request(0, number));
    }
    sequencer.receive(3, request(0, 0));
    sequencer.take_all();
    for rank in 1..4 {
        sequencer.receive(rank, report(Report::AckCommit, 4));
    }
    for rank in 1..4 {
        sequencer.receive(rank, report(Report::AckPhase2, 4));
    }
    let mut taken = sequencer.take_all();
    taken.truncate(2);
    assert_eq!(taken, [(3, 0), (2, 4)]);
}

#[test]
fn sequencer_awaits_first_members_per_message() {
    let mut sequencer = Member::new(0, &[("resilience", "1")]);
    assert_eq!(sequencer.awaited(), [0; 0]);
    sequencer.offer("a").unwrap();
    assert_eq!(sequencer.awaited(), [1]);
    sequencer.receive(1, report(Report::Ack, 1));
    assert_eq!(sequencer.awaited(), [0; 0]);
}
