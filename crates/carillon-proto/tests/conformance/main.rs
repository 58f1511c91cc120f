//! One suite over the registry: each protocol is held to what its entry promises, over random groups, losses and
//! seeds, with the settings that it draws itself.
//!
//! Each test says how much its runs exercise at least, and fails if they exercise less. `CARILLON_RUNS` says how many runs each test makes (the nightly ones: 10 000), `CARILLON_PROTOCOL` chooses a
//! protocol; a failure prints the command that repeats its run.

mod acknowledged;
mod alone;
mod best_effort;
mod helpers;
mod memory;
mod peers;
mod registry;
mod routed;
mod states;

use std::time::Duration;

use carillon_core::{DeliveryGuarantee, ProtocolEntry, Rng, Trial, TrialNetwork};
use carillon_proto::REGISTRY;
use carillon_testkit::heap::Counting;
use carillon_testkit::{Exercise, Group, Link, Report, TREE, TestLocation, for_each_run};

#[global_allocator]
static COUNTING: Counting = Counting;

/// A run of one test: a protocol, and the seed from which everything is drawn.
type Body<P> = fn(&'static ProtocolEntry, P, u64) -> Result<(), String>;

/// Runs a test of every protocol that makes a promise of the kind that `of` picks. Each run of it handles a datagram and, unless
/// nothing can arrive, delivers a message.
fn hold<P>(test: &'static str, of: fn(&DeliveryGuarantee) -> Option<P>, runs: u64, body: Body<P>) {
    let floor = Exercise { datagrams: 10, deliveries: 5, timers: 0 };
    hold_with(test, of, runs, floor, body);
}

/// The same test with another floor under what a run exercises.
fn hold_with<P>(
    test: &'static str,
    of: fn(&DeliveryGuarantee) -> Option<P>,
    runs: u64,
    floor: Exercise,
    body: Body<P>,
) {
    let entries: Vec<_> = REGISTRY.iter().copied().filter(|entry| of(&entry.guarantee).is_some()).collect();
    let place = TestLocation { package: "carillon-proto", target: "conformance", test };
    for_each_run(place, &known(), &entries, runs, floor, |entry, seed| {
        let Some(guarantee) = of(&entry.guarantee) else { return Ok(()) };
        body(entry, guarantee, seed)
    });
}

/// Every protocol that a test of this suite tries.
fn known() -> Vec<&'static ProtocolEntry> {
    REGISTRY.iter().copied().chain([&TREE]).collect()
}

/// The group with settings that the protocol draws for it.
fn drawn(
    group: Group,
    entry: &ProtocolEntry,
    ground: TrialNetwork,
    nodes: u32,
    rng: &mut Rng,
    prepare: impl FnOnce(&mut Trial<'_>),
) -> Group {
    let mut trial = Trial::new(entry.parameters, ground, nodes, rng);
    prepare(&mut trial);
    (entry.trial)(&mut trial);
    group.settings(trial.into_config())
}

fn lossy(rng: &mut Rng, most: f64) -> Link {
    Link { delay: Duration::from_micros(100 + rng.below(2_000)), ..Link::losing(rng.unit() * most) }
}

/// Equal seeds, equal runs.
fn same(run: impl Fn() -> Report) -> Result<Report, String> {
    let (one, other) = (run(), run());
    if one.events != other.events {
        return Err("the same group ran differently the second time".to_owned());
    }
    Ok(one)
}
