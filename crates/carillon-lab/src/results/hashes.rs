//! Hashes of a scenario and of its files, as the manifest has them.

use std::collections::BTreeMap;

use crate::scenario::ScenarioFile;

/// BLAKE3 hashes of the files that the scenario names, by their names.
pub(super) fn file_hashes(file: &ScenarioFile) -> BTreeMap<String, String> {
    let inputs = file.inputs();
    inputs.into_iter().map(|(name, content)| (name, blake3::hash(&content).to_hex().to_string())).collect()
}

/// BLAKE3 hash of the scenario.
pub(super) fn scenario_hash(file: &ScenarioFile) -> String {
    blake3::hash(file.table().to_string().as_bytes()).to_hex().to_string()
}
