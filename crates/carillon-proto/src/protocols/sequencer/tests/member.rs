//! The members that are not the sequencer. Rank 0 is the first sequencer.

use carillon_core::{DropReason, Event, MessageId, OfferError, Outcome};
use carillon_wire::sequencer::{Body, Report, Status};

use super::table::{MEMBERS, Member, ordered, report, status};

const NOTHING: [&str; 0] = [];

fn outcomes(member: &mut Member) -> Vec<(u64, Outcome)> {
    let outcome = |event| match event {
        Event::Completed { message, outcome, .. } => Some((message.0, outcome)),
        _ => None,
    };
    member.events().into_iter().filter_map(outcome).collect()
}

#[test]
fn a_message_goes_to_the_sequencer_alone_and_says_what_its_source_has() {
    let mut member = Member::new(1, &[]);
    assert_eq!(member.hear(0, ordered(0, 1, 0, 0)), NOTHING, "nothing is acknowledged by itself");
    member.offer("a").unwrap();
    assert_eq!(member.sent(), ["request view 0 ack 1 message 0 len 1 to rank 0"]);
}

#[test]
fn a_large_message_goes_to_all_and_its_place_follows() {
    // Amoeba's BB.
    let mut member = Member::new(1, &[("large", "2 byte")]);
    member.offer("ab").unwrap();
    assert_eq!(member.sent(), ["broadcast view 0 ack 0 message 0 len 2 to all"]);
    let body = Body::Request { ack: 0, message: 0, broadcast: true, payload: b"cd" };
    assert_eq!(member.hear(2, body), NOTHING);
    for (order, source) in [(0, 2), (1, 1)] {
        let short = Body::Ordered { order, accepted: order + 1, purge: 0, source, message: 0, payload: None };
        assert_eq!(member.hear(0, short), NOTHING);
    }
    assert_eq!(member.take_all(), [(2, 0), (1, 0)]);
}

#[test]
fn the_place_of_a_message_that_never_came_is_asked_for_and_may_be_filled_by_its_source() {
    let mut member = Member::new(1, &[]);
    let short = |order, message| Body::Ordered {
        order,
        accepted: order + 1,
        purge: 0,
        source: 2,
        message,
        payload: None,
    };
    assert_eq!(member.hear(0, short(0, 0)), ["retrans view 0 ack 0 order 0 to rank 0"]);
    let body = Body::Request { ack: 0, message: 0, broadcast: true, payload: b"cd" };
    assert_eq!(member.hear(2, body), NOTHING);
    assert_eq!(member.take_all(), [(2, 0)]);
}

#[test]
fn a_message_is_done_when_its_source_delivers_it() {
    let mut member = Member::new(1, &[]);
    member.offer("a").unwrap();
    assert_eq!(member.offer("b"), Err(OfferError::Full), "one at a time");
    member.finish();
    assert_eq!(outcomes(&mut member), []);
    member.hear(0, ordered(0, 1, 1, 0));
    assert_eq!(outcomes(&mut member), [(0, Outcome::Acknowledged)]);
    assert_eq!(member.take_all(), [(1, 0)]);
    assert!(member.is_finished());
}

#[test]
fn a_message_without_a_place_is_sent_again_more_and_more_slowly() {
    let mut member = Member::new(1, &[]);
    member.offer("a").unwrap();
    member.sent();
    assert_eq!(member.at(99), NOTHING);
    for ms in [100, 300, 700, 1100] {
        assert_eq!(member.at(ms - 1), NOTHING);
        assert_eq!(member.at(ms), ["request view 0 ack 0 message 0 len 1 to rank 0"], "at {ms}");
    }
}

/// The one that has a place takes nothing from the time of the next.
#[test]
fn each_message_is_sent_again_after_the_timeout_and_no_later() {
    let mut member = Member::new(1, &[("window", "2")]);
    member.offer("a").unwrap();
    member.offer("b").unwrap();
    member.sent();
    assert_eq!(member.at(60), NOTHING);
    member.hear(0, ordered(0, 1, 1, 0));
    assert_eq!(member.at(159), NOTHING);
    assert_eq!(member.at(160), ["request view 0 ack 1 message 1 len 1 to rank 0"]);
}

#[test]
fn a_message_out_of_order_is_kept_and_those_before_it_are_asked_for() {
    let mut member = Member::new(1, &[]);
    let asked = ["retrans view 0 ack 0 order 0 to rank 0", "retrans view 0 ack 0 order 1 to rank 0"];
    assert_eq!(member.hear(0, ordered(2, 3, 2, 2)), asked);
    assert_eq!(member.take_all(), []);
    assert_eq!(member.hear(0, ordered(1, 3, 2, 1)), NOTHING);
    assert_eq!(member.at(49), NOTHING);
    assert_eq!(member.at(50), ["retrans view 0 ack 0 order 0 to rank 0"], "again");
    member.hear(0, ordered(0, 3, 2, 0));
    assert_eq!(member.take_all(), [(2, 0), (2, 1), (2, 2)]);
}

#[test]
fn a_message_that_was_there_before_is_dropped() {
    let mut member = Member::new(1, &[]);
    member.hear(0, ordered(0, 1, 2, 0));
    member.events();
    member.hear(0, ordered(0, 1, 2, 0));
    assert_eq!(member.drops(), [DropReason::Duplicate]);
    assert_eq!(member.take_all(), [(2, 0)]);
}

