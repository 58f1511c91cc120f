//! Random runs, each of which can be repeated by one command.

use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use carillon_core::ProtocolEntry;

use crate::exercise::{Exercise, exercised};

/// Where a random test lives: what `cargo test` needs to find it again.
#[derive(Clone, Copy, Debug)]
pub struct TestLocation {
    /// The package.
    pub package: &'static str,
    /// The file or folder in its `tests` folder, without ending.
    pub target: &'static str,
    /// The test, with its modules.
    pub test: &'static str,
}

/// Runs `body` for each of these protocols, or the one that the environment variable `CARILLON_PROTOCOL` names
/// among the `known` ones, with `runs` seeds, without [`is_long_tier`] a sixth of them, or as many as `CARILLON_RUNS` says: from 1 on, or from the one that `CARILLON_FROM` says
/// (the nightly tier, where they are fresh); or with the one seed that `CARILLON_SEED` says.
///
/// # Panics
///
/// If `body` fails or panics; the command that repeats the run is printed. If there is nothing to run, or the runs of a protocol
/// exercised less than `floor` each on average. If `CARILLON_PROTOCOL` names no protocol.
pub fn for_each_run(
    place: TestLocation,
    known: &[&'static ProtocolEntry],
    entries: &[&'static ProtocolEntry],
    runs: u64,
    floor: Exercise,
    mut body: impl FnMut(&'static ProtocolEntry, u64) -> Result<(), String>,
) {
    assert!(!entries.is_empty(), "{}: there is no protocol to try", place.test);
    let seeds = seeds(if is_long_tier() { runs } else { runs.div_ceil(6) });
    let runs = seeds.end() - seeds.start() + 1;
    for entry in chosen(known, entries.iter().copied()) {
        let before = exercised();
        for seed in seeds.clone() {
            let TestLocation { package, target, test } = place;
            let protocol = entry.name;
            let again = format!(
                "CARILLON_PROTOCOL={protocol} CARILLON_SEED={seed} \
                 cargo test -p {package} --test {target} -- --exact {test}"
            );
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
        let (protocol, test) = (entry.name, place.test);
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

/// Those of the entries that `CARILLON_PROTOCOL` chooses: all without it. A protocol that is `known` and not among these entries
/// chooses none, and a line says so.
///
/// # Panics
///
/// If the variable names no known protocol; the message lists them.
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

/// The name that a variable of the environment chooses among the valid ones, if it is set.
///
/// # Panics
///
/// If it is none of the valid names; the message lists them.
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

/// The seeds of random runs: `runs` of them, or as many as `CARILLON_RUNS` says, from [`first_seed`] on; the one that
/// `CARILLON_SEED` says.
///
/// # Panics
///
/// If there would be none.
pub fn seeds(runs: u64) -> RangeInclusive<u64> {
    if let Some(seed) = variable("CARILLON_SEED") {
        return seed..=seed;
    }
    let runs = variable("CARILLON_RUNS").unwrap_or(runs);
    assert!(runs > 0, "CARILLON_RUNS=0: expected 1 or more");
    first_seed()..=first_seed() + runs - 1
}

/// The seed that random runs begin with: the same in every run of the default tier, a fresh one in the nightly
/// tier, which prints it.
pub fn first_seed() -> u64 {
    variable("CARILLON_SEED").or(variable("CARILLON_FROM")).unwrap_or(1)
}

/// Whether tests are to take the time that they want: `CARILLON_LONG` is set (`.ci/run`, `make nightly`). Without it they are
/// a sample that a programmer waits for.
pub fn is_long_tier() -> bool {
    std::env::var_os("CARILLON_LONG").is_some()
}

/// The step through what tests try: all of it where [`is_long_tier`], else one in so many.
pub fn sampling_step(many: usize) -> usize {
    if is_long_tier() { 1 } else { many }
}

/// Whether [`is_long_tier`]; otherwise a line says that this test was left out. It skips nothing for want of a network, so that
/// it is no failure where networks are expected.
pub fn is_long_or_skipped() -> bool {
    if !is_long_tier() {
        println!("of the long tier: CARILLON_LONG=1");
    }
    is_long_tier()
}

/// A number that the environment sets.
///
/// # Panics
///
/// If it is no number.
pub fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: expected a whole number")))
}
