//! Tests of members that are not the sequencer. Rank 0 is the first sequencer.

use carillon_core::{DropReason, Event, MessageId, OfferError, Outcome};
use carillon_wire::sequencer::{Body, Report, Status};

use super::fixture::{MEMBERS, Member, ordered, report, status};

const NO_PACKETS: [&str; 0] = [];

fn outcomes(member: &mut Member) -> Vec<(u64, Outcome)> {
    let outcome = |event| match event {
        Event::Completed { message, outcome, .. } => Some((message.0, outcome)),
        _ => None,
    };
    member.events().into_iter().filter_map(outcome).collect()
}

#[test]
fn request_goes_to_sequencer_with_acknowledgment() {
    let mut member = Member::new(1, &[]);
    assert_eq!(member.receive(0, ordered(0, 1, 0, 0)), NO_PACKETS, "nothing is acknowledged by itself");
    member.offer("a").unwrap();
    assert_eq!(member.sent(), ["request view 0 ack 1 message 0 len 1 to rank 0"]);
}

#[test]
fn large_message_is_broadcast_before_its_sequence_number() {
    // Method BB of Amoeba.
    let mut member = Member::new(1, &[("large", "2 byte")]);
    member.offer("ab").unwrap();
    assert_eq!(member.sent(), ["broadcast view 0 ack 0 message 0 len 2 to all"]);
    let body = Body::Request { ack: 0, message: 0, broadcast: true, payload: b"cd" };
    assert_eq!(member.receive(2, body), NO_PACKETS);
    for (order, source) in [(0, 2), (1, 1)] {
        let short = Body::Ordered { order, accepted: order + 1, purge: 0, source, message: 0, payload: None };
        assert_eq!(member.receive(0, short), NO_PACKETS);
    }
    assert_eq!(member.take_all(), [(2, 0), (1, 0)]);
}

#[test]
fn missing_broadcast_is_requested_or_filled_by_source() {
    let mut member = Member::new(1, &[]);
    let short = |order, message| Body::Ordered {
        order,
        accepted: order + 1,
        purge: 0,
        source: 2,
        message,
        payload: None,
    };
    assert_eq!(member.receive(0, short(0, 0)), ["retrans view 0 ack 0 order 0 to rank 0"]);
    let body = Body::Request { ack: 0, message: 0, broadcast: true, payload: b"cd" };
    assert_eq!(member.receive(2, body), NO_PACKETS);
    assert_eq!(member.take_all(), [(2, 0)]);
}

#[test]
fn message_completes_when_its_source_delivers_it() {
    let mut member = Member::new(1, &[]);
    member.offer("a").unwrap();
    assert_eq!(member.offer("b"), Err(OfferError::Full), "one at a time");
    member.finish();
    assert_eq!(outcomes(&mut member), []);
    member.receive(0, ordered(0, 1, 1, 0));
    assert_eq!(outcomes(&mut member), [(0, Outcome::Acknowledged)]);
    assert_eq!(member.take_all(), [(1, 0)]);
    assert!(member.is_finished());
}

#[test]
fn unordered_message_is_retransmitted_with_back_off() {
    let mut member = Member::new(1, &[]);
    member.offer("a").unwrap();
    member.sent();
    assert_eq!(member.at(99), NO_PACKETS);
    for ms in [100, 300, 700, 1100] {
        assert_eq!(member.at(ms - 1), NO_PACKETS);
        assert_eq!(member.at(ms), ["request view 0 ack 0 message 0 len 1 to rank 0"], "at {ms}");
    }
}

/// The sequence number of the first message gives the second one a full timeout.
#[test]
fn progress_restarts_the_request_timeout() {
    let mut member = Member::new(1, &[("window", "2")]);
    member.offer("a").unwrap();
    member.offer("b").unwrap();
    member.sent();
    assert_eq!(member.at(60), NO_PACKETS);
    member.receive(0, ordered(0, 1, 1, 0));
    assert_eq!(member.at(159), NO_PACKETS);
    assert_eq!(member.at(160), ["request view 0 ack 1 message 1 len 1 to rank 0"]);
}

#[test]
fn message_out_of_order_is_kept_and_gap_requested() {
    let mut member = Member::new(1, &[]);
    let asked = ["retrans view 0 ack 0 order 0 to rank 0", "retrans view 0 ack 0 order 1 to rank 0"];
    assert_eq!(member.receive(0, ordered(2, 3, 2, 2)), asked);
    assert_eq!(member.take_all(), []);
    assert_eq!(member.receive(0, ordered(1, 3, 2, 1)), NO_PACKETS);
    assert_eq!(member.at(49), NO_PACKETS);
    assert_eq!(member.at(50), ["retrans view 0 ack 0 order 0 to rank 0"], "again");
    member.receive(0, ordered(0, 3, 2, 0));
    assert_eq!(member.take_all(), [(2, 0), (2, 1), (2, 2)]);
}

#[test]
fn duplicate_message_is_dropped() {
    let mut member = Member::new(1, &[]);
    member.receive(0, ordered(0, 1, 2, 0));
    member.events();
    member.receive(0, ordered(0, 1, 2, 0));
    assert_eq!(member.drops(), [DropReason::Duplicate]);
    assert_eq!(member.take_all(), [(2, 0)]);
}

