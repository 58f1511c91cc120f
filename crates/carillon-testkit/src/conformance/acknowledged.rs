//! Protocols with one sender and acknowledged delivery.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{lossy, same, with_drawn_settings};
use crate::{DeliveryGuarantee, Group, Link, Report, SENDER, TrialNetwork, protocol_tests};
use carillon_core::{Event, NodeId, Outcome, Probability, ProtocolEntry, Seeds};
use carillon_sim::{LanConfig, TimerRule};

/// Parameters of the guarantee.
#[derive(Clone, Copy)]
pub struct Promised {
    in_order: bool,
    idle_feedback: Option<Duration>,
}

/// Parameters of the guarantee; `None` for another guarantee.
pub fn acknowledged(guarantee: &DeliveryGuarantee) -> Option<Promised> {
    match *guarantee {
        DeliveryGuarantee::Acknowledged { in_order, idle_feedback } => {
            Some(Promised { in_order, idle_feedback })
        }
        _ => None,
    }
}

/// Runs each test once.
///
/// # Errors
/// The first violation of the guarantee.
pub fn run_of_each_test(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let Some(promised) = acknowledged(&protocol_tests(entry).guarantee) else { return Ok(()) };
    let tests = [lossy_links, lossy_ethernet, unordered_links, silence, crashes];
    tests.into_iter().try_for_each(|test| test(entry, promised, seed))
}

/// Loss of up to 30 % in either direction, different on every link, with random settings.
pub fn lossy_links(entry: &'static ProtocolEntry, promised: Promised, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.links");
    let receivers = 1 + rng.below(8) as u32;
    let group =
        Group::new(entry, seed).receivers(receivers).messages(10 + rng.below(40)).afterwards(WATCH_TIME);
    let mut group = with_drawn_settings(group, entry, TrialNetwork::Links, receivers + 1, &mut rng, |_| {});
    for node in (1..=receivers).map(NodeId) {
        let (there, back) = (lossy(&mut rng, 0.3), lossy(&mut rng, 0.3));
        group = group.link(SENDER, node, there).link(node, SENDER, back);
    }
    if rng.chance(0.25) {
        // An application slower than the network fills the receivers' buffers.
        group = group.pace(Duration::from_millis(1 + rng.below(20)));
    }
    if rng.chance(0.25) {
        // Messages rarer than the network allows leave the sender idle at times.
        group = group.interval(Duration::from_millis(1 + rng.below(100)));
    }
    let report = group.run();
    report.check_reliable()?;
    becomes_quiet(promised, &report, receivers)
}

/// The medium of the thesis, with loss of up to 10 % at every interface.
pub fn lossy_ethernet(entry: &'static ProtocolEntry, promised: Promised, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.ethernet");
    let receivers = 1 + rng.below(8) as u32;
    let group =
        Group::new(entry, seed).receivers(receivers).messages(10 + rng.below(20)).afterwards(WATCH_TIME);
    let group = with_drawn_settings(
        group.max_payload(1400),
        entry,
        TrialNetwork::Ethernet,
        receivers + 1,
        &mut rng,
        |_| {},
    );
    let report = group.run_lan(LanConfig {
        loss: Probability::new(rng.unit() * 0.1).expect("a tenth at most"),
        timers: if rng.chance(0.5) { TimerRule::Exact } else { TimerRule::AfterBusActivity },
        backoff_inclusive: rng.chance(0.5),
        interframe_gap_bits: rng.below(2) * 96,
        propagation_delay: Duration::from_nanos(rng.below(25_000)),
        // In every other run ports hold machines up, and pending packets may change meanwhile.
        port_queue: NonZeroU32::new(rng.below(2) as u32 * (1 + rng.below(4) as u32)),
        ..LanConfig::default()
    });
    report.check_reliable()?;
    becomes_quiet(promised, &report, receivers)
}

/// Duplication and reordering. A protocol that needs order only has to end.
pub fn unordered_links(entry: &'static ProtocolEntry, promised: Promised, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.unordered");
    let receivers = 1 + rng.below(8) as u32;
    let link = Link {
        jitter: Duration::from_micros(rng.below(10_000)),
        duplication: Probability::new(rng.unit() * 0.3).expect("less than one"),
        ..lossy(&mut rng, 0.3)
    };
    let group = Group::new(entry, seed).receivers(receivers).messages(30).all_links(link);
    let expels = rng.chance(0.5);
    let group = with_drawn_settings(group, entry, TrialNetwork::Links, receivers + 1, &mut rng, |trial| {
        trial.max_attempts = promised.in_order.then_some(10);
        trial.expels = expels;
    });
    let report = group.run();
    if !promised.in_order {
        return report.check_reliable();
    }
    ended(&report)
}

