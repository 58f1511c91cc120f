//! Conformance tests: a protocol is held to the guarantee of its entry, over random groups, losses and seeds, with
//! settings that it draws itself.
//!
//! The suite over the registry runs them many times; a protocol that is not in the registry can be tested alone with
//! [`run_of_each_test`].

pub mod acknowledged;
pub mod best_effort;
pub mod by_request;

use std::time::Duration;

use carillon_core::{ProtocolEntry, Rng};

use crate::{Group, Link, Report, Trial, TrialNetwork, protocol_tests};

/// Runs each test of a protocol's guarantee once with this seed. Protocols of peers have tests elsewhere.
///
/// # Errors
/// The first violation of the guarantee.
pub fn run_of_each_test(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    acknowledged::run_of_each_test(entry, seed)?;
    best_effort::run_of_each_test(entry, seed)?;
    by_request::run_of_each_test(entry, seed)
}

/// Applies settings that the protocol draws.
pub fn with_drawn_settings(
    group: Group,
    entry: &ProtocolEntry,
    network: TrialNetwork,
    nodes: u32,
    rng: &mut Rng,
    prepare: impl FnOnce(&mut Trial<'_>),
) -> Group {
    let mut trial = Trial::new(entry.parameters, network, nodes, rng);
    prepare(&mut trial);
    (protocol_tests(entry).trial)(&mut trial);
    group.settings(trial.into_config())
}

/// Link with a random delay of about a millisecond and a random loss rate of at most `max`.
pub fn lossy(rng: &mut Rng, max: f64) -> Link {
    Link { delay: Duration::from_micros(100 + rng.below(2_000)), ..Link::losing(rng.unit() * max) }
}

/// Checks that equal seeds give equal runs.
///
/// # Errors
/// The two runs differ.
pub fn same(run: impl Fn() -> Report) -> Result<Report, String> {
    let (one, other) = (run(), run());
    if one.events != other.events {
        return Err("the same group ran differently the second time".to_owned());
    }
    Ok(one)
}
