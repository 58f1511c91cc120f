//! Delivery by quality of service.

use carillon_wire::rmp::{Body, Quality};

use super::fixture::{Member, ack, data};

/// `unreliable`: "on arrival, once or never".
#[test]
fn unreliable_message_is_delivered_on_arrival_and_once() {
    let mut member = Member::new(2, &[]);
    for number in [3, 3, 2, 5] {
        member.receive(0, data(0, number, Quality::Unreliable));
    }
    assert_eq!(member.take(), ["0:3", "0:5"]);
}

/// `reliable`: "on arrival, with repair".
#[test]
fn reliable_message_is_delivered_beyond_a_gap_and_once() {
    let mut member = Member::new(2, &[]);
    let sent = member.receive(0, data(0, 1, Quality::Reliable));
    assert_eq!(member.take(), ["0:1"]);
    assert_eq!(sent, ["nack-data 0:0 to all"]);
    member.receive(0, data(0, 0, Quality::Reliable));
    ack(&mut member, 0, (0, 1), &[(0, 0), (0, 1)]);
    assert_eq!(member.take(), ["0:0"]);
}

/// `source`: "when all ordered messages of its source before it are delivered".
#[test]
fn source_ordered_message_waits_for_its_source_only() {
    let mut member = Member::new(2, &[]);
    member.receive(0, data(0, 1, Quality::SourceOrdered));
    assert!(member.take().is_empty());
    member.receive(0, data(0, 0, Quality::SourceOrdered));
    assert_eq!(member.take(), ["0:0", "0:1"]);
    member.receive(0, data(0, 2, Quality::TotallyOrdered));
    member.receive(0, data(0, 3, Quality::SourceOrdered));
    assert!(member.take().is_empty(), "a totally ordered message of the source is not delivered");
    ack(&mut member, 0, (0, 1), &[(0, 0), (0, 1), (0, 2)]);
    assert_eq!(member.take(), ["0:2", "0:3"]);
}

/// `total`: "in its slot, when all slots before are delivered".
#[test]
fn totally_ordered_message_waits_for_its_slot() {
    let mut member = Member::new(2, &[]);
    member.receive(0, data(0, 0, Quality::TotallyOrdered));
    member.receive(1, data(1, 0, Quality::TotallyOrdered));
    assert!(member.take().is_empty());
    ack(&mut member, 0, (0, 1), &[(1, 0), (0, 0)]);
    assert_eq!(member.take(), ["1:0", "0:0"]);
}

/// `resilient`: "after the token was accepted K more times", and it delays the slots after it.
#[test]
fn resilient_message_waits_for_passes_and_blocks_later_slots() {
    let mut member = Member::new(2, &[]);
    member.receive(0, data(0, 0, Quality::Resilient(1)));
    member.receive(1, data(1, 0, Quality::TotallyOrdered));
    ack(&mut member, 0, (0, 1), &[(0, 0), (1, 0)]);
    assert!(member.take().is_empty());
    member.receive(1, Body::Confirm { site: 1, below: 2 });
    assert_eq!(member.take(), ["0:0", "1:0"]);
}

/// `majority`: "in its slot, when more than half of the members hold it".
#[test]
fn majority_of_three_is_one_pass_and_total_resilience_two() {
    for (quality, passes) in [(Quality::MajorityResilient, 1), (Quality::TotallyResilient, 2)] {
        let mut member = Member::new(2, &[]);
        member.receive(0, data(0, 0, quality));
        ack(&mut member, 0, (0, 1), &[(0, 0)]);
        assert!(member.take().is_empty());
        member.receive(1, Body::Confirm { site: 1, below: 1 });
        assert_eq!(member.take().len(), usize::from(passes == 1));
        if passes == 2 {
            // The null acknowledgment passes the token to this member, which accepts it.
            ack(&mut member, 1, (1, 2), &[]);
            assert_eq!(member.take(), ["0:0"]);
        }
    }
}

/// "The quality is a field of each message", and a member delivers its own messages too.
#[test]
fn qualities_take_turns_and_unreliable_messages_have_no_slot() {
    let mut member = Member::new(2, &[("qos", "all"), ("flow", "fixed")]);
    let sent: Vec<String> = (0..7).flat_map(|_| member.offer("m")).collect();
    let expected = ["0 total", "1 reliable", "2 source", "3 resilient-1", "4 unreliable", "5 majority"];
    let expected = expected.into_iter().chain(["6 totally-resilient"]);
    for (packet, expected) in sent.iter().zip(expected) {
        assert!(packet.contains(&format!("number {expected} ")), "{packet}: {expected}");
    }
    assert_eq!(sent.len(), 7);
    assert_eq!(member.take(), ["2:1", "2:4"], "the source-ordered one waits for the first");
    assert!(sent[5].starts_with("data 2:4 number 5"), "{}", sent[5]);
}
