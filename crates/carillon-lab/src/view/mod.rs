//! Contents of the page that animates a run: a recording, made from a scenario or a trace of any format.

mod capture;
mod lines;
mod page;
mod source;

use std::path::Path;

use carillon_core::ProtocolEntry;
use carillon_run::trace::Recording;
use carillon_run::trace::recording::{self, Description, RecordedMetric};

use crate::plan::Plan;
use crate::run::run_while;
use crate::scenario::ScenarioFile;

pub use page::{PAGE_MARK, write_page};
pub use source::ViewError;
use source::in_file;

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

#[cfg(test)]
mod tests;
