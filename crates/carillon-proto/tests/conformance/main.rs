//! Conformance suite over the registry: each protocol is held to its entry's guarantee, over random groups, losses
//! and seeds, with settings that it draws itself.
//!
//! Each test states the minimum that its runs exercise and fails below it. `CARILLON_RUNS` sets the number of runs
//! per test (nightly: 10 000) and `CARILLON_PROTOCOL` selects a protocol. A failure prints the command that repeats
//! its run.

mod acknowledged;
mod alone;
mod best_effort;
mod helpers;
mod memory;
mod peers;
mod plain_only;
mod registry;
mod routed;
mod states;

use carillon_core::{ProtocolEntry, Role};
use carillon_proto::plain::{PlainLimits, PlainReceiver};
use carillon_proto::protocols::pgm;
use carillon_proto::{PLAIN_ONLY, REGISTRY};
use carillon_testkit::conformance::{lossy, same, with_drawn_settings};
use carillon_testkit::heap::Counting;
use carillon_testkit::{DeliveryGuarantee, Exercise, TREE, TestLocation, for_each_run, protocol_tests};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Single run of a test: protocol, guarantee, and seed for everything random.
type Body<P> = fn(&'static ProtocolEntry, P, u64) -> Result<(), String>;

/// Runs a test for every protocol with a guarantee that `of` accepts. Each run must handle datagrams and, unless
/// nothing can arrive, deliver messages.
fn run_test<P>(test: &'static str, of: fn(&DeliveryGuarantee) -> Option<P>, runs: u64, body: Body<P>) {
    let floor = Exercise { datagrams: 10, deliveries: 5, timers: 0 };
    run_test_with_floor(test, of, runs, floor, body);
}

/// Runs a test with another minimum of exercise per run.
fn run_test_with_floor<P>(
    test: &'static str,
    of: fn(&DeliveryGuarantee) -> Option<P>,
    runs: u64,
    floor: Exercise,
    body: Body<P>,
) {
    let all = REGISTRY.iter().copied().chain([&PLAIN_PGM]);
    let entries: Vec<_> = all.filter(|entry| of(&protocol_tests(entry).guarantee).is_some()).collect();
    run_entries(test, of, runs, floor, body, &entries);
}

/// Runs a test for these protocols.
fn run_entries<P>(
    test: &'static str,
    of: fn(&DeliveryGuarantee) -> Option<P>,
    runs: u64,
    floor: Exercise,
    body: Body<P>,
    entries: &[&'static ProtocolEntry],
) {
    let place = TestLocation { package: "carillon-proto", target: "conformance", test };
    for_each_run(place, &known(), entries, runs, floor, |entry, seed| {
        let Some(guarantee) = of(&protocol_tests(entry).guarantee) else { return Ok(()) };
        body(entry, guarantee, seed)
    });
}

/// Every protocol in the tests of this suite.
fn known() -> Vec<&'static ProtocolEntry> {
    REGISTRY.iter().chain(PLAIN_ONLY).copied().chain([&TREE, &PLAIN_PGM]).collect()
}

/// Plain sessions of PGM: the receivers learn the source from its packets.
static PLAIN_PGM: ProtocolEntry = ProtocolEntry {
    name: "pgm-plain",
    build: |role, context, settings| match (role, &pgm::ENTRY.plain) {
        (Role::Sender, Some(plain)) => (plain.sender)(carillon_core::PlainKind::Messages, context, settings),
        (Role::Receiver, Some(_)) => {
            let limits =
                PlainLimits { silence: std::time::Duration::from_secs(10_000), ..PlainLimits::default() };
            Ok(Box::new(PlainReceiver::new(&PGM, context, settings, limits)?))
        }
        _ => (pgm::ENTRY.build)(role, context, settings),
    },
    ..pgm::ENTRY
};
static PGM: ProtocolEntry = pgm::ENTRY;
