//! Repeated random runs, each of which one command can repeat.

use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use carillon_core::ProtocolEntry;

use crate::exercise::{Exercise, exercised};

/// Location of a random test, from which the command that repeats a run is built.
#[derive(Clone, Copy, Debug)]
pub struct TestLocation {
    /// Package.
    pub package: &'static str,
    /// File or folder in the package's `tests` folder, without ending.
    pub target: &'static str,
    /// Test with its modules.
    pub test: &'static str,
}

/// Runs `body` for each protocol with many seeds.
///
/// The environment selects protocols and seeds. `CARILLON_PROTOCOL` names one of the `known` protocols, and
/// `CARILLON_SEED` a single seed. The number of seeds is `runs` in the [long tier](is_long_tier), a sixth of it
/// otherwise, or `CARILLON_RUNS`. They begin with 1 or with `CARILLON_FROM`, which is fresh in the nightly tier.
///
/// # Panics
///
/// Panics if `body` fails or panics, after the command that repeats the run is printed. If there is nothing to run,
/// `CARILLON_PROTOCOL` names no protocol, or the runs of a protocol exercised less than `floor` each on average.
pub fn for_each_run(
    location: TestLocation,
    known: &[&'static ProtocolEntry],
    entries: &[&'static ProtocolEntry],
    runs: u64,
    floor: Exercise,
    mut body: impl FnMut(&'static ProtocolEntry, u64) -> Result<(), String>,
) {
    assert!(!entries.is_empty(), "{}: there is no protocol to try", location.test);
    let seeds = seeds(if is_long_tier() { runs } else { runs.div_ceil(6) });
    let runs = seeds.end() - seeds.start() + 1;
    for entry in chosen(known, entries.iter().copied()) {
        let before = exercised();
        for seed in seeds.clone() {
            let TestLocation { package, target, test } = location;
            let protocol = entry.name;
            let again = format!(
                "CARILLON_PROTOCOL={protocol} CARILLON_SEED={seed} \
                 cargo test -p {package} --test {target} -- --exact {test}"
            );
            // A panic of the test passes on after the command that repeats it has been printed.
            match catch_unwind(AssertUnwindSafe(|| body(entry, seed))) {
                Ok(Ok(())) => {}
                Ok(Err(complaint)) => panic!("{protocol}: {complaint}\nrun it again: {again}"),
                Err(panic) => {
                    eprintln!("run it again: {again}");
                    resume_unwind(panic);
                }
            }
        }
        let Exercise { datagrams, deliveries, timers } = exercised() - before;
        let (protocol, test) = (entry.name, location.test);
        println!(
            "{test}: {protocol}: {runs} runs, {datagrams} datagrams, {deliveries} deliveries, {timers} timers"
        );
        for (what, count, least) in [
            ("datagrams", datagrams, floor.datagrams),
            ("deliveries", deliveries, floor.deliveries),
            ("timers", timers, floor.timers),
        ] {
            assert!(
                count >= least * runs,
                "{test}: {protocol}: {runs} runs exercised {count} {what}, which is fewer than {least} each"
            );
        }
    }
}

/// Returns the entries that `CARILLON_PROTOCOL` selects, or all without it. A `known` protocol that is not among the
/// entries selects none, which is printed.
///
/// # Panics
///
/// Panics if the variable names no known protocol; the message lists them.
pub fn chosen(
    known: &[&'static ProtocolEntry],
    entries: impl IntoIterator<Item = &'static ProtocolEntry>,
) -> Vec<&'static ProtocolEntry> {
    let wanted = chosen_name("CARILLON_PROTOCOL", known.iter().map(|entry| entry.name));
    let of = |entry: &&'static ProtocolEntry| wanted.as_ref().is_none_or(|wanted| wanted == entry.name);
    let chosen: Vec<_> = entries.into_iter().filter(of).collect();
    if let (Some(wanted), true) = (wanted, chosen.is_empty()) {
        println!("{wanted} is not among the protocols of this test");
    }
    chosen
}

/// Returns the name that an environment variable selects among the valid ones, if it is set.
///
/// # Panics
///
/// Panics if the name is not valid; the message lists the valid ones.
pub fn chosen_name(variable: &str, valid: impl IntoIterator<Item = impl AsRef<str>>) -> Option<String> {
    let wanted = std::env::var_os(variable)?.to_string_lossy().into_owned();
    let valid: Vec<String> = valid.into_iter().map(|name| name.as_ref().to_owned()).collect();
    assert!(
        valid.contains(&wanted),
        "{variable}={wanted}: nothing has that name; valid are {}",
        valid.join(", ")
    );
    Some(wanted)
}

/// Seeds of random runs: `runs` or `CARILLON_RUNS` of them from [`first_seed`] on, or the one in `CARILLON_SEED`.
///
/// # Panics
///
/// Panics if there are none.
pub fn seeds(runs: u64) -> RangeInclusive<u64> {
    if let Some(seed) = variable("CARILLON_SEED") {
        return seed..=seed;
    }
    let runs = variable("CARILLON_RUNS").unwrap_or(runs);
    assert!(runs > 0, "CARILLON_RUNS=0: expected 1 or more");
    first_seed()..=first_seed() + runs - 1
}

/// First seed of random runs: constant in the default tier, fresh and printed in the nightly tier.
pub fn first_seed() -> u64 {
    variable("CARILLON_SEED").or(variable("CARILLON_FROM")).unwrap_or(1)
}

/// Returns true in the long tier, where tests take the time that they need: `CARILLON_LONG` is set (`.ci/run`, `make
/// nightly`). Otherwise they run a sample for which a programmer can wait.
pub fn is_long_tier() -> bool {
    std::env::var_os("CARILLON_LONG").is_some()
}

/// Step through the cases of a test: 1 in the [long tier](is_long_tier), otherwise `many`.
pub fn sampling_step(many: usize) -> usize {
    if is_long_tier() { 1 } else { many }
}

/// Returns true in the [long tier](is_long_tier); otherwise prints that the test was left out. That is not a skip for
/// want of a network and therefore never a failure.
pub fn is_long_or_skipped() -> bool {
    if !is_long_tier() {
        println!("of the long tier: CARILLON_LONG=1");
    }
    is_long_tier()
}

/// Number in an environment variable, if it is set.
///
/// # Panics
///
/// Panics if it is not a number.
pub fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: expected a whole number")))
}
