//! Random runs, each of which can be repeated by one command.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Where a random test lives: what `cargo test` needs to find it again.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The package.
    pub package: &'static str,
    /// The file in its `tests` folder, without its ending.
    pub target: &'static str,
    /// The test, with its modules.
    pub test: &'static str,
}

/// Runs `body` with the seeds 1, 2, 3 …: `runs` of them, or as many as the environment variable
/// `CARILLON_RUNS` says; or with the one seed that `CARILLON_SEED` says.
///
/// # Panics
///
/// If `body` fails or panics; the command that repeats the run is printed.
pub fn for_each_seed(place: Place, runs: u64, mut body: impl FnMut(u64) -> Result<(), String>) {
    let seeds = match variable("CARILLON_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=variable("CARILLON_RUNS").unwrap_or(runs),
    };
    for seed in seeds {
        let Place { package, target, test } = place;
        let again = format!("CARILLON_SEED={seed} cargo test -p {package} --test {target} -- --exact {test}");
        match catch_unwind(AssertUnwindSafe(|| body(seed))) {
            Ok(Ok(())) => {}
            Ok(Err(complaint)) => panic!("{complaint}\nrun it again: {again}"),
            Err(panic) => {
                eprintln!("run it again: {again}");
                resume_unwind(panic);
            }
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: expected a whole number")))
}
