//! PF in groups: bounded rate of responses for any round-trip times, and children that forge feedback, fall silent,
//! leave or are slow.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{Config, Event, NodeId, ProtocolEntry, Rng, Seeds};
use carillon_proto::find;
use carillon_testkit::{Group, Link, Report, SENDER, is_long_tier};

const MS: Duration = Duration::from_millis(1);

fn pf() -> &'static ProtocolEntry {
    find("pf").expect("it is in the registry")
}

fn settings(values: &[(&str, String)]) -> Config {
    let mut config = Config::defaults(pf().parameters);
    for (key, value) in values {
        config.set(pf().parameters, key, value).expect("a valid setting");
    }
    config
}

/// Number of datagrams at the parent in each epoch, all of them responses.
fn arrivals(report: &Report, epoch: Duration) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for event in report.events.iter().filter(|event| event.node == SENDER) {
        if matches!(event.event, Event::Received { .. } | Event::Dropped { .. }) {
            *counts.entry(event.time.as_nanos() / epoch.as_nanos() as u64).or_default() += 1;
        }
    }
    counts
}

/// Maximum delay and advance of a response against its epoch. The poll may wait for two gaps, and the round trip may
/// differ from its estimate.
fn slack(jitter: Duration, spread: Duration) -> (Duration, Duration) {
    let wrong = 2 * jitter + spread;
    (2 * MS + wrong, wrong)
}

fn epochs(span: Duration, epoch: Duration) -> u64 {
    span.as_nanos().div_ceil(epoch.as_nanos()) as u64
}

/// Checks that over any number of epochs the responses stay within the quotas of these epochs and of epochs within
/// their slack. Returns the number of responses.
fn check(report: &Report, epoch: Duration, quota: u64, (late, early): (Duration, Duration)) -> u64 {
    let counts = arrivals(report, epoch);
    let last = counts.last_key_value().map_or(0, |(&epoch, _)| epoch);
    for span in [1, 4, 20] {
        let max = quota * (span + epochs(late, epoch) + epochs(early, epoch));
        for begin in 0..=last {
            let arrived: u64 = counts.range(begin..begin + span).map(|(_, count)| count).sum();
            assert!(arrived <= max, "{arrived} responses in {span} epochs from {begin} on: {max} at most");
        }
    }
    counts.values().sum()
}

fn group(rng: &mut Rng, seed: u64, jitter: Duration, trips: impl Fn(&mut Rng) -> Duration) -> (Group, u32) {
    let children = 1 + rng.below(120) as u32;
    let mut group = Group::new(pf(), seed).receivers(children).messages(60 + rng.below(200));
    let loss = rng.unit() * 0.1;
    for node in (1..=children).map(NodeId) {
        let link = Link { delay: trips(rng) / 2, jitter, ..Link::losing(loss) };
        group = group.link(SENDER, node, link.clone()).link(node, SENDER, link);
    }
    (group, children)
}

#[test]
fn responses_keep_to_the_rate_in_every_epoch() {
    let (mut responses, seeds) = (0, if is_long_tier() { 8 } else { 1 });
    for seed in 0..seeds {
        let mut rng = Seeds::new(seed).stream("implosion");
        let epoch = Duration::from_millis([5, 10, 25][rng.below(3) as usize]);
        let quota = 1 + rng.below(30);
        let jitter = Duration::from_micros(rng.below(2) * rng.below(8_000));
        let spread = Duration::from_micros(rng.below(2) * rng.below(60_000));
        let nearest = Duration::from_millis(1 + rng.below(80));
        let far = |rng: &mut Rng| nearest + Duration::from_nanos(rng.below(spread.as_nanos() as u64 + 1));
        let rate = quota * 1_000_000_000 / epoch.as_nanos() as u64;
        let config = settings(&[
            ("epoch", format!("{} ms", epoch.as_millis())),
            // Slightly more, so that rounding does not reduce the quota.
            ("response_rate", (rate + 1).to_string()),
            ("rtt", format!("{} us", nearest.as_micros())),
            ("window", (1 + rng.below(300)).to_string()),
            ("past_limit", "wait".to_owned()),
        ]);
        let quota = (rate + 1) * epoch.as_nanos() as u64 / 1_000_000_000;
        let (group, _) = group(&mut rng, seed, jitter, far);
        let report = group.settings(config).run();
        report.check_reliable().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        responses += check(&report, epoch, quota, slack(jitter, spread));
    }
    assert!(responses > 500 * seeds, "{responses} responses");
}

/// A crashed child is expelled after the configured number of polls, and the others complete without further delay.
#[test]
fn silent_child_is_expelled_and_others_complete() {
    for seed in 0..if is_long_tier() { 10 } else { 3 } {
        let config = settings(&[("absent_polls", "6".into()), ("rto_min", "20 ms".into())]);
        let group = Group::new(pf(), seed).receivers(20).messages(200).all_links(Link::losing(0.02));
        let report = group.settings(config).crash(NodeId(7), 50 * MS).run();
        report.check_reliable().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let lost = report.events.iter().filter_map(|event| match event.event {
            Event::MemberLost { member } => Some(member),
            _ => None,
        });
        assert_eq!(lost.collect::<Vec<_>>(), [NodeId(7)], "seed {seed}");
    }
}

/// Flow control, which the paper leaves for later: children read a message every 5 ms, and no buffer overflows.
#[test]
fn slow_children_do_not_overflow() {
    let config = settings(&[("window", "8".into())]);
    let group = Group::new(pf(), 3).receivers(10).messages(100).pace(5 * MS);
    let report = group.settings(config).run();
    report.check_reliable().unwrap();
    let overflows = report
        .count(|_, event| matches!(event, Event::Dropped { reason: carillon_core::DropReason::BufferFull }));
    assert_eq!(overflows, 0, "the effective window is kept");
    let finished = report.finished.expect("it ends");
    assert!(finished.as_secs_f64() > 0.4, "{finished}: it goes at their pace");
}
