//! Runs of the tests: settings that a protocol draws, lossy links, and the check that a run can be repeated.

use std::time::Duration;

use carillon_core::{ProtocolEntry, Rng};

use crate::{Group, Link, Report, Trial, TrialNetwork, protocol_tests};

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