#[test]
fn message_without_room_is_requested_later() {
    let mut member = Member::new(1, &[("history", "4")]);
    for order in 0..5 {
        member.receive(
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
    // Amoeba: ranks 1 to r acknowledge.
    for (rank, acks) in [(1, vec!["ack view 0 ack 1 to rank 0"]), (2, vec![])] {
        let mut member = Member::new(rank, &[("resilience", "1")]);
        assert_eq!(member.receive(0, ordered(0, 0, 0, 0)), acks);
        assert_eq!(member.receive(0, ordered(0, 0, 0, 0)), acks, "again: it may have been lost");
        assert_eq!(member.take_all(), []);
        member.receive(0, status(Status::Accept, 1, 1, &[]));
        assert_eq!(member.take_all(), [(0, 0)], "accepted");
        assert_eq!(member.receive(0, ordered(0, 1, 0, 0)), NO_PACKETS);
    }
}

#[test]
fn member_awaiting_acceptance_sends_alivereq() {
    let mut member = Member::new(2, &[("resilience", "1")]);
    member.receive(0, ordered(0, 0, 0, 0));
    assert_eq!(member.at(100), ["alivereq view 0 ack 1 to rank 0"]);
    member.receive(0, status(Status::Alive, 1, 1, &[]));
    assert_eq!(member.take_all(), [(0, 0)]);
    assert_eq!(member.at(10_000), NO_PACKETS, "and is quiet then");
}

#[test]
fn idle_member_reports_after_part_of_the_history() {
    // A quarter of the history of 16, and a quarter of that more for each rank of four.
    for (rank, after) in [(1, 5), (2, 6), (3, 7)] {
        let mut member = Member::new(rank, &[("history", "16")]);
        for order in 0..after {
            assert_eq!(member.sent(), NO_PACKETS);
            member.receive(0, ordered(order, order + 1, 0, order));
        }
        let mut member = Member::new(rank, &[("history", "16")]);
        let sent: Vec<_> =
            (0..after).flat_map(|order| member.receive(0, ordered(order, order + 1, 0, order))).collect();
        assert_eq!(sent, [format!("dummy view 0 ack {after} to rank 0")]);
    }
}

#[test]
fn complete_members_answer_phase_1_and_all_answer_phase_2() {
    let mut member = Member::new(1, &[]);
    member.receive(0, ordered(0, 1, 0, 0));
    assert_eq!(member.receive(0, status(Status::Phase1, 1, 1, &[2])), NO_PACKETS, "another is asked");
    assert_eq!(
        member.receive(0, status(Status::Phase1, 1, 1, &[1, 2])),
        ["ack_commit view 0 ack 1 to rank 0"]
    );
    assert_eq!(
        member.receive(0, status(Status::Phase1, 2, 2, &[1])),
        ["retrans view 0 ack 1 order 1 to rank 0"]
    );
    member.receive(0, ordered(1, 2, 0, 1));
    assert_eq!(member.receive(0, status(Status::Phase2, 2, 2, &[1])), ["ack_phase2 view 0 ack 2 to rank 0"]);
}

#[test]
fn basic_form_fails_messages_of_dead_sequencer() {
    let mut member = Member::new(1, &[("tries", "3")]);
    member.offer("a").unwrap();
    member.finish();
    member.at(1_000);
    assert_eq!(outcomes(&mut member), []);
    member.at(2_000);
    assert_eq!(outcomes(&mut member), [(0, Outcome::Failed)]);
    assert!(member.is_finished());
    member.sent();
    assert_eq!(member.at(60_000), NO_PACKETS);
    member.receive(0, status(Status::Alive, 0, 0, &[]));
    assert!(member.events().contains(&Event::MemberJoined { member: MEMBERS[0] }));
}

#[test]
fn only_the_sequencer_is_followed() {
    let mut member = Member::new(1, &[]);
    member.receive(2, ordered(0, 1, 2, 0));
    member.receive(2, status(Status::Phase1, 1, 1, &[1]));
    member.receive(2, report(Report::AliveReq, 0));
    assert_eq!(member.sent(), NO_PACKETS);
    assert_eq!(member.drops(), [DropReason::OutOfWindow; 3]);
    assert_eq!(member.take_all(), []);
}

#[test]
fn basic_form_member_skips_purged_messages() {
    let mut member = Member::new(1, &[]);
    member.receive(0, ordered(0, 1, 2, 0));
    let state: Vec<u8> = [0u64, 0, 3, 0].iter().flat_map(|number| number.to_be_bytes()).collect();
    member.receive(0, Body::Gone { order: 3, state: &state });
    let lost = |event: &Event| matches!(event, Event::LossFound { message: MessageId(1), .. });
    assert!(member.events().iter().any(lost));
    member.receive(0, ordered(3, 4, 2, 3));
    assert_eq!(member.take_all(), [(2, 0), (2, 3)]);
}

#[test]
fn member_awaits_sequencer_or_its_awaited_members() {
    let mut member = Member::new(1, &[]);
    assert_eq!(member.awaited(), [0; 0]);
    member.offer("a").unwrap();
    assert_eq!(member.awaited(), [0]);
    member.receive(0, status(Status::Phase1, 0, 0, &[2, 3]));
    assert_eq!(member.awaited(), [2, 3]);
    member.receive(0, status(Status::Phase2, 0, 0, &[3]));
    assert_eq!(member.awaited(), [3]);
}
