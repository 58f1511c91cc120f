//! Handling of results that a folder already has.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use serde::Deserialize;

use super::error::ResultsError;
use super::hashes::{file_hashes, scenario_hash};
use super::journal::JOURNAL_FILE;
use super::sorted::SORT_SCRATCH_DIR;
use crate::scenario::ScenarioFile;

/// Handling of existing results in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// They are an error.
    Keep,
    /// They go.
    Replace,
    /// Keep the completed runs of the same sweep, and run the others.
    Resume,
}

/// Returns true if a folder has results, which another run would replace.
pub fn has_results(dir: &Path) -> bool {
    ["summary.csv", "manifest.json", "index.html", JOURNAL_FILE].iter().any(|name| dir.join(name).exists())
}

/// Returns true if a folder has an incomplete sweep that no process is running.
pub fn is_abandoned(dir: &Path) -> bool {
    File::open(dir.join(JOURNAL_FILE)).is_ok_and(|journal| journal.try_lock().is_ok())
}

/// Progress of the sweep in a folder, if there is one: number of completed runs, and number of all runs.
pub fn progress(dir: &Path) -> Option<(u64, u64)> {
    let manifest: Progress = serde_json::from_slice(&fs::read(dir.join("manifest.json")).ok()?).ok()?;
    Some((manifest.runs_done? + manifest.runs_left_out, manifest.runs?))
}

/// Returns true if a folder has all results of exactly this scenario, which must have a plan: the plan reads its files.
pub fn is_complete(dir: &Path, file: &ScenarioFile) -> bool {
    let manifest = fs::read(dir.join("manifest.json")).ok();
    let manifest: Option<Progress> = manifest.and_then(|text| serde_json::from_slice(&text).ok());
    manifest.is_some_and(|manifest| {
        manifest.runs.is_some()
            && manifest.runs == manifest.runs_done.map(|done| done + manifest.runs_left_out)
            && manifest.scenario_hash == scenario_hash(file)
            && manifest.files == file_hashes(file)
            && manifest.version == env!("CARGO_PKG_VERSION")
            && ["summary.csv", "runs.csv"].iter().all(|name| dir.join(name).exists())
    })
}

/// Refuses to resume results of a different sweep, which would be lost, and lists the differences.
pub(super) fn check_resumed(dir: &Path, file: &ScenarioFile, has_journal: bool) -> Result<(), ResultsError> {
    let there = |what: String| ResultsError::There(format!("{} {what}", dir.display()));
    let other = "give --overwrite to replace them, or another --out";
    if !has_results(dir) {
        return Ok(());
    }
    let manifest: Option<serde_json::Value> =
        fs::read(dir.join("manifest.json")).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let Some(manifest) = manifest else {
        return Err(there(format!(
            "has results of an unknown sweep, as manifest.json is missing or unreadable: {other}"
        )));
    };
    let version = manifest.get("version").and_then(serde_json::Value::as_str).unwrap_or_default();
    let own = serde_json::to_value(file.table()).unwrap_or_default();
    let mut differences = Vec::new();
    differ("", manifest.get("scenario").unwrap_or(&serde_json::Value::Null), &own, &mut differences);
    for (name, hash) in file_hashes(file) {
        if manifest.get("files").and_then(|files| files.get(&name)?.as_str()) != Some(&hash) {
            differences.push(format!("{name} is another file there"));
        }
    }
    if version != env!("CARGO_PKG_VERSION") {
        differences.push(format!("version {version} there, {} here", env!("CARGO_PKG_VERSION")));
    }
    if !differences.is_empty() {
        let listed = differences[..differences.len().min(MAX_LISTED_DIFFERENCES)].join("; ");
        let more = differences.len().saturating_sub(MAX_LISTED_DIFFERENCES);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        return Err(there(format!(
            "has results of a different sweep: {listed}{more}. To keep them, run the same sweep; {other}"
        )));
    }
    match progress(dir) {
        Some((done, runs)) if done > 0 && done < runs && !has_journal => {
            Err(there(format!("has {done} of {runs} runs and no {JOURNAL_FILE} to resume from: {other}")))
        }
        _ => Ok(()),
    }
}

/// Lists the keys in which two documents differ.
fn differ(key: &str, there: &serde_json::Value, here: &serde_json::Value, into: &mut Vec<String>) {
    use serde_json::Value::Object;
    match (there, here) {
        (Object(there), Object(here)) => {
            let keys: std::collections::BTreeSet<&String> = there.keys().chain(here.keys()).collect();
            for inner in keys {
                let path = if key.is_empty() { inner.clone() } else { format!("{key}.{inner}") };
                let null = &serde_json::Value::Null;
                differ(&path, there.get(inner).unwrap_or(null), here.get(inner).unwrap_or(null), into);
            }
        }
        (there, here) if there == here => {}
        (there, here) => {
            let text = |value: &serde_json::Value| match value {
                serde_json::Value::Null => "not set".to_owned(),
                value => value.to_string(),
            };
            into.push(format!("{key} is {} there, {} here", text(there), text(here)));
        }
    }
}

/// Removes the temporary files of a killed process. The folder is locked, so no other process uses them.
pub(super) fn remove_leftovers(dir: &Path) {
    let is_leftover = |name: &str| {
        let temporary = name.starts_with('.') && name.contains(".parquet.") && name.ends_with(".tmp");
        temporary || name == SORT_SCRATCH_DIR
    };
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_leftover) {
            // One that cannot be removed harms nothing.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Refuses a folder with results, if they are to be kept.
pub fn check(dir: &Path, existing: Existing) -> Result<(), ResultsError> {
    if existing != Existing::Keep || !has_results(dir) {
        return Ok(());
    }
    Err(ResultsError::There(match progress(dir) {
        Some((done, runs)) if done < runs => format!(
            "{} has a sweep that was interrupted, with {done} of {runs} runs done: give --resume to go on, --overwrite to begin anew, or another --out",
            dir.display()
        ),
        _ => format!(
            "{} has results already: give --overwrite to replace them, or another --out",
            dir.display()
        ),
    }))
}

/// Progress of a sweep, as recorded in its manifest.
#[derive(Deserialize)]
struct Progress {
    runs: Option<u64>,
    runs_done: Option<u64>,
    #[serde(default)]
    runs_left_out: u64,
    #[serde(default)]
    scenario_hash: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    version: String,
}

/// Differences between two scenarios that an error lists.
const MAX_LISTED_DIFFERENCES: usize = 5;
