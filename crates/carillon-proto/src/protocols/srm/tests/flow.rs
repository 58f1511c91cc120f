//! Tests of flow control and repair budgets.

use carillon_core::{DropReason, Event};
use carillon_wire::srm::{Entries, Entry, Packet, Session};

use super::member::Member;

/// Source with a buffer of four messages, in a group of four.
fn source() -> Member {
    let mut source = Member::new(&[("flow_control", "members"), ("buffer", "4")]);
    for number in 0..6 {
        assert_eq!(source.offer("x"), Ok(number));
    }
    source
}

/// Receives a session message in which a member reports its first missing message of rank 0.
fn receive_report(member: &mut Member, from: u32, number: u32, next: u32) -> Vec<String> {
    let entry = [Entry { member: 0, next, came_us: 0, sent_us: 0 }.to_bytes()];
    let (sources, others) = (Entries::new(&entry), Entries::default());
    let session = Session { from, number, clock_us: number * 1000, next: 0, oldest: 0, sources, others };
    member.receive(Packet::Session(session))
}

fn sequences(sent: &[String]) -> Vec<&str> {
    sent.iter().filter_map(|line| line.split("seq ").nth(1)?.split(' ').next()).collect()
}

#[test]
fn source_stays_within_buffer_of_slowest_member() {
    let mut source = source();
    assert_eq!(sequences(&source.sent()), ["0", "1", "2", "3"]);
    assert!(receive_report(&mut source, 1, 1, 4).is_empty());
    assert!(receive_report(&mut source, 2, 1, 2).is_empty());
    assert_eq!(sequences(&receive_report(&mut source, 3, 1, 1)), ["4"]);
    // Reports never move back.
    assert!(receive_report(&mut source, 3, 2, 0).is_empty());
    assert_eq!(sequences(&receive_report(&mut source, 3, 3, 2)), ["5"]);
    let completed = |event: &Event| matches!(event, Event::Completed { .. });
    assert_eq!(source.events().iter().filter(|event| completed(event)).count(), 2);
}

#[test]
fn source_does_not_await_expelled_member() {
    let mut source = source();
    source.sent();
    receive_report(&mut source, 1, 1, 4);
    receive_report(&mut source, 2, 1, 4);
    assert_eq!(sequences(&source.expel(3)), ["4", "5"]);
}

#[test]
fn report_beyond_sent_messages_is_dropped() {
    let mut source = source();
    source.sent();
    receive_report(&mut source, 1, 1, 5);
    assert!(source.drops().contains(&DropReason::OutOfWindow));
    receive_report(&mut source, 2, 1, 4);
    assert!(receive_report(&mut source, 3, 1, 4).is_empty());
}

#[test]
fn member_reports_after_a_quarter_of_the_buffer() {
    let mut member = Member::new(&[("flow_control", "members"), ("buffer", "16")]);
    let has_session = |sent: Vec<String>| sent.iter().any(|line| line.starts_with("session"));
    for sequence in 0..3 {
        assert!(!has_session(member.data(sequence)));
    }
    assert!(has_session(member.data(3)));
    assert!(!has_session(member.data(4)));
    // Message 5 is lost: later ones do not advance the prefix.
    for sequence in 6..12 {
        assert!(!has_session(member.data(sequence)));
    }
    assert!(has_session(member.repair(2, 5, 0)));
}

#[test]
fn flow_control_evicts_no_awaited_message() {
    let mut member = Member::new(&[("flow_control", "members"), ("buffer", "4")]);
    member.data(0);
    for sequence in [2, 3, 4, 5, 6, 1000] {
        member.data(sequence);
    }
    // There are slots for messages 1 to 4: no source may be further ahead.
    assert_eq!(member.drops(), [DropReason::BufferFull; 3]);
    member.repair(2, 1, 0);
    assert_eq!(member.take_all(), [0, 1, 2, 3, 4]);
    let lost = |event: &Event| matches!(event, Event::LossFinal { .. });
    assert!(!member.events().iter().any(lost));
    member.data(5);
    assert_eq!(member.take_all(), [5]);
}

#[test]
fn repair_budget_limits_repeated_requests_of_a_member() {
    let mut member = Member::new(&[("repair_budget", "2"), ("hold_down_min", "2 ms")]);
    member.data(0);
    // A claim of more messages does not raise the budget.
    member.request(3, 20);
    let repairs = |sent: Vec<String>| sent.iter().filter(|line| line.starts_with("repair")).count();
    let (mut sent, mut ms) = (0, 1);
    for _ in 0..2000 {
        member.request(2, 0);
        // The repair waits for 10 ms and its hold-down for 30 ms.
        ms += 50;
        sent += repairs(member.at(ms));
    }
    // 1024, and two for the only message.
    assert_eq!(sent, 1026);
    assert!(member.drops().contains(&DropReason::Redundant));
    // Other members have their own budgets.
    member.request(3, 0);
    assert_eq!(repairs(member.at(ms + 50)), 1);
}

#[test]
fn hold_down_min_applies_to_near_requesters() {
    let mut member = Member::new(&[("hold_down_min", "100 ms")]);
    member.data(0);
    let repairs = |sent: Vec<String>| sent.iter().filter(|line| line.starts_with("repair")).count();
    member.request(2, 0);
    assert_eq!(repairs(member.at(20)), 1);
    // Three times the distance is long over.
    member.at(90);
    member.request(2, 0);
    assert_eq!(repairs(member.at(109)), 0);
    member.at(111);
    member.request(2, 0);
    assert_eq!(repairs(member.at(130)), 1);
}
