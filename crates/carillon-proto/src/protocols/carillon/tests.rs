//! Groups with lossy links: numbers of repairs, polls and delays.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, Dest, Event, GroupId, Machine, NodeId, PortId, Received,
    Scope, Sender, Time,
};
use carillon_testkit::{Group, Link, Report, SENDER, is_long_tier, peer_context};
use carillon_wire::carillon::{IncompleteBlock, IncompleteBlocks, Packet, Status};
use carillon_wire::map::Map;

use super::{CarillonSender, ENTRY};
use crate::blocks::congestion::CONTROLLER_NAMES;
use carillon_session::SenderSessionConfig;

fn settings(pairs: &[(&str, &str)]) -> Config {
    let mut config = Config::defaults(ENTRY.parameters);
    for (key, value) in [("past_limit", "wait")].iter().chain(pairs) {
        config.set(ENTRY.parameters, key, value).expect("a setting");
    }
    config
}

/// Runs a group in which each receiver loses this share of the sender's packets.
fn lossy(receivers: u32, messages: u64, loss: f64, pairs: &[(&str, &str)]) -> Report {
    let mut group = Group::new(&ENTRY, 1).receivers(receivers).messages(messages).settings(settings(pairs));
    for node in (1..=receivers).map(NodeId) {
        let link = Link { delay: Duration::from_millis(1), ..Link::losing(loss) };
        group = group.link(SENDER, node, link).link(
            node,
            SENDER,
            Link { delay: Duration::from_millis(1), ..Link::losing(0.0) },
        );
    }
    let report = group.run();
    report.check_reliable().expect("everything is delivered");
    report
}

fn repairs(report: &Report) -> usize {
    report.count(|_, event| matches!(event, Event::RepairSent { .. }))
}

fn coded(report: &Report) -> usize {
    report.count(|_, event| matches!(event, Event::Received { packet: "repair", .. }))
}

#[test]
fn single_receiver_is_repaired_without_coding() {
    let report = lossy(1, 500, 0.2, &[]);
    assert_eq!(coded(&report), 0);
    // The expected number is 500 p / (1 - p) = 125 with a standard deviation of 12.5.
    assert!((80..170).contains(&repairs(&report)), "{}", repairs(&report));
}

#[test]
fn sums_serve_16_receivers_at_cost_of_worst() {
    let report = lossy(16, 4000, 0.05, &[]);
    assert_eq!(coded(&report), 0);
    // One receiver needs 211 repairs on average, and the worst of 16 about 30 more of two large blocks. Some of the
    // receivers miss more than half of all messages.
    assert!((200..340).contains(&repairs(&report)), "{}", repairs(&report));
}

#[test]
fn repairs_wait_for_all_answers_despite_lost_polls() {
    let report = lossy(2, 2000, 0.2, &[]);
    assert!((480..560).contains(&repairs(&report)), "{}", repairs(&report));
}

#[test]
fn coded_symbols_serve_40_receivers_at_cost_of_one() {
    let messages = if is_long_tier() { 2000 } else { 1000 };
    let many = lossy(40, messages, 0.2, &[]);
    assert!(coded(&many) > 0);
    // One receiver needs a quarter on average. Without coding, four fifths of all messages would be repeated.
    assert!(repairs(&many) < messages as usize * 17 / 40, "{} for 40", repairs(&many));
}

/// The group has more members than one poll names.
#[test]
fn coded_symbols_serve_group_of_100_at_cost_of_worst() {
    let report = lossy(100, 1000, 0.05, &[]);
    assert!(coded(&report) > 0);
    // One receiver misses 53 on average. The worst of 100 needs about 18 more per block, and blocks are shorter than
    // the transfer.
    assert!(repairs(&report) < 115, "{}", repairs(&report));
    let polls = report.count(|_, event| matches!(event, Event::ControlSent { packet: "poll", .. }));
    assert!(polls < 200, "{polls} polls");
}

#[test]
fn redundancy_trades_packets_for_rounds() {
    let delivered = |report: &Report| {
        let all = report.events.iter().filter(|at| matches!(at.event, Event::Delivered { .. }));
        all.map(|at| at.time).max().expect("all is delivered")
    };
    let (none, much) = (lossy(8, 2000, 0.1, &[]), lossy(8, 2000, 0.1, &[("redundancy", "0.2")]));
    // Packets take no time on these links, so round trips determine the delay.
    assert!(delivered(&much) < delivered(&none), "{:?} and {:?}", delivered(&much), delivered(&none));
    assert!(repairs(&much) >= 400 && repairs(&much) < 480, "{}", repairs(&much));
}

#[test]
fn pause_closes_block() {
    let group = Group::new(&ENTRY, 1).receivers(3).messages(20).settings(settings(&[]));
    let report = group.all_links(Link::losing(0.3)).interval(Duration::from_millis(200)).run();
    report.check_reliable().expect("everything is delivered");
}

