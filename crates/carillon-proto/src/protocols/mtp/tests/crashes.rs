//! Crashes of the master and of producers: all members deliver a message, or none does.

use std::time::Duration;

use carillon_core::{Event, NodeId, Outcome, ProtocolEntry};
use carillon_testkit::{Group, Link, SENDER, sampling_step};

use crate::protocols::mtp::{ENTRY, MTP2_ENTRY};

const MS: Duration = Duration::from_millis(1);

/// Four members, of which three send messages of up to three packets.
fn four(entry: &'static ProtocolEntry, seed: u64) -> Group {
    let link = Link { delay: MS, jitter: Duration::from_micros(300), ..Link::losing(0.1) };
    let group = Group::new(entry, seed).receivers(3).senders(3).messages(20).all_links(link);
    let group =
        group.set("heartbeat", "5 ms").set("retention", "40").set("message_packets", "3").set("window", "4");
    group.limit(Duration::from_secs(60)).afterwards(Duration::from_secs(10))
}

/// MTP: the message of a crashed producer is accepted everywhere or rejected everywhere.
#[test]
fn crashed_producer_leaves_no_partial_message() {
    for at in (1..60).step_by(sampling_step(4)) {
        let report = four(&ENTRY, at.into()).crash(NodeId(1), at * MS).run();
        report.check_reliable().unwrap_or_else(|error| panic!("crash at {at} ms: {error}"));
    }
}

/// MTP: a crash of the master ends the web. No member delivers anything wrong, and each live one reports it.
#[test]
fn crashed_master_ends_the_web_with_a_report() {
    for at in (1..60).step_by(sampling_step(4)) {
        let report = four(&ENTRY, at.into()).messages(200).crash(SENDER, at * MS).run();
        report.check_safety().unwrap_or_else(|error| panic!("crash at {at} ms: {error}"));
        for node in [1, 2].map(NodeId) {
            let lost = |at, event: &Event| at == node && *event == Event::MemberLost { member: SENDER };
            assert_eq!(report.count(lost), 1, "crash at {at} ms");
            let failed = |at, event: &Event| {
                at == node && matches!(event, Event::Completed { outcome: Outcome::Failed, .. })
            };
            assert!(report.count(failed) > 0, "crash at {at} ms");
        }
    }
}

/// MTP-2: all survivors deliver every message that any member delivered, and all of their own.
#[test]
fn new_master_continues_after_crash_at_any_time() {
    for at in (1..60).step_by(sampling_step(4)) {
        let report = four(&MTP2_ENTRY, at.into()).set("vote_interval", "10 ms").crash(SENDER, at * MS).run();
        report.check_reliable().unwrap_or_else(|error| panic!("crash at {at} ms: {error}"));
        let lost = |node, event: &Event| node == NodeId(3) && *event == Event::MemberLost { member: SENDER };
        // A crash after the last message is not noticed: no member waits for the master.
        assert!(report.count(lost) == 1 || at > 30, "crash at {at} ms");
    }
}

/// MTP-2: a crash of a producer between two packets of a message.
#[test]
fn new_view_drops_partial_message_of_crashed_producer() {
    for at in (1..60).step_by(sampling_step(4)) {
        let report =
            four(&MTP2_ENTRY, at.into()).set("vote_interval", "10 ms").crash(NodeId(1), at * MS).run();
        report.check_reliable().unwrap_or_else(|error| panic!("crash at {at} ms: {error}"));
    }
}

/// MTP-2: resilience 2 survives the crash of two masters in a row.
#[test]
fn resilience_two_survives_two_masters() {
    for at in [5, 20, 35] {
        let group =
            four(&MTP2_ENTRY, at.into()).receivers(4).set("resilience", "2").set("vote_interval", "10 ms");
        let report = group.crash(SENDER, at * MS).crash(NodeId(1), (at + 400) * MS).run();
        report.check_reliable().unwrap_or_else(|error| panic!("crash at {at} ms: {error}"));
    }
}

/// MTP-2: a restarted master is a member without its role.
#[test]
fn restarted_master_rejoins_as_member() {
    let group = four(&MTP2_ENTRY, 1).messages(200).set("vote_interval", "10 ms");
    let report = group.crash(SENDER, 30 * MS).restart(SENDER, 600 * MS).run();
    report.check_reliable().unwrap();
    let joined = |node, event: &Event| node == NodeId(3) && *event == Event::MemberJoined { member: SENDER };
    assert_eq!(report.count(joined), 1);
    assert_eq!(report.rejoined.len(), 1);
}

/// MTP-2: each of the first `resilience` members reports each message once.
#[test]
fn resilience_costs_one_report_per_backup_and_message() {
    for resilience in 0..3 {
        let group = Group::new(&MTP2_ENTRY, 1).receivers(4).messages(50).set("heartbeat", "20 ms");
        let report = group.set("resilience", &resilience.to_string()).set("announce", "prompt").run();
        report.check_reliable().unwrap();
        let held = report.count(|_, event| matches!(event, Event::ControlSent { packet: "held", .. }));
        assert_eq!(held, 50 * resilience);
    }
}
