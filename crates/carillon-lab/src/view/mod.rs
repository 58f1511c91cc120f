//! Contents of the page that animates a run: a recording, made from a scenario or a trace of any format.

mod capture;
mod lines;
mod page;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use carillon_core::{PacketKind, ProtocolEntry};
use carillon_proto::REGISTRY;
use carillon_run::trace::Recording;
use carillon_run::trace::recording::{self, Description, ImportError, RecordedMetric, RecordingError};
use thiserror::Error;

use crate::plan::Plan;
use crate::run::{RunError, run_while};
use crate::scenario::{ScenarioError, ScenarioFile};

pub use page::{PAGE_MARK, write_page};

/// Recording in its binary form, with the scenario that made it.
#[derive(Clone, Debug)]
pub struct View {
    /// Recording in its binary form.
    pub recording: Vec<u8>,
    /// Scenario in TOML, with which the page can run it again.
    pub scenario: Option<String>,
    /// True if events beyond the limit were left out.
    pub truncated: bool,
}

/// Reason why a file cannot be viewed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ViewError {
    /// File that cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Cause.
        cause: io::Error,
    },
    /// JSON trace with a line that is no event.
    #[error("{}, {cause}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line and problem.
        cause: ImportError,
    },
    /// File that is no recording.
    #[error("{} {cause}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// Cause.
        cause: RecordingError,
    },
    /// File with other contents than its extension says.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Problem.
        problem: String,
    },
    /// Scenario with an error.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Scenario that cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Sweep, of which the page shows one point.
    #[error(
        "{origin} has {points} sweep points, and the page shows one run: choose a point with --set, such as --set {key}"
    )]
    Sweep {
        /// File of the scenario.
        origin: String,
        /// Number of points.
        points: usize,
        /// Swept key with its first value.
        key: String,
    },
    /// Run that was stopped.
    #[error("interrupted")]
    Stopped,
}

impl View {
    /// Runs a scenario and records at most `limit` events. `stop` ends the run early.
    ///
    /// # Errors
    ///
    /// Fails if the scenario is a sweep, or if its run fails or is stopped.
    pub fn of_scenario(
        file: &ScenarioFile,
        limit: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<View, ViewError> {
        let file = match file.replications() {
            1 => file.clone(),
            _ => file.with("run.replications", "1")?,
        };
        let plan = Plan::new(&file)?;
        let [run] = plan.runs.as_slice() else {
            let key =
                file.axes().iter().flat_map(|axis| &axis.keys).next().map_or_else(String::new, String::clone);
            return Err(ViewError::Sweep {
                origin: file.origin().to_owned(),
                points: plan.points.len(),
                key: key + "=VALUE",
            });
        };
        let mut recording = Recording::of(&run.scenario, limit);
        let result = run_while(run, &mut recording, stop)?.ok_or(ViewError::Stopped)?;
        let scenario = file.to_toml();
        let metrics = RecordedMetric::means(&result.samples);
        let files = file.text_inputs();
        let description = Description { seed: Some(file.seed()), scenario: Some(&scenario), files, metrics };
        let bytes = recording.to_bytes(&description);
        Ok(View { recording: bytes, truncated: recording.is_truncated(), scenario: Some(scenario) })
    }

    /// Reads a trace: a recording (`.carr`), a JSON trace (`.jsonl`) or a capture (`.pcapng`), the latter two up to
    /// `limit` events. `protocol` names their packets; without it the packets decide.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or has other contents.
    pub fn of_trace(
        path: &Path,
        protocol: Option<&'static ProtocolEntry>,
        limit: usize,
    ) -> Result<View, ViewError> {
        let extension =
            path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        let recording = match extension.as_deref() {
            Some("carr") => {
                let recording = std::fs::read(path).map_err(in_file(path))?;
                let header = recording::check(&recording)
                    .map_err(|cause| ViewError::Recording { path: path.into(), cause })?;
                return Ok(View { recording, scenario: header.scenario, truncated: false });
            }
            Some("jsonl") => lines::read(path, protocol, limit)?,
            Some("pcapng") => capture::read(path, protocol, limit)?,
            _ => {
                let problem =
                    "its name must end in .carr, .jsonl or .pcapng (a trace), or .toml (a scenario)";
                return Err(ViewError::Content { path: path.into(), problem: problem.to_owned() });
            }
        };
        let bytes = recording.to_bytes(&Description::default());
        Ok(View { recording: bytes, scenario: None, truncated: recording.is_truncated() })
    }
}

/// Kinds of packets by name in all protocols, without names that mean several kinds.
fn all_kinds() -> BTreeMap<String, PacketKind> {
    let mut kinds: BTreeMap<String, Option<PacketKind>> = BTreeMap::new();
    for (name, kind) in REGISTRY.iter().flat_map(|entry| entry.packets.format.kinds_by_name()) {
        let known = kinds.entry(name).or_insert(Some(kind));
        *known = known.filter(|known| *known == kind);
    }
    kinds.into_iter().filter_map(|(name, kind)| Some((name, kind?))).collect()
}

/// Name of a file, as the title of its recording.
fn title(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn in_file(path: &Path) -> impl Fn(io::Error) -> ViewError {
    move |cause| ViewError::Io { path: path.into(), cause }
}

#[cfg(test)]
mod tests;