/// Sends 5000 messages, one each 0.1 ms, to three receivers with a loss of 1 %. Returns the latency of each delivery.
fn live(pairs: &[(&str, &str)]) -> (Report, Vec<Duration>) {
    let link = |loss| Link { delay: Duration::from_micros(100), ..Link::losing(loss) };
    let mut group = Group::new(&ENTRY, 1).receivers(3).messages(5000).settings(settings(pairs));
    for node in (1..=3).map(NodeId) {
        group = group.link(SENDER, node, link(0.01)).link(node, SENDER, link(0.0));
    }
    let report = group.interval(Duration::from_micros(100)).run();
    report.check_reliable().expect("everything is delivered");
    let mut sent = BTreeMap::new();
    let mut late = Vec::new();
    for at in &report.events {
        match at.event {
            Event::Sent { message, .. } => _ = sent.entry(message).or_insert(at.time),
            Event::Delivered { message, .. } => late.push(at.time.since(sent[&message])),
            _ => {}
        }
    }
    late.sort_unstable();
    (report, late)
}

#[test]
fn repair_of_live_message_precedes_full_block() {
    let (_, late) = live(&[]);
    // A poll follows the first message of a block by at most 2 ms, and a repair takes three times 0.1 ms. The poll or
    // the repair may be lost. A block of 256 messages would take 25.6 ms.
    let (half, most) = (late[late.len() / 2], late[late.len() * 99 / 100]);
    assert!(half < Duration::from_micros(200) && most < Duration::from_millis(6), "{half:?} and {most:?}");
}

#[test]
fn live_sessions_detect_loss_four_times_sooner() {
    let config = || SenderSessionConfig::new(AssociationId(7), "s", GroupId(0), &ENTRY, 1400);
    let quiet = |config: SenderSessionConfig| config.config.span("quiet").at(BitRate::mbps(1000));
    assert!(quiet(config().live()) * 4 == quiet(config()));
    assert_eq!(config().live().config.choice("past_limit"), "wait", "as of files otherwise");
}

#[test]
fn arrival_order_delays_only_lost_messages() {
    let later = |late: &[Duration]| late.iter().filter(|&&late| late > Duration::from_micros(100)).count();
    let (report, late) = live(&[("order", "arrival")]);
    let repaired = report.count(|_, event| matches!(event, Event::Received { packet: "xor" | "repair", .. }));
    assert!((100..250).contains(&later(&late)), "{} of 15000 are late", later(&late));
    assert!(repaired > 0);
    // A gap delays all messages after it.
    let (_, in_order) = live(&[]);
    assert!(later(&in_order) > 10 * later(&late), "{} of 15000 are late in order", later(&in_order));
}

#[test]
fn repairs_for_lying_receiver_stay_within_budget() {
    let members = [NodeId(1)].into();
    let context = BuildContext { members, ..peer_context(&[SENDER, NodeId(1)], 0, false) };
    // Test a short path, and a long one on which extra repairs are sent.
    for trip in [1, 20] {
        let mut sender =
            CarillonSender::new(&context, &settings(&[("window", "64"), ("block", "32")])).unwrap();
        let (mut now, mut repairs, mut arrived, mut polls) = (Time::ZERO, 0, 0, 0);
        for _ in 0..5_000 {
            while sender.offer(now, Bytes::from_static(b"x")).is_ok() {}
            let (mut buf, mut lie) = (Vec::new(), None);
            while sender.poll_transmit(now, &mut buf).is_some() {
                match Packet::parse(&buf).unwrap().1 {
                    // Claim that half of the packets arrive, and request every message of each block as if no repairs
                    // had been sent.
                    Packet::Poll { poll, blocks, .. } => {
                        let mut list = Vec::new();
                        for block in blocks.iter() {
                            let (first, count, lacks) = (block.first, block.count, block.length);
                            IncompleteBlocks::push(
                                IncompleteBlock { first, count, lacks, plain: false, missing: Map::new(&[]) },
                                &mut list,
                            );
                        }
                        let status =
                            Status { expected: 0, question: poll.question, arrived: arrived / 2, room: 64 };
                        let mut answer = Vec::new();
                        let lacking = IncompleteBlocks::new(&list, blocks.count());
                        Packet::Status { status, lacking }.emit(context.association, &mut answer);
                        lie = Some(Bytes::from(answer));
                        polls += 1;
                    }
                    _ => (repairs, arrived) = (repairs + 1, arrived + 1),
                }
                buf.clear();
            }
            now += Duration::from_millis(trip);
            if let Some(bytes) = lie {
                let (destination, scope) = (Dest::group(GroupId(0)), Scope::GLOBAL);
                let ingress = PortId(0);
                sender.handle_datagram(
                    now,
                    Received { source: NodeId(1), destination: &destination, ingress, scope, bytes: &bytes },
                );
            }
            sender.handle_timeout(now);
            while sender.poll_event().is_some() {}
        }
        // The receiver acknowledges none of 64 messages. The long path doubles the repairs in its budget.
        let most = 64 + 2 * (1024 + 9 * 64);
        assert!(repairs < most && polls > 1000, "{repairs} with a round trip of {trip} ms, {polls} polls");
    }
}