/// Everything is lost in one direction: the sender ends and reports the failure.
pub fn silence(entry: &'static ProtocolEntry, _promised: Promised, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.silence");
    let receivers = 1 + rng.below(8) as u32;
    let expel = rng.chance(0.5);
    let group = Group::new(entry, seed).receivers(receivers).messages(5);
    let mut group =
        with_drawn_settings(group, entry, TrialNetwork::Links, receivers + 1, &mut rng, |trial| {
            trial.max_attempts = Some(3);
            trial.expels = expel;
        });
    let back = rng.chance(0.5);
    for node in (1..=receivers).map(NodeId) {
        let (from, to) = if back { (node, SENDER) } else { (SENDER, node) };
        group = group.link(from, to, Link::losing(1.0));
    }
    let report = group.run();
    ended(&report)?;
    let failed = report.completed().iter().filter(|(_, o)| *o == Outcome::Failed).count();
    let lost = report.count(|_, event| matches!(event, Event::MemberLost { .. }));
    match (expel, failed, lost) {
        (true, 0, lost) if lost == receivers as usize => Ok(()),
        (false, 5, 0) => Ok(()),
        _ => Err(format!("expel {expel}: {failed} messages failed, {lost} of {receivers} members lost")),
    }
}

/// Receivers crash, and some restart. The others are complete, and the crashed ones are reported. If the sender
/// crashes too, no wrong data is delivered.
pub fn crashes(entry: &'static ProtocolEntry, promised: Promised, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.crashes");
    let receivers = 2 + rng.below(7) as u32;
    let link =
        Link { delay: Duration::from_micros(100 + rng.below(2_000)), ..Link::losing(rng.unit() * 0.05) };
    let group =
        Group::new(entry, seed).receivers(receivers).messages(30).all_links(link).afterwards(WATCH_TIME);
    // The limit is high enough that a live receiver is never expelled.
    let mut group =
        with_drawn_settings(group, entry, TrialNetwork::Links, receivers + 1, &mut rng, |trial| {
            (trial.crashes, trial.max_attempts, trial.expels) = (1, Some(10), true);
        });
    let first = 1 + rng.below(receivers.into()) as u32;
    for node in (first..=receivers).take(1 + rng.below(2) as usize).map(NodeId) {
        let at = Duration::from_micros(rng.below(200_000));
        group = group.crash(node, at);
        if rng.chance(0.5) {
            group = group.restart(node, at + Duration::from_micros(1 + rng.below(200_000)));
        }
    }
    if rng.chance(0.2) {
        let report = group.crash(SENDER, Duration::from_micros(rng.below(200_000))).run();
        return report.check_safety();
    }
    let report = group.run();
    report.check_reliable()?;
    if let Some(stranger) = report.rejoined.iter().find(|received| !received.deliveries.is_empty()) {
        return Err(format!("{} delivers what was not for it", stranger.node));
    }
    becomes_quiet(promised, &report, receivers)
}

/// Equal seeds give equal runs.
pub fn equal(entry: &'static ProtocolEntry, _promised: Promised, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.same");
    let group = Group::new(entry, seed).receivers(5).messages(20).all_links(Link::losing(0.2));
    let group = with_drawn_settings(group, entry, TrialNetwork::Links, 6, &mut rng, |_| {});
    same(|| group.run())?.check_reliable()
}

fn ended(report: &Report) -> Result<(), String> {
    if report.finished.is_none() {
        return Err(format!("the sender did not finish: {}", report.progress()));
    }
    // Each message completes once, in order, with any outcome.
    if report.completed().iter().map(|(message, _)| message.0).ne(0..report.messages) {
        return Err(format!("the sender completed {:?}", report.completed()));
    }
    Ok(())
}

/// Checks that traffic stops or stays within the guarantee.
fn becomes_quiet(promised: Promised, report: &Report, receivers: u32) -> Result<(), String> {
    // Packets in flight at the end may still be answered.
    let allowed = match promised.idle_feedback {
        None => 16 * receivers as usize,
        Some(each) => (WATCH_TIME.as_nanos() / each.as_nanos() + 8) as usize * receivers as usize,
    };
    match report.sent_afterwards {
        sent if sent > allowed => {
            Err(format!("{sent} datagrams after the sender had finished: {allowed} allowed"))
        }
        _ if promised.idle_feedback.is_none() && !report.quiet => {
            Err("something is still to happen long after the sender has finished".to_owned())
        }
        _ => Ok(()),
    }
}

/// Time that a group is watched after its sender has finished.
const WATCH_TIME: Duration = Duration::from_secs(2);
