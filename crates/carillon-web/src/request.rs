//! Requests of the page.

use std::collections::BTreeMap;

use carillon_run::scenario::{Inputs, ScenarioFile};
use serde::Deserialize;

use crate::error::CallError;

/// Request for a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunRequest {
    /// Text of the scenario.
    scenario: String,
    /// Keys set on top of it, as by `--set`.
    #[serde(default)]
    set: BTreeMap<String, String>,
    /// Seed in place of the scenario's.
    #[serde(default)]
    seed: Option<u64>,
    /// Contents of the files that the scenario names.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Number of events after which the run is cut off.
    #[serde(default = "default_max_events")]
    pub(crate) max_events: u64,
}

impl RunRequest {
    /// Reads a request.
    pub(crate) fn parse(request: &[u8]) -> Result<Self, CallError> {
        serde_json::from_slice(request).map_err(CallError::Request)
    }

    /// Scenario with everything set.
    pub(crate) fn file(&self) -> Result<ScenarioFile, CallError> {
        let contents = self.files.iter().map(|(name, text)| (name.clone(), text.as_bytes().into()));
        let settings: Vec<(&str, &str)> =
            self.set.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let inputs = Inputs::given(contents.collect());
        let file = ScenarioFile::parse_set("scenario", &self.scenario, &settings, inputs);
        let file = file.and_then(|file| match self.seed.filter(|seed| *seed != file.seed()) {
            Some(seed) => file.with("run.seed", &seed.to_string()),
            None => Ok(file),
        });
        Ok(file?)
    }
}

/// Number of events after which a run is cut off, unless the request says otherwise.
fn default_max_events() -> u64 {
    1_000_000
}
