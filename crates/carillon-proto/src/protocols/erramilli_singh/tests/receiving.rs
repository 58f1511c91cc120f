//! The receiving side.

use carillon_core::{DropReason, Event, MessageId, NodeId, Value};
use carillon_wire::erramilli_singh::{Packet, Progress};

use super::member::{Member, context, data, node, status};

const NAK_1: &str = "nak from 0 source 1 expected 1 to rank 1";
const NAK_2: &str = "nak from 0 source 1 expected 2 to rank 1";

#[test]
fn messages_in_order_are_delivered_without_naks() {
    let mut member = Member::new(&[]);
    for sequence in 1..=3 {
        assert_eq!(member.receive(data(sequence)), [""; 0]);
    }
    assert_eq!(member.receive(status(4, 3)), [""; 0]);
    assert_eq!(member.receive(data(2)), [""; 0], "a duplicate is discarded");
    assert_eq!(member.drops(), [DropReason::Duplicate]);
    let delivery = member.take().unwrap();
    assert_eq!((delivery.source, delivery.message), (node(1), MessageId(0)));
    assert_eq!(member.take_all(), [1, 2]);
}

#[test]
fn message_beyond_expected_triggers_nak() {
    let mut member = Member::new(&[]);
    member.receive(data(1));
    assert_eq!(member.receive(data(3)), [NAK_2]);
    assert_eq!(member.receive(data(4)), [NAK_2]);
    assert_eq!(member.take_all(), [0]);
    // What came early was kept (choice).
    assert_eq!(member.receive(data(2)), [""; 0]);
    assert_eq!(member.take_all(), [1, 2, 3]);
}

#[test]
fn the_expected_message_draws_no_nak_even_if_more_are_missing() {
    let mut member = Member::new(&[]);
    assert_eq!(member.receive(data(4)), [NAK_1]);
    assert_eq!(member.receive(data(1)), [""; 0]);
    assert_eq!(member.receive(status(5, 4)), [NAK_2]);
}

#[test]
fn a_status_or_sanity_that_is_ahead_draws_a_nak() {
    let mut member = Member::new(&[]);
    member.receive(data(1));
    assert_eq!(member.receive(status(3, 2)), [NAK_2]);
    assert_eq!(member.receive(status(2, 1)), [""; 0], "an old one does not");
    assert_eq!(member.receive(Packet::Sanity(Progress { source: 1, next: 3, held: 2 })), [NAK_2]);
}

#[test]
fn a_lost_nak_waits_for_the_next_data_or_status() {
    let mut member = Member::new(&[]);
    assert_eq!(member.receive(status(2, 1)), [NAK_1]);
    let naks = member.at(390).iter().filter(|line| line.starts_with("nak")).count();
    assert_eq!(naks, 0);
}

#[test]
fn with_a_timer_a_nak_is_repeated_until_the_message_comes() {
    // Choice: an improvement on the source.
    let mut member = Member::new(&[("nak_timer", "10 ms"), ("t2", "10 s")]);
    assert_eq!(member.receive(status(2, 1)), [NAK_1]);
    assert_eq!(member.at(9), [""; 0]);
    assert_eq!(member.at(30), [NAK_1; 3]);
    member.receive(data(1));
    assert_eq!(member.at(100), [""; 0]);
}

#[test]
fn each_gap_is_one_loss_found() {
    let mut member = Member::new(&[]);
    for packet in [data(3), data(5), data(2), status(9, 8), status(9, 8)] {
        member.receive(packet);
    }
    let losses: Vec<Event> =
        member.events().into_iter().filter(|event| matches!(event, Event::LossFound { .. })).collect();
    assert_eq!(losses, [0, 3, 5].map(|number| Event::LossFound { source: None, message: MessageId(number) }));
}

