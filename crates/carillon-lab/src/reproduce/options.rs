//! How experiments are to be run.

use std::path::Path;

use crate::results::{Existing, Testbed};

/// How experiments are to be run.
pub struct Options<'a> {
    /// Threads.
    pub jobs: usize,
    /// The seed, if not the scenario's.
    pub seed: Option<u64>,
    /// Messages of each run, if not the scenario's.
    pub messages: Option<u64>,
    /// Measures what is shown of testbeds anew; otherwise it is what was measured before.
    pub testbed: Option<&'a Testbed<'a>>,
    /// Where the result folders go, which everything is made from.
    pub out: &'a Path,
    /// What is to be done about those that are there.
    pub existing: Existing,
    /// Whether to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told after each run, with the number of all runs of the scenario.
    pub progress: &'a (dyn Fn(usize) + Sync),
}
