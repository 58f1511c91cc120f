//! Tests of whole groups with chosen losses.

use std::time::Duration;

use carillon_core::{Event, NodeId, Time};
use carillon_testkit::{Group, Link, Report, SENDER};

use crate::protocols::erramilli_singh::ENTRY;

/// Runs one sender and one receiver 1 ms apart. The sender offers a message each millisecond, and the listed
/// datagrams are lost.
fn run(drops: impl IntoIterator<Item = u64>, settings: &[(&str, &str)]) -> Report {
    let mut group = Group::new(&ENTRY, 1)
        .receivers(1)
        .messages(10)
        .link(SENDER, NodeId(1), Link::dropping(drops))
        .set("send_interval", "1 ms")
        .limit(Duration::from_secs(20));
    for (key, value) in settings {
        group = group.set(key, value);
    }
    group.run()
}

fn unrecoverable(report: &Report) -> usize {
    report.count(|_, event| matches!(event, Event::Note(note) if note.name == "unrecoverable"))
}

fn delivered(report: &Report) -> Vec<u64> {
    report.receivers[1].deliveries.iter().map(|delivery| delivery.message.0).collect()
}

#[test]
fn a_lost_message_is_repaired_from_the_back_window() {
    let report = run([3], &[("b", "4")]);
    report.check_reliable().unwrap();
    assert_eq!(report.transmissions(), (10, 1));
}

/// A back window shorter than the delay of a NAK loses the message for good.
#[test]
fn back_window_shorter_than_nak_delay_loses_message() {
    // Message 4 shows at 5 ms + 1 ms that 3 is missing; the NAK is there at 7 ms: 3 left at 4 ms with
    // b = 1, and at 6 ms with b = 3.
    for (b, lost) in [("1", true), ("2", true), ("3", false)] {
        let report = run([3], &[("b", b)]);
        assert!(report.finished.is_some());
        let all: Vec<u64> = (0..10).filter(|&number| number != 3 || !lost).collect();
        assert_eq!(delivered(&report), all, "b = {b}");
        assert_eq!(unrecoverable(&report), usize::from(lost), "b = {b}");
    }
}

#[test]
fn the_last_messages_are_missed_through_the_status_messages() {
    let report = run([8, 9], &[]);
    report.check_reliable().unwrap();
    let report = run([8, 9, 10, 11], &[]);
    report.check_reliable().unwrap();
}

/// The first sanity message reveals the missing data when all status messages are lost.
#[test]
fn first_sanity_message_reveals_loss_after_lost_statuses() {
    // Datagrams 10 to 13 are the K = 4 status messages, 10 ms apart; the sanity message comes 200 ms
    // after them.
    let report = run(9..14, &[]);
    report.check_reliable().unwrap();
    let found = report.events.iter().find(|event| matches!(event.event, Event::LossFound { .. }));
    let ms = found.unwrap().time.as_nanos() / 1_000_000;
    assert_eq!(ms, 9 + 4 * 10 + 200 + 1);
}

#[test]
fn a_slow_application_chokes_the_senders_and_nothing_is_lost() {
    let mut group = Group::new(&ENTRY, 1).receivers(3).senders(4).messages(40);
    group = group.pace(Duration::from_millis(3)).set("buffer", "8").set("send_interval", "500 us");
    let report = group.run();
    report.check_reliable().unwrap();
    let chokes = report.count(|_, event| matches!(event, Event::ControlSent { packet: "choke", .. }));
    assert!(chokes > 0);
}

#[test]
fn crashed_member_is_detected_and_returning_accepted() {
    let group = Group::new(&ENTRY, 1).receivers(2).messages(3).set("failure_intervals", "2");
    let report = group
        .crash(NodeId(2), Duration::from_millis(500))
        .restart(NodeId(2), Duration::from_secs(2))
        .afterwards(Duration::from_secs(3))
        .run();
    report.check_reliable().unwrap();
    for at in [SENDER, NodeId(1)] {
        let lost =
            |node, event: &Event| node == at && matches!(event, Event::MemberLost { member: NodeId(2) });
        let joined =
            |node, event: &Event| node == at && matches!(event, Event::MemberJoined { member: NodeId(2) });
        assert_eq!((report.count(lost), report.count(joined)), (1, 1));
        // Its last word was at most T2 old: it is missed 2 T2 and the margin after that.
        let noticed = report.events.iter().find(|event| lost(event.node, &event.event)).unwrap();
        let after = noticed.time.since(Time::ZERO + Duration::from_millis(500)).as_millis();
        assert!((210..=411).contains(&after), "{after}");
    }
}
