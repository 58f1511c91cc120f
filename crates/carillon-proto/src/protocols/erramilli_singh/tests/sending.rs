//! The sending side.

use carillon_core::{DropReason, Event, MessageId, OfferError, Outcome};
use carillon_wire::erramilli_singh::Packet;

use super::member::{Member, context, nak};

fn outcomes(member: &mut Member) -> Vec<(u64, Outcome)> {
    let outcome = |event| match event {
        Event::Completed { message, outcome, .. } => Some((message.0, outcome)),
        _ => None,
    };
    member.events().into_iter().filter_map(outcome).collect()
}

/// An idle sender states its next number K times after T1 each, then after T2 each.
#[test]
fn idle_sender_sends_k_statuses_then_sanity_messages() {
    let mut member = Member::new(&[]);
    member.offer("a").unwrap();
    assert_eq!(member.sent(), ["data from 0 seq 1 len 1 to all"]);
    assert_eq!(member.at(9), [""; 0]);
    assert_eq!(member.at(10), ["status from 0 next 2 held 1 to all"]);
    assert_eq!(member.at(20), ["status from 0 next 2 held 1 to all"]);
    assert_eq!(member.at(119), [""; 0]);
    assert_eq!(member.at(120), ["sanity from 0 next 2 held 1 to all"]);
    assert_eq!(member.at(320).len(), 2);
}

#[test]
fn without_status_messages_the_sanity_messages_follow_at_once() {
    let mut member = Member::new(&[("k", "0")]);
    member.offer("a").unwrap();
    member.sent();
    assert_eq!(member.at(99), [""; 0]);
    assert_eq!(member.at(100), ["sanity from 0 next 2 held 1 to all"]);
}

#[test]
fn new_data_ends_the_series_at_once_and_starts_it_again() {
    let mut member = Member::new(&[]);
    member.offer("a").unwrap();
    member.at(19);
    member.offer("b").unwrap();
    assert_eq!(member.sent(), ["data from 0 seq 2 len 1 to all"]);
    assert_eq!(member.at(28), [""; 0], "T1 runs from the last message on");
    assert_eq!(member.at(39).len(), 2, "and there are K again");
}

/// A node that never sends shows within T2, and then every T2, that it is alive.
#[test]
fn node_without_data_shows_liveness_every_t2() {
    let mut member = Member::new(&[]);
    assert_eq!(member.at(100), ["sanity from 0 next 1 held 0 to all"]);
    assert_eq!(member.at(1100).len(), 10);
}

#[test]
fn nak_is_answered_to_its_sender() {
    let mut member = Member::new(&[]);
    for payload in ["a", "b", "c"] {
        member.offer(payload).unwrap();
    }
    member.sent();
    assert_eq!(member.receive(nak(2, 2)), ["data from 0 seq 2 len 1 to rank 2"]);
    assert_eq!(member.receive(nak(1, 3)), ["data from 0 seq 3 len 1 to rank 1"]);
}

#[test]
fn go_back_answers_with_all_from_the_message_on() {
    // Choice: the source says only that "the requested message" is retransmitted.
    let mut member = Member::new(&[("repeat", "go-back"), ("retransmission", "multicast")]);
    for payload in ["a", "b", "c"] {
        member.offer(payload).unwrap();
    }
    member.sent();
    let repairs = ["data from 0 seq 2 len 1 to all", "data from 0 seq 3 len 1 to all"];
    assert_eq!(member.receive(nak(2, 2)), repairs);
}

#[test]
fn repair_is_not_repeated_within_guard_interval() {
    // Choice.
    let group: &[_] = &[("repair_guard", "5 ms"), ("retransmission", "multicast")];
    let single: &[_] = &[("repair_guard", "5 ms")];
    for (settings, repairs_to_another) in [(group, 0), (single, 1)] {
        let mut member = Member::new(settings);
        member.offer("a").unwrap();
        member.sent();
        assert_eq!(member.receive(nak(1, 1)).len(), 1);
        assert_eq!(member.receive(nak(1, 1)).len(), 0);
        assert_eq!(member.receive(nak(2, 1)).len(), repairs_to_another);
        member.at(5);
        assert_eq!(member.receive(nak(1, 1)).len(), 1);
    }
}

