//! State machines of the entries. Every run of this suite checks each observed change against the declared
//! transitions; here each declared transition must be taken.

#![expect(clippy::disallowed_methods, reason = "a test may have threads")]

use std::collections::BTreeSet;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use carillon_core::{Probability, ProtocolEntry, Role, Seeds};
use carillon_proto::REGISTRY;
use carillon_sim::graph::{GraphConfig, LossModel};
use carillon_testkit::{
    Group, Link, SENDER, Transition, conformance, is_long_tier, protocol_tests, random_network,
    transitions_taken,
};

use super::{helpers, peers};

#[test]
fn declared_transitions_are_taken_or_rare() {
    let next = AtomicUsize::new(0);
    let side = || {
        let mut failures = Vec::new();
        while let Some(&entry) = REGISTRY.get(next.fetch_add(1, Ordering::Relaxed)) {
            failures.extend(failures_of(entry));
        }
        failures
    };
    let failures = std::thread::scope(|scope| {
        let other = scope.spawn(side);
        let mut all = side();
        all.extend(other.join().expect("it complains, and does not panic"));
        all
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Declared transitions that were not taken, and rare ones that were.
fn failures_of(entry: &'static ProtocolEntry) -> Vec<String> {
    let mut failures = Vec::new();
    let declared = entry
        .study
        .states
        .iter()
        .flat_map(|states| states.transitions.iter().map(|&(from, to, _)| (states.of, from, to)));
    let mut open: BTreeSet<Transition> = declared.collect();
    let rare = protocol_tests(entry).rare.iter();
    let rare: BTreeSet<Transition> = rare.map(|&(of, from, to, _)| (of, from, to)).collect();
    assert!(rare.is_subset(&open), "{}: rare, and not declared", entry.name);
    let all = open.clone();
    let mut seed = 0;
    let max = if is_long_tier() { MAX_SEEDS } else { DEFAULT_SEEDS };
    while !open.is_subset(&rare) && seed < max {
        seed += 1;
        let taken = transitions_taken(|| {
            let result = run_of_each_test(entry, seed);
            result.unwrap_or_else(|failure| panic!("{}, seed {seed}: {failure}", entry.name));
        });
        open = open.difference(&taken).copied().collect();
    }
    if seed > 0 && all == open {
        failures.push(format!("{}: none of its transitions was taken with {seed} seeds", entry.name));
    }
    for transition in all.difference(&open).filter(|transition| rare.contains(transition)) {
        failures.push(format!("{}: said to be rare, and taken: {transition:?}", entry.name));
    }
    for transition in open.difference(&rare).filter(|_| is_long_tier()) {
        failures.push(format!("{}: not taken with {seed} seeds: {transition:?}", entry.name));
    }
    failures
}

fn run_of_each_test(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    sender_dies(entry, seed);
    conformance::run_of_each_test(entry, seed)?;
    peers::run_of_each_test(entry, seed)?;
    helpers::run_of_each_test(entry, seed)
}

/// Default settings on a network with loss, reordering and duplication, with a crash of the sender: no guarantee
/// applies.
fn sender_dies(entry: &'static ProtocolEntry, seed: u64) {
    let mut rng = Seeds::new(seed).stream("conformance.states");
    let group = Group::new(entry, seed).receivers(4).messages(30).interval(Duration::from_millis(5));
    let at = Duration::from_millis(20 + rng.below(200));
    let group = group.crash(SENDER, at).afterwards(Duration::from_secs(200));
    if entry.roles.contains(&Role::Relay) && rng.chance(0.5) {
        let topology = random_network(4, 3, 1, Duration::from_millis(5), &mut rng);
        let loss = LossModel::Bernoulli(Probability::new(0.1).expect("less than one"));
        group.run_graph(Arc::new(topology), GraphConfig { overhead: 28, ..GraphConfig::default() }, loss);
        return;
    }
    let link = Link {
        jitter: Duration::from_millis(10),
        duplication: Probability::new(0.1).expect("less than one"),
        ..super::lossy(&mut rng, 0.3)
    };
    group.all_links(link).run();
}

/// Maximum number of seeds per protocol; a protocol needs up to fifty.
const MAX_SEEDS: u64 = 60;
/// Number of seeds in the default tier, which only finds rare transitions that were taken.
const DEFAULT_SEEDS: u64 = 2;