#[test]
fn discarded_messages_are_skipped_and_reported() {
    // Choice: the source only says that the protocol could fail.
    let mut member = Member::new(&[]);
    member.receive(data(2));
    member.receive(data(5));
    member.events();
    // Next is message 5; messages 3 and 4 (numbers 4 and 5) are held.
    assert_eq!(member.receive(status(6, 2)), ["nak from 0 source 1 expected 4 to rank 1"]);
    let note = member.events().into_iter().find_map(|event| match event {
        Event::Note(note) => Some(note),
        _ => None,
    });
    let note = note.unwrap();
    assert_eq!(note.name, "unrecoverable");
    let fields = [("source", Value::Count(9)), ("first", Value::Count(0)), ("messages", Value::Count(2))];
    assert_eq!(note.fields, fields);
    assert_eq!(member.take_all(), [1], "what did come in between is delivered");
    member.receive(data(4));
    assert_eq!(member.take_all(), [3, 4]);
}

#[test]
fn one_message_is_skipped_like_many() {
    let mut member = Member::new(&[]);
    assert_eq!(member.receive(status(2, 0)), [""; 0]);
    assert_eq!(member.receive(data(2)), [""; 0]);
    assert_eq!(member.take_all(), [1]);
}

#[test]
fn a_far_status_costs_a_few_events() {
    let mut member = Member::new(&[]);
    member.events();
    member.receive(status(1_000_000_000, 0));
    assert_eq!(member.events().len(), 3);
}

#[test]
fn numbers_are_understood_after_they_have_started_again() {
    let mut member = Member::new(&[("b", "2"), ("n", "6")]);
    for number in 0..40 {
        // Every fourth message is lost the first time.
        let sequence = number % 6 + 1;
        if number % 4 == 3 {
            let next = (number + 1) % 6 + 1;
            assert_eq!(
                member.receive(status(next, 1)),
                [format!("nak from 0 source 1 expected {sequence} to rank 1")]
            );
        }
        member.receive(data(sequence));
        member.receive(data(sequence));
    }
    assert_eq!(member.take_all(), (0..40).collect::<Vec<u64>>());
}

/// A sequence space below twice the gap makes new messages look like duplicates.
#[test]
fn small_number_range_mistakes_new_for_duplicate() {
    // N > B, as the source asks, but not N > 2 B: messages 5 to 7 (numbers 1 to 3) were lost, so that
    // 8 (number 4) looks like 3 again.
    let mut member = Member::new(&[("b", "4"), ("n", "5")]);
    for sequence in 1..=5 {
        member.receive(data(sequence));
    }
    assert_eq!(member.receive(data(4)), [""; 0]);
    assert_eq!(member.drops(), [DropReason::Duplicate]);
}

#[test]
fn a_number_outside_the_range_is_malformed() {
    let mut member = Member::new(&[("b", "4"), ("n", "5")]);
    member.receive(data(0));
    member.receive(data(6));
    member.receive(status(0, 0));
    member.receive(status(2, 2));
    assert_eq!(member.drops(), [DropReason::Malformed; 4]);
}

#[test]
fn a_buffer_in_danger_asks_all_for_a_pause_once_in_t3() {
    let mut member = Member::new(&[("buffer", "4"), ("choke_at", "0.75")]);
    let choke = "choke from 0 pause 20000 us to all";
    assert_eq!(member.receive(data(1)), [""; 0]);
    assert_eq!(member.receive(data(2)), [""; 0]);
    assert_eq!(member.receive(data(3)), [choke]);
    assert_eq!(member.receive(data(4)), [""; 0]);
    member.at(20);
    assert_eq!(member.receive(data(5)), [choke], "it is still in danger");
    assert_eq!(member.take_all(), [0, 1, 2, 3], "what does not fit is dropped");
}

#[test]
fn full_receiver_requests_nothing() {
    let mut member = Member::new(&[("buffer", "2"), ("choke_at", "1")]);
    for sequence in 1..=2 {
        member.receive(data(sequence));
    }
    assert_eq!(member.receive(data(3)), [""; 0]);
    assert_eq!(member.drops(), [DropReason::BufferFull]);
    assert_eq!(member.receive(status(4, 3)), [""; 0]);
    member.take();
    assert_eq!(member.receive(status(4, 3)), ["nak from 0 source 1 expected 3 to rank 1"]);
}

#[test]
fn early_messages_leave_room_for_the_expected_one() {
    let mut member = Member::new(&[("buffer", "3")]);
    for sequence in [2, 3, 4, 5] {
        member.receive(data(sequence));
    }
    member.receive(data(1));
    assert_eq!(member.take_all(), [0, 1, 2]);
}

