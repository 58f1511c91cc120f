//! Groups with scripted losses and crashes.

use std::time::Duration;

use carillon_core::{Event, NodeId};
use carillon_testkit::{Group, Link, Report, SENDER, sampling_step};

use crate::protocols::sequencer::ENTRY;

const MS: Duration = Duration::from_millis(1);

fn count(report: &Report, packet: &str) -> usize {
    report.count(|_, event| matches!(event, Event::ControlSent { packet: sent, .. } if *sent == packet))
}

/// Four members, of which three send twenty messages each.
fn four() -> Group {
    Group::new(&ENTRY, 1).receivers(3).senders(3).messages(20).limit(Duration::from_secs(20))
}

/// Uniform delivery: after a crash of the sequencer, all survivors deliver every message that any member delivered.
#[test]
fn group_survives_crash_of_sequencer_at_any_time() {
    // A crash at sampled milliseconds of a stream that takes about 75 ms.
    for at in (1..70).step_by(sampling_step(4)) {
        let report = four().crash(SENDER, at * MS).run();
        report.check_reliable().unwrap_or_else(|error| panic!("crash at {at} ms: {error}"));
        let lost = |node, event: &Event| node == NodeId(3) && *event == Event::MemberLost { member: SENDER };
        assert_eq!(report.count(lost), 1, "crash at {at} ms");
    }
}

#[test]
fn restarted_sequencer_rejoins_as_member() {
    let report = four().crash(SENDER, 30 * MS).restart(SENDER, 2000 * MS).run();
    report.check_reliable().unwrap();
    let joined = |node, event: &Event| node == NodeId(3) && *event == Event::MemberJoined { member: SENDER };
    assert_eq!(report.count(joined), 1);
    assert_eq!(report.rejoined.len(), 1);
}

#[test]
fn restarted_member_delivers_later_messages() {
    let report = four().messages(200).crash(NodeId(3), 30 * MS).restart(NodeId(3), 31 * MS).run();
    report.check_reliable().unwrap();
    let got = report.rejoined[0].deliveries.len();
    assert!((400..590).contains(&got), "{got}");
}

#[test]
fn resilience_two_survives_crash_of_two_sequencers() {
    for at in [5, 20, 35] {
        let group = four().receivers(4).set("resilience", "2").crash(SENDER, at * MS);
        let report = group.crash(NodeId(1), (at + 900) * MS).run();
        report.check_reliable().unwrap_or_else(|error| panic!("crash at {at} ms: {error}"));
    }
}

#[test]
fn partitioned_member_is_removed_and_rejoins() {
    let deaf = || Link::dropping(10..400);
    let mut group =
        four().messages(200).set("history", "16").set("tries", "4").limit(Duration::from_secs(60));
    for other in 0..3 {
        group = group.link(NodeId(other), NodeId(3), deaf()).link(NodeId(3), NodeId(other), deaf());
    }
    let report = group.run();
    report.check_safety().unwrap();
    assert!(report.finished.is_some());
    let of_it = |node, event: &Event| match event {
        Event::MemberLost { member: NodeId(3) } => node == SENDER,
        _ => false,
    };
    assert!(report.count(of_it) > 0, "it was cut out");
}

#[test]
fn lost_last_message_is_recovered() {
    // The only message of the run is lost.
    let group = Group::new(&ENTRY, 1).receivers(3).messages(1);
    let report = group.link(SENDER, NodeId(3), Link::dropping([0, 1])).run();
    report.check_reliable().unwrap();
    assert!(report.quiet, "and then nothing is left to do");
}

#[test]
fn slow_applications_slow_the_senders_down_and_nothing_is_lost() {
    let report = four().messages(40).pace(5 * MS).set("history", "8").set("window", "16").run();
    report.check_reliable().unwrap();
    assert!(count(&report, "phase2") > 0, "the history was full");
}

#[test]
fn basic_form_costs_two_packets_per_message() {
    let group = Group::new(&ENTRY, 1).receivers(3).senders(4).messages(100).set("resilience", "0");
    let report = group.run();
    report.check_reliable().unwrap();
    let (sent, again) = report.transmissions();
    assert_eq!((sent, again), (400, 0));
    let forwarded = report.count(|_, event| matches!(event, Event::Forwarded { repair: false, .. }));
    assert_eq!(forwarded, 300, "the sequencer's own are sent once");
    // The final synchronisation: PHASE1 and three answers.
    assert_eq!(count(&report, "phase1"), 1);
    // The sequencer's hundred messages make the others acknowledge in between.
    assert_eq!((1..4).map(|node| report.feedback(NodeId(node))).sum::<usize>(), 3 + 5);
}

#[test]
fn resilience_costs_one_acknowledgment_per_backup() {
    for resilience in 1..4 {
        let group = Group::new(&ENTRY, 1).receivers(4).messages(50);
        let report = group.set("resilience", &resilience.to_string()).run();
        report.check_reliable().unwrap();
        // An acceptance rides on the next message.
        assert_eq!((count(&report, "ack"), count(&report, "accept")), (50 * resilience, 1));
    }
}