/// Settings without feedback at a fixed rate.
const ONE_WAY: &[(&str, &str)] = &[("feedback", "none"), ("rate", "100 Mbit/s")];

fn one_way(receivers: u32, messages: u64, loss: f64, redundancy: &'static str) -> Report {
    let pairs = [ONE_WAY, &[("redundancy", redundancy)]].concat();
    let mut group = Group::new(&ENTRY, 1).receivers(receivers).messages(messages).settings(settings(&pairs));
    for node in (1..=receivers).map(NodeId) {
        let there = Link { delay: Duration::from_millis(1), ..Link::losing(loss) };
        group = group.link(SENDER, node, there).link(node, SENDER, Link::losing(1.0));
    }
    group.run()
}

#[test]
fn one_way_receivers_rebuild_losses_from_redundancy() {
    let report = one_way(20, 2000, 0.1, "0.25");
    assert_eq!(report.count(|_, event| matches!(event, Event::Delivered { .. })), 20 * 2000);
    assert_eq!(repairs(&report), 500);
    assert_eq!(report.count(|_, event| matches!(event, Event::ControlSent { packet: "status", .. })), 0);
}

#[test]
fn one_way_receivers_report_unrepaired_losses() {
    let report = one_way(3, 4000, 0.1, "0.01");
    for node in (1..=3).map(NodeId) {
        let of_it = |at: &&carillon_core::TraceEvent| at.node == node;
        let mut numbers: Vec<u64> = report
            .events
            .iter()
            .filter(of_it)
            .filter_map(|at| match at.event {
                Event::Delivered { message, .. } | Event::LossFinal { message, .. } => Some(message.0),
                _ => None,
            })
            .collect();
        let lost = report.count(|at, event| at == node && matches!(event, Event::LossFinal { .. }));
        assert!((300..500).contains(&lost), "{lost}");
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(0..4000), "each message is delivered or named, once");
    }
}

#[test]
fn one_way_sender_needs_rate() {
    let context =
        BuildContext { members: [NodeId(1)].into(), ..peer_context(&[SENDER, NodeId(1)], 0, false) };
    assert!(super::OneWaySender::new(&context, &settings(&[("feedback", "none")])).is_err());
}

#[test]
fn adaptive_redundancy_anticipates_requests() {
    // The rate is so low that the first answers come before the second block is closed. Sum several groups, since a
    // single one varies too much.
    let paced = [("block", "1024"), ("rate", "500 Mbit/s")];
    let run = |proactive| {
        let messages = if is_long_tier() { 4000 } else { 2100 };
        [8, 12, 16].map(|receivers| {
            let report = lossy(receivers, messages, 0.1, &[paced[0], paced[1], ("proactive", proactive)]);
            let at = |at: &carillon_core::TraceEvent| {
                matches!(at.event, Event::Delivered { .. }).then(|| at.time.as_nanos())
            };
            let all: Vec<u64> = report.events.iter().filter_map(at).collect();
            (repairs(&report), all.iter().sum::<u64>() / all.len() as u64)
        })
    };
    let (fixed, adaptive) = (run("fixed"), run("loss"));
    let sum =
        |runs: [(usize, u64); 3]| runs.into_iter().reduce(|one, other| (one.0 + other.0, one.1 + other.1));
    let (fixed, adaptive) = (sum(fixed).expect("three"), sum(adaptive).expect("three"));
    assert!(adaptive.0 < fixed.0 * 11 / 10, "{adaptive:?} and {fixed:?} repairs");
    assert!(adaptive.1 < fixed.1, "{adaptive:?} and {fixed:?} ns");
}

#[test]
fn every_controller_delivers_under_loss() {
    for name in CONTROLLER_NAMES {
        for (receivers, loss) in [(1, 0.0), (3, 0.2), (12, 0.05)] {
            let report = lossy(receivers, 400, loss, &[("congestion", name), ("rate", "20 Mbit/s")]);
            let delivered = report.count(|_, event| matches!(event, Event::Delivered { .. }));
            assert_eq!(delivered, receivers as usize * 400, "{name}");
        }
    }
}

#[test]
fn fixed_controller_needs_rate() {
    let members = [NodeId(1)].into();
    let context = BuildContext { members, ..peer_context(&[SENDER, NodeId(1)], 0, false) };
    let error = CarillonSender::new(&context, &settings(&[("congestion", "fixed")])).expect_err("no rate");
    assert!(error.to_string().contains("set `rate`"), "{error}");
}