/// A member silent for longer than T2 counts as failed until its next packet.
#[test]
fn member_silent_beyond_t2_fails_until_next_packet() {
    let mut member = Member::new(&[("failure_intervals", "1"), ("failure_margin", "0 ms")]);
    let lost = |rank| Event::MemberLost { member: node(rank) };
    member.at(50);
    member.receive(status(1, 0));
    member.at(99);
    assert!(!member.events().contains(&lost(2)));
    member.at(100);
    let events = member.events();
    assert!(events.contains(&lost(2)) && !events.contains(&lost(1)));
    member.at(150);
    assert!(member.events().contains(&lost(1)));
    // Any packet is a word; after it, the time starts again.
    member.receive(Packet::Choke { from: 1, pause_us: 1 });
    assert!(member.events().contains(&Event::MemberJoined { member: node(1) }));
    member.at(249);
    assert!(!member.events().contains(&lost(1)));
    member.at(250);
    assert!(member.events().contains(&lost(1)));
}

#[test]
fn a_sender_too_busy_for_status_messages_has_not_failed() {
    // Choice: the source looks at status and sanity messages only, which a busy sender does not send.
    let mut member = Member::new(&[("failure_intervals", "1"), ("failure_margin", "0 ms")]);
    for number in 0..50 {
        member.at(10 * number);
        member.receive(data(number as u32 + 1));
    }
    assert!(!member.events().contains(&Event::MemberLost { member: node(1) }));
}

#[test]
fn failed_member_gets_no_requests() {
    let settings =
        [("nak_timer", "15 ms"), ("failure_intervals", "1"), ("failure_margin", "0 ms"), ("k", "0")];
    let mut member = Member::new(&settings);
    member.receive(status(2, 1));
    let naks = |sent: Vec<String>| sent.iter().filter(|line| line.starts_with("nak")).count();
    assert_eq!(naks(member.at(95)), 6);
    member.at(100);
    assert_eq!(naks(member.at(500)), 0);
}

#[test]
fn returning_member_starts_with_first_packet() {
    // Choice: the source has no recovery.
    let mut member = Member::of(context(0, true), &[]);
    assert_eq!(member.receive(data(7)), [""; 0]);
    assert_eq!(member.receive(data(8)), [""; 0]);
    assert_eq!(member.take_all(), [6, 7]);
    let mut member = Member::of(context(0, true), &[]);
    assert_eq!(member.receive(status(7, 6)), [""; 0]);
    assert_eq!(member.receive(data(8)), ["nak from 0 source 1 expected 7 to rank 1"]);
}

#[test]
fn packets_with_wrong_source_are_dropped() {
    let mut member = Member::new(&[]);
    member.receive_from(node(2), data(1));
    member.receive_from(NodeId(77), data(1));
    member.receive_from(node(0), Packet::Data { source: 0, sequence: 1, payload: b"x" });
    member.receive_from(node(1), Packet::Data { source: 9, sequence: 1, payload: b"x" });
    assert_eq!(member.drops(), [DropReason::NotAMember; 4]);
    assert_eq!(member.take_all(), [0; 0]);
}

/// Missing messages are requested once, and again when the timer expires.
#[test]
fn missing_message_is_requested_again_after_timer() {
    // Choice: an improvement on the source.
    let mut member = Member::new(&[
        ("nak_all", "true"),
        ("nak_timer", "10 ms"),
        ("t2", "10 s"),
        ("buffer", "8"),
        ("choke_at", "1"),
    ]);
    let nak = |number| format!("nak from 0 source 1 expected {number} to rank 1");
    assert_eq!(member.receive(data(3)), [nak(1), nak(2)]);
    // It shows nothing new.
    assert_eq!(member.receive(data(4)), [""; 0]);
    assert_eq!(member.receive(data(6)), [nak(5)]);
    member.receive(data(1));
    assert_eq!(member.at(10), [nak(2), nak(5)]);
    // What lies beyond the buffer is not asked for.
    assert_eq!(member.receive(status(40, 39)), [nak(7), nak(8)]);
    member.receive(data(2));
    member.receive(data(5));
    assert_eq!(member.at(20)[..2], [nak(7), nak(8)]);
}
