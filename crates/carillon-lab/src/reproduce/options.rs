//! Options for running experiments.

use std::path::Path;

use super::error::ReproduceError;
use crate::results::{Existing, Testbed};
use crate::scenario::ScenarioFile;

/// Options for running experiments.
pub struct Options<'a> {
    /// Threads.
    pub jobs: usize,
    /// The seed, if not the scenario's.
    pub seed: Option<u64>,
    /// Messages of each run, if not the scenario's.
    pub messages: Option<u64>,
    /// Testbed on which testbed results are measured anew; without one the stored results are shown.
    pub testbed: Option<&'a Testbed<'a>>,
    /// Folder of the result folders. All output is made from them.
    pub out: &'a Path,
    /// True if the folders of tables have every sample (`samples.parquet`). No table or figure is made from these.
    pub samples: bool,
    /// Handling of existing result folders.
    pub existing: Existing,
    /// Returns true when the run is to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told after each run, with the number of all that are run. With a precision it becomes smaller on the way.
    pub progress: &'a (dyn Fn(usize) + Sync),
}

impl Options<'_> {
    /// Returns a scenario with the seed and the messages of the options.
    pub(super) fn applied_to(&self, file: ScenarioFile) -> Result<ScenarioFile, ReproduceError> {
        let seed = self.seed.map(|seed| ("run.seed", seed.to_string()));
        let messages = self.messages.map(|messages| ("workload.messages", messages.to_string()));
        let settings: Vec<_> =
            seed.iter().chain(&messages).map(|(key, value)| (*key, value.as_str())).collect();
        Ok(file.with_all(&settings)?)
    }
}
