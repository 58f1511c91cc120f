//! Protocols with helpers are held to their guarantees in groups with helpers, one of which may crash. The small tree
//! of the testkit is among them, to test the suite itself.

use std::time::Duration;

use carillon_core::{Helpers, ProtocolEntry, Rng, Seeds};
use carillon_proto::REGISTRY;
use carillon_sim::LanConfig;
use carillon_testkit::{
    DeliveryGuarantee, Exercise, Group, Report, TREE, TestLocation, TrialNetwork, for_each_run,
    protocol_tests,
};

use super::{known, lossy, with_drawn_settings};

/// Runs a test for every protocol with helpers.
fn run_helper_test(
    test: &'static str,
    runs: u64,
    body: fn(&'static ProtocolEntry, u64) -> Result<(), String>,
) {
    let helped = REGISTRY.iter().copied().filter(|entry| entry.helpers != Helpers::None);
    let entries: Vec<&'static ProtocolEntry> = helped.chain([&TREE]).collect();
    let place = TestLocation { package: "carillon-proto", target: "conformance", test };
    let floor = Exercise { datagrams: 10, deliveries: 5, timers: 0 };
    for_each_run(place, &known(), &entries, runs, floor, body);
}

#[test]
fn keeps_its_promise_over_lossy_links_with_helpers() {
    run_helper_test("helpers::keeps_its_promise_over_lossy_links_with_helpers", 30, lossy_links);
}

#[test]
fn keeps_its_promise_over_an_ethernet_with_helpers() {
    run_helper_test("helpers::keeps_its_promise_over_an_ethernet_with_helpers", 15, lossy_ethernet);
}

#[test]
fn keeps_its_promise_though_a_helper_dies() {
    run_helper_test("helpers::keeps_its_promise_though_a_helper_dies", 30, a_helper_dies);
}

pub fn run_of_each_test(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    if entry.helpers == Helpers::None {
        return Ok(());
    }
    [lossy_links, lossy_ethernet, a_helper_dies].into_iter().try_for_each(|test| test(entry, seed))
}

fn lossy_links(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let (group, _) = helped(entry, seed, TrialNetwork::Links);
    kept(entry, &group.run())
}

fn lossy_ethernet(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let (group, _) = helped(entry, seed, TrialNetwork::Ethernet);
    kept(entry, &group.run_lan(LanConfig::default()))
}

fn a_helper_dies(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let (group, mut rng) = helped(entry, seed, TrialNetwork::Links);
    let helpers = group.table().helpers().iter().filter(|helper| !helper.delivers).count() as u64;
    if helpers <= min_helpers(entry) {
        return Ok(());
    }
    let victim = group.helper(rng.below(helpers) as u32);
    let group =
        group.interval(Duration::from_millis(50)).crash(victim, Duration::from_millis(rng.below(2000)));
    kept(entry, &group.run())
}

fn min_helpers(entry: &ProtocolEntry) -> u64 {
    match entry.helpers {
        Helpers::None | Helpers::Optional => 0,
        Helpers::Required(min_helpers) => min_helpers.into(),
    }
}

/// Group with a random tree of helpers; some receivers may help too.
fn helped(entry: &'static ProtocolEntry, seed: u64, network: TrialNetwork) -> (Group, Rng) {
    let mut rng = Seeds::new(seed).stream("conformance.helpers");
    let receivers = 2 + rng.below(6) as u32;
    let helpers = (min_helpers(entry) + rng.below(5)) as u32;
    let group = Group::new(entry, seed)
        .receivers(receivers)
        .helpers(helpers)
        .designated(u32::from(rng.chance(0.2)))
        .fanout(1 + rng.below(3) as usize)
        .messages(10 + rng.below(30))
        .all_links(lossy(&mut rng, 0.2));
    let group = with_drawn_settings(group, entry, network, receivers + helpers + 1, &mut rng, |_| {});
    (group, rng)
}

fn kept(entry: &ProtocolEntry, report: &Report) -> Result<(), String> {
    match protocol_tests(entry).guarantee {
        DeliveryGuarantee::Acknowledged { .. } => report.check_reliable(),
        // A protocol with helpers and another guarantee adds its check here.
        _ => Err("this suite knows no worlds with helpers for such a promise".to_owned()),
    }
}