#[test]
fn without_room_a_message_is_dropped_and_asked_for_when_there_is() {
    let mut member = Member::new(1, &[("history", "4")]);
    for order in 0..5 {
        member.hear(
            0,
            Body::Ordered {
                order,
                accepted: order + 1,
                purge: order,
                source: 2,
                message: order,
                payload: Some(b"m"),
            },
        );
    }
    assert_eq!(member.drops(), [DropReason::BufferFull]);
    member.sent();
    assert_eq!(member.take_all().len(), 4);
    assert_eq!(member.sent(), ["retrans view 0 ack 4 order 4 to rank 0"]);
}

#[test]
fn only_the_first_members_acknowledge_a_tentative_message() {
    // Amoeba: ranks 1 to r.
    for (rank, acks) in [(1, vec!["ack view 0 ack 1 to rank 0"]), (2, vec![])] {
        let mut member = Member::new(rank, &[("resilience", "1")]);
        assert_eq!(member.hear(0, ordered(0, 0, 0, 0)), acks);
        assert_eq!(member.hear(0, ordered(0, 0, 0, 0)), acks, "again: it may have been lost");
        assert_eq!(member.take_all(), []);
        member.hear(0, status(Status::Accept, 1, 1, &[]));
        assert_eq!(member.take_all(), [(0, 0)], "accepted");
        assert_eq!(member.hear(0, ordered(0, 1, 0, 0)), NOTHING);
    }
}

#[test]
fn who_waits_for_an_acceptance_asks() {
    let mut member = Member::new(2, &[("resilience", "1")]);
    member.hear(0, ordered(0, 0, 0, 0));
    assert_eq!(member.at(100), ["alivereq view 0 ack 1 to rank 0"]);
    member.hear(0, status(Status::Alive, 1, 1, &[]));
    assert_eq!(member.take_all(), [(0, 0)]);
    assert_eq!(member.at(10_000), NOTHING, "and is quiet then");
}

#[test]
fn a_silent_member_says_now_and_then_what_it_has() {
    // A quarter of the history of 16, and a quarter of a quarter more for each rank of four.
    for (rank, after) in [(1, 5), (2, 6), (3, 7)] {
        let mut member = Member::new(rank, &[("history", "16")]);
        for order in 0..after {
            assert_eq!(member.sent(), NOTHING);
            member.hear(0, ordered(order, order + 1, 0, order));
        }
        let mut member = Member::new(rank, &[("history", "16")]);
        let sent: Vec<_> =
            (0..after).flat_map(|order| member.hear(0, ordered(order, order + 1, 0, order))).collect();
        assert_eq!(sent, [format!("dummy view 0 ack {after} to rank 0")]);
    }
}

#[test]
fn phase_1_is_answered_by_who_has_everything_and_phase_2_by_all() {
    let mut member = Member::new(1, &[]);
    member.hear(0, ordered(0, 1, 0, 0));
    assert_eq!(member.hear(0, status(Status::Phase1, 1, 1, &[2])), NOTHING, "another is asked");
    assert_eq!(member.hear(0, status(Status::Phase1, 1, 1, &[1, 2])), ["ack_commit view 0 ack 1 to rank 0"]);
    assert_eq!(
        member.hear(0, status(Status::Phase1, 2, 2, &[1])),
        ["retrans view 0 ack 1 order 1 to rank 0"]
    );
    member.hear(0, ordered(1, 2, 0, 1));
    assert_eq!(member.hear(0, status(Status::Phase2, 2, 2, &[1])), ["ack_phase2 view 0 ack 2 to rank 0"]);
}

#[test]
fn in_the_basic_form_messages_fail_when_the_sequencer_is_dead() {
    let mut member = Member::new(1, &[("tries", "3")]);
    member.offer("a").unwrap();
    member.finish();
    member.at(1_000);
    assert_eq!(outcomes(&mut member), []);
    member.at(2_000);
    assert_eq!(outcomes(&mut member), [(0, Outcome::Failed)]);
    assert!(member.is_finished());
    member.sent();
    assert_eq!(member.at(60_000), NOTHING);
    member.hear(0, status(Status::Alive, 0, 0, &[]));
    assert!(member.events().contains(&Event::MemberJoined { member: MEMBERS[0] }));
}

#[test]
fn only_the_sequencer_is_followed() {
    let mut member = Member::new(1, &[]);
    member.hear(2, ordered(0, 1, 2, 0));
    member.hear(2, status(Status::Phase1, 1, 1, &[1]));
    member.hear(2, report(Report::AliveReq, 0));
    assert_eq!(member.sent(), NOTHING);
    assert_eq!(member.drops(), [DropReason::OutOfWindow; 3]);
    assert_eq!(member.take_all(), []);
}

#[test]
fn who_was_left_behind_in_the_basic_form_goes_on_and_says_what_it_lost() {
    let mut member = Member::new(1, &[]);
    member.hear(0, ordered(0, 1, 2, 0));
    let state: Vec<u8> = [0u64, 0, 3, 0].iter().flat_map(|number| number.to_be_bytes()).collect();
    member.hear(0, Body::Gone { order: 3, state: &state });
    let lost = |event: &Event| matches!(event, Event::LossFound { message: MessageId(1), .. });
    assert!(member.events().iter().any(lost));
    member.hear(0, ordered(3, 4, 2, 3));
    assert_eq!(member.take_all(), [(2, 0), (2, 3)]);
}

#[test]
fn the_sequencer_is_waited_for_or_those_that_it_waits_for_itself() {
    let mut member = Member::new(1, &[]);
    assert_eq!(member.awaited(), [0; 0]);
    member.offer("a").unwrap();
    assert_eq!(member.awaited(), [0]);
    member.hear(0, status(Status::Phase1, 0, 0, &[2, 3]));
    assert_eq!(member.awaited(), [2, 3]);
    member.hear(0, status(Status::Phase2, 0, 0, &[3]));
    assert_eq!(member.awaited(), [3]);
}