#[test]
fn nak_for_unsent_message_is_dropped() {
    let mut member = Member::new(&[("n", "1000")]);
    assert_eq!(member.receive(nak(1, 1)), [""; 0]);
    member.offer("a").unwrap();
    member.sent();
    for wire in [2, 3, 1000, 0, 1001] {
        assert_eq!(member.receive(nak(1, wire)), [""; 0], "{wire}");
    }
    assert_eq!(member.receive(Packet::Nak { from: 1, source: 2, expected: 1 }), [""; 0]);
    let reasons = [[DropReason::OutOfWindow; 6].as_slice(), &[DropReason::Foreign]].concat();
    assert_eq!(member.drops(), reasons);
}

/// A NAK for a message before the back window is answered with the bounds of the window.
#[test]
fn nak_before_back_window_gets_window_bounds() {
    // Choice: the source only warns of it.
    let mut member = Member::new(&[("b", "2"), ("repeat", "go-back")]);
    for payload in ["a", "b", "c"] {
        member.offer(payload).unwrap();
    }
    member.sent();
    let answer = [
        "status from 0 next 4 held 2 to rank 1",
        "data from 0 seq 2 len 1 to rank 1",
        "data from 0 seq 3 len 1 to rank 1",
    ];
    assert_eq!(member.receive(nak(1, 1)), answer);
}

#[test]
fn sequence_numbers_start_again_after_n() {
    let mut member = Member::new(&[("b", "3"), ("n", "4")]);
    for _ in 0..6 {
        member.offer("x").unwrap();
    }
    assert_eq!(member.sent()[3..], [4, 1, 2].map(|n| format!("data from 0 seq {n} len 1 to all")));
    // N > B: every number of the back window (messages 4, 1, 2) is the one message.
    assert_eq!(member.receive(nak(1, 4)), ["data from 0 seq 4 len 1 to rank 1"]);
    assert_eq!(member.receive(nak(1, 2)), ["data from 0 seq 2 len 1 to rank 1"]);
    assert_eq!(member.receive(nak(1, 3)), ["status from 0 next 3 held 3 to rank 1"]);
}

#[test]
fn message_completes_when_it_leaves_back_window() {
    // Choice: receivers send no acknowledgments.
    let mut member = Member::new(&[("b", "2")]);
    for payload in ["a", "b", "c"] {
        member.offer(payload).unwrap();
    }
    assert_eq!(outcomes(&mut member), [(0, Outcome::Acknowledged)]);
}

#[test]
fn repairs_keep_the_back_window_where_it_is() {
    // Choice: repairs go first, so that nothing leaves that was asked for in time.
    let mut member = Member::new(&[("b", "2"), ("send_interval", "1 ms")]);
    for number in 0..3 {
        member.at(number);
        member.offer("x").unwrap();
    }
    member.sent();
    assert_eq!(member.receive(nak(1, 2)), [""; 0]);
    member.receive(nak(1, 3));
    member.offer("x").unwrap();
    let order = ["2 len 1 to rank 1", "3 len 1 to rank 1", "4 len 1 to all"];
    assert_eq!(member.at(5), order.map(|line| format!("data from 0 seq {line}")));
}

/// The remaining messages complete when no NAK has arrived for long enough after the last status.
#[test]
fn messages_complete_without_nak_after_last_status() {
    // Choice: K status messages, then finish_intervals times T2, which is 200 ms.
    let mut member = Member::new(&[]);
    member.offer("a").unwrap();
    member.finish();
    member.at(150);
    member.receive(nak(1, 1));
    member.at(349);
    assert!(!member.is_finished());
    assert_eq!(outcomes(&mut member), []);
    member.at(350);
    assert!(member.is_finished());
    assert_eq!(outcomes(&mut member), [(0, Outcome::Acknowledged)]);
    // A finished sender still answers late NAKs.
    assert_eq!(member.receive(nak(2, 1)).len(), 1);
    assert!(member.is_finished());
    assert_eq!(member.offer("b"), Err(OfferError::Finished));
}

