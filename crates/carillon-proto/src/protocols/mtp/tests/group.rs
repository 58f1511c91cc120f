//! Groups without crashes.

use std::time::Duration;

use carillon_core::{Event, NodeId, ProtocolEntry};
use carillon_testkit::{Group, Link, Report, SENDER};

use crate::protocols::mtp::{ENTRY, MTP2_ENTRY};

const MS: Duration = Duration::from_millis(1);

fn count(report: &Report, packet: &str) -> usize {
    report.count(|_, event| matches!(event, Event::ControlSent { packet: sent, .. } if *sent == packet))
}

fn group(entry: &'static ProtocolEntry) -> Group {
    Group::new(entry, 1).receivers(3).limit(Duration::from_secs(60)).set("heartbeat", "20 ms")
}

/// 3.2.1: each message of a member that is not the master costs one request and one confirm.
#[test]
fn message_costs_one_token_exchange() {
    let report = group(&ENTRY).senders(4).messages(20).run();
    report.check_reliable().unwrap();
    assert_eq!(count(&report, "token_confirm"), 3 * 20, "none for the master's own");
    assert_eq!(count(&report, "token_request"), 3 * 20);
    assert_eq!(report.transmissions(), (4 * 20, 0));
    assert_eq!(count(&report, "nak"), 0);
}

/// A token serves `message_packets` messages of the application.
#[test]
fn larger_messages_share_a_token() {
    let report = group(&ENTRY).senders(2).messages(20).set("message_packets", "5").set("queue", "20").run();
    report.check_reliable().unwrap();
    assert_eq!(count(&report, "token_confirm"), 4);
}

/// The producer that becomes master needs no tokens from others.
#[test]
fn migrated_master_exchanges_no_tokens() {
    let alone = |migrate: &str| {
        let quiet = group(&MTP2_ENTRY).senders(2).messages(100).set("vote_interval", "20 ms");
        let report = quiet.set("migrate_after", migrate).set("announce", "prompt").run();
        report.check_reliable().unwrap();
        count(&report, "token_request")
    };
    let (stays, moves) = (alone("0"), alone("5"));
    assert!(stays >= 100, "{stays}");
    assert!(moves < stays, "{moves} of {stays}");
}

/// A member that is cut off for longer than the retention reports its loss and leaves, and does not skip anything.
#[test]
fn cut_off_member_reports_its_loss() {
    let deaf = || Link::dropping(20..2000);
    let cut = group(&ENTRY).messages(400).interval(5 * MS).link(SENDER, NodeId(3), deaf());
    let report = cut.afterwards(Duration::from_secs(5)).run();
    report.check_safety().unwrap();
    let lost = report.count(|node, event| node == NodeId(3) && matches!(event, Event::LossFinal { .. }));
    assert!(lost > 0, "{}", report.progress());
    let others = report.receivers.iter().filter(|received| received.node != NodeId(3));
    assert!(others.into_iter().all(|received| received.deliveries.len() == 400), "{}", report.progress());
}

/// The master's heartbeat reveals the loss of the last message.
#[test]
fn lost_last_message_is_recovered() {
    for entry in [&ENTRY, &MTP2_ENTRY] {
        let lossy = Link { delay: MS, ..Link::dropping(2..6) };
        let group = group(entry).set("retention", "20");
        let report = group.messages(1).link(SENDER, NodeId(3), lossy).afterwards(MS * 5000).run();
        report.check_reliable().unwrap_or_else(|error| panic!("{}: {error}", entry.name));
    }
}

/// 3.4: a consumer with a full buffer suggests a smaller window. The master grants no tokens meanwhile.
#[test]
fn slow_application_holds_tokens_up() {
    for entry in [&ENTRY, &MTP2_ENTRY] {
        let slow = group(entry).senders(3).messages(60).pace(10 * MS).set("history", "64").set("queue", "4");
        let report = slow.set("retention", "20").run();
        report.check_reliable().unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let unread = report.receivers.iter().map(|received| received.deliveries.len()).max();
        assert_eq!(unread, Some(180));
    }
}

/// Any member may be the master.
#[test]
fn every_member_may_be_the_master() {
    for master in ["1", "3", "200"] {
        let report = group(&ENTRY).senders(2).messages(20).set("master", master).run();
        report.check_reliable().unwrap();
        let requests = if master == "1" { 20 } else { 40 };
        assert_eq!(count(&report, "token_request"), requests, "master {master}");
    }
}
