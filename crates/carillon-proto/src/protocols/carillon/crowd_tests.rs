//! Tests with more receivers than one poll names, at rates at which each message is a block of its own.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::{AssociationId, Config, Dest, Event, GroupId, NodeId, Time};
use carillon_testkit::{Group, Link, Report, SENDER, is_long_tier, peer_context};
use carillon_wire::carillon::{ClosedBlocks, Packet, Poll, PolledReceivers};

use super::ENTRY;
use super::census::MAX_SPAN;
use super::test_net::{Net, message, received};

/// Sends a message each `interval` to receivers at a distance of `delay`, over links that lose this share in both
/// directions.
fn crowd(receivers: u32, messages: u64, loss: f64, times: (Duration, Duration), past_limit: &str) -> Report {
    let (interval, delay) = times;
    let mut settings = Config::defaults(ENTRY.parameters);
    settings.set(ENTRY.parameters, "past_limit", past_limit).expect("a setting");
    let group = Group::new(&ENTRY, 1).receivers(receivers).messages(messages).settings(settings);
    let report = group.all_links(Link { delay, ..Link::losing(loss) }).interval(interval).run();
    report.check_reliable().unwrap_or_else(|complaint| panic!("{receivers} receivers, {loss}: {complaint}"));
    report
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A group has one receiver more than a poll names. A round without awaited members must not start the next one at
/// the same instant.
#[test]
fn slow_group_of_65_polls_finitely() {
    let report = crowd(65, 80, 0.01, (ms(100), ms(5)), "wait");
    let polls = polls(&report);
    assert!(polls < 80 * 12, "{polls} polls for 80 messages");
}

fn polls(report: &Report) -> usize {
    report.count(|_, event| matches!(event, Event::ControlSent { packet: "poll", .. }))
}

/// Polls of a very large group cost much.
#[test]
fn very_large_group_is_polled_rarely() {
    let polls = polls(&crowd(1100, 10, 0.01, (ms(100), ms(5)), "wait"));
    assert!((10..10 * 8).contains(&polls), "{polls} polls for 10 messages");
}

/// A census asks all. By name, each 256 members would cost a poll that reaches all.
#[test]
fn more_members_than_a_census_needs_confirm_by_it() {
    let receivers = if is_long_tier() { 20_000 } else { 4500 };
    let polls = polls(&crowd(receivers, 2, 0.01, (ms(50), ms(5)), "wait"));
    assert!((5..30).contains(&polls), "{polls} polls for 2 messages");
}

/// A repeated census changes the time of an answer, and causes no second one.
#[test]
fn receivers_answer_each_census_once() {
    let mut net = Net::new(3, 0.0);
    let now = net.now;
    net.sender().offer(now, message(0)).expect("there is room");
    net.sender().finish(now);
    net.settle();
    let second = Duration::from_secs(1);
    let mut answers = |census, span: Duration, repeats| answers_to(&mut net, census, span, repeats);
    assert_eq!(answers(1, second, 1), 3);
    assert_eq!(answers(1, second, 2), 0, "it is answered");
    assert_eq!(answers(2, second, 5), 3);
    assert_eq!(answers(0, second, 3), 0, "no census has this number");
    assert_eq!(answers(3, Duration::ZERO, 3), 0, "a census has a span");
    assert_eq!(answers(4, Duration::from_secs(4000), 1), 3, "answers are due in {MAX_SPAN:?}");
    assert_eq!(answers(1, second, 1), 3, "numbers start again");
}

/// Number of statuses that a POLL of this census causes within its longest span, if it is repeated immediately.
fn answers_to(net: &mut Net, census: u32, span: Duration, repeats: u32) -> usize {
    let association: AssociationId = peer_context(&[SENDER], 0, false).association;
    let poll = Poll { next: 1, first: 0, question: census, after: 0, span: span.as_micros() as u32 };
    let mut buf = Vec::new();
    let (blocks, asked) = (ClosedBlocks::new(&[]), PolledReceivers::new(&[]));
    Packet::Poll { poll, blocks, asked }.emit(association, &mut buf);
    let (bytes, group) = (Bytes::from(buf), Dest::group(GroupId(0)));
    let begin: Time = net.now;
    net.now += MAX_SPAN;
    let mut answers = 0;
    for receiver in &mut net.receivers {
        (0..repeats).for_each(|_| receiver.handle_datagram(begin, received(SENDER, &group, &bytes)));
        let early = receiver.poll_transmit(begin, &mut Vec::new());
        assert_eq!(early, None, "an answer waits for a random time");
        receiver.handle_timeout(net.now);
        while receiver.poll_transmit(net.now, &mut Vec::new()).is_some() {
            answers += 1;
        }
    }
    answers
}

/// A receiver that missed a poll is polled again, and blocks beyond the first 64 are listed.
#[test]
fn lossy_group_of_100_receives_everything() {
    crowd(100, 120, 0.02, (ms(10), ms(5)), "wait");
    if is_long_tier() {
        for loss in [0.001, 0.05, 0.2] {
            crowd(100, 300, loss, (ms(10), ms(5)), "wait");
            crowd(100, 300, loss, (ms(1), ms(50)), "wait");
        }
    }
}

/// Case of more blocks in flight than a poll lists.
#[test]
fn group_of_66_far_away_receives_everything() {
    crowd(66, if is_long_tier() { 400 } else { 220 }, 0.05, (ms(3), ms(200)), "wait");
}

/// Chance alone does not make a member silent where the sender skips what silent members miss.
#[test]
fn lossy_group_of_100_is_not_taken_for_silent() {
    let report = crowd(100, 40, 0.2, (ms(250), ms(5)), "skip");
    let lost = report.count(|_, event| matches!(event, Event::LossFinal { .. }));
    assert_eq!(lost, 0);
}

/// A crashed receiver of a large group does not delay repairs to the others.
#[test]
fn silent_members_of_a_crowd_hold_up_no_repair() {
    let mut settings = Config::defaults(ENTRY.parameters);
    settings.set(ENTRY.parameters, "past_limit", "expel").expect("a setting");
    let mut group = Group::new(&ENTRY, 1)
        .receivers(70)
        .messages(if is_long_tier() { 100 } else { 30 })
        .settings(settings);
    for node in (1..=20).map(NodeId) {
        group = group.crash(node, ms(300));
    }
    let report = group.all_links(Link { delay: ms(5), ..Link::losing(0.05) }).interval(ms(20)).run();
    report.check_reliable().expect("the others receive everything");
}