#[test]
fn nothing_completes_before_t2_after_last_status() {
    let mut member = Member::new(&[("t1", "100 ms"), ("finish_intervals", "1")]);
    member.offer("a").unwrap();
    member.finish();
    member.at(299);
    assert!(!member.is_finished());
    member.at(300);
    assert!(member.is_finished());
}

/// A NAK postpones completion even if the guard interval leaves it unanswered.
#[test]
fn nak_within_guard_postpones_completion() {
    let mut member = Member::new(&[("repair_guard", "100 ms")]);
    member.offer("a").unwrap();
    member.finish();
    member.at(150);
    assert_eq!(member.receive(nak(1, 1)).len(), 1);
    member.at(200);
    assert_eq!(member.receive(nak(1, 1)).len(), 0);
    member.at(399);
    assert!(!member.is_finished());
    member.at(400);
    assert!(member.is_finished());
}

#[test]
fn member_without_data_has_finished() {
    let mut member = Member::new(&[]);
    assert!(!member.is_finished());
    member.finish();
    assert!(member.is_finished());
}

#[test]
fn data_packets_leave_one_in_each_send_interval_repairs_first() {
    // Choice.
    let mut member = Member::new(&[("send_interval", "2 ms")]);
    for payload in ["a", "b", "c"] {
        member.offer(payload).unwrap();
    }
    assert_eq!(member.sent(), ["data from 0 seq 1 len 1 to all"]);
    assert_eq!(member.receive(nak(1, 1)), [""; 0]);
    assert_eq!(member.at(1), [""; 0]);
    assert_eq!(member.at(2), ["data from 0 seq 1 len 1 to rank 1"]);
    assert_eq!(member.at(4), ["data from 0 seq 2 len 1 to all"]);
    assert_eq!(member.at(6), ["data from 0 seq 3 len 1 to all"]);
}

#[test]
fn send_queue_holds_one_back_window() {
    let mut member = Member::new(&[("b", "2"), ("send_interval", "1 ms")]);
    for _ in 0..3 {
        member.offer("x").unwrap();
    }
    assert_eq!(member.offer("x"), Err(OfferError::Full));
    member.at(1);
    assert_eq!(member.offer("x"), Ok(3));
}

/// A choke stops new messages for T3, but neither repairs nor status messages.
#[test]
fn choke_stops_only_new_messages_for_t3() {
    let mut member = Member::new(&[]);
    member.offer("a").unwrap();
    member.sent();
    member.receive(Packet::Choke { from: 1, pause_us: 15_000 });
    member.offer("b").unwrap();
    assert_eq!(member.sent(), [""; 0]);
    assert_eq!(member.receive(nak(1, 1)), ["data from 0 seq 1 len 1 to rank 1"]);
    assert_eq!(member.at(14), ["status from 0 next 2 held 1 to all"]);
    assert_eq!(member.at(15), ["data from 0 seq 2 len 1 to all"]);
}

#[test]
fn a_choke_longer_than_the_agreed_t3_is_cut() {
    // Choice.
    let mut member = Member::new(&[]);
    member.receive(Packet::Choke { from: 1, pause_us: u32::MAX });
    member.offer("a").unwrap();
    assert_eq!(member.at(19), [""; 0]);
    assert_eq!(member.at(20), ["data from 0 seq 1 len 1 to all"]);
}

/// Lecture mode: only the first member sends data; the others show that they are alive.
#[test]
fn lecture_listeners_only_show_liveness() {
    let mut first = Member::of(context(0, false), &[("mode", "lecture")]);
    assert_eq!(first.offer("a"), Ok(0));
    let mut second = Member::of(context(1, false), &[("mode", "lecture")]);
    assert_eq!(second.offer("a"), Err(OfferError::Finished));
    assert_eq!(second.at(100), ["sanity from 1 next 1 held 0 to all"]);
}

#[test]
fn returning_member_does_not_send() {
    let mut member = Member::of(context(0, true), &[]);
    assert_eq!(member.offer("a"), Err(OfferError::Finished));
    assert_eq!(member.at(100).len(), 1);
}

#[test]
fn the_message_of_the_event_is_counted_from_zero() {
    let mut member = Member::new(&[]);
    member.offer("a").unwrap();
    let sent = Event::Sent { message: MessageId(0), bytes: 15 };
    assert!(member.events().contains(&sent));
}
