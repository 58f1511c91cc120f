//! Random runs, each of which can be repeated by one command.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use carillon_core::ProtocolEntry;

/// Where a random test lives: what `cargo test` needs to find it again.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The package.
    pub package: &'static str,
    /// The file or folder in its `tests` folder, without ending.
    pub target: &'static str,
    /// The test, with its modules.
    pub test: &'static str,
}

/// Runs `body` for each of these protocols, or the one that the environment variable `CARILLON_PROTOCOL` names,
/// with `runs` seeds, without [`is_long`] a sixth of them, or as many as `CARILLON_RUNS` says: from 1 on, or from the one that `CARILLON_FROM` says
/// (the nightly tier, where they are fresh); or with the one seed that `CARILLON_SEED` says.
///
/// # Panics
///
/// If `body` fails or panics; the command that repeats the run is printed.
pub fn for_each_run(
    place: Place,
    entries: &[&'static ProtocolEntry],
    runs: u64,
    mut body: impl FnMut(&'static ProtocolEntry, u64) -> Result<(), String>,
) {
    let wanted = std::env::var("CARILLON_PROTOCOL").ok();
    let first = first_seed();
    let last = match variable("CARILLON_SEED") {
        Some(seed) => seed,
        None => {
            let runs = if is_long() { runs } else { runs.div_ceil(6) };
            first + variable("CARILLON_RUNS").unwrap_or(runs) - 1
        }
    };
    for entry in entries.iter().filter(|entry| wanted.as_ref().is_none_or(|wanted| wanted == entry.name)) {
        for seed in first..=last {
            let Place { package, target, test } = place;
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
    }
}

/// The seed that random runs begin with: the same in every run of the default tier, a fresh one in the nightly
/// tier, which prints it.
pub fn first_seed() -> u64 {
    variable("CARILLON_SEED").or(variable("CARILLON_FROM")).unwrap_or(1)
}

/// Whether tests are to take the time that they want: `CARILLON_LONG` is set (`.ci/run`, `make nightly`). Without it they are
/// a sample that a programmer waits for.
pub fn is_long() -> bool {
    std::env::var_os("CARILLON_LONG").is_some()
}

/// The step through what tests try: all of it where [`is_long`], else one in so many.
pub fn one_in(many: usize) -> usize {
    if is_long() { 1 } else { many }
}

/// Whether [`is_long`]; otherwise a line says that this test was left out. It skips nothing for want of a network, so that
/// it is no failure where networks are expected.
pub fn is_long_or_says_so() -> bool {
    if !is_long() {
        println!("of the long tier: CARILLON_LONG=1");
    }
    is_long()
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
