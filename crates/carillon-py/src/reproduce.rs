//! Published tables, figures and studies, repeated; and comparisons of result folders.

use std::path::PathBuf;

use carillon_lab::compare::SummaryComparison;
use carillon_lab::reproduce::{EXPERIMENTS, Laboratory, Options, Outcome, ReproduceError, matching};
use carillon_lab::results::Existing;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

use crate::background;
use crate::error::run_error;

/// Returns identifier and title of every shipped experiment.
#[pyfunction]
pub fn experiments() -> Vec<(&'static str, &'static str)> {
    EXPERIMENTS.iter().map(|experiment| (experiment.id, experiment.title)).collect()
}

/// Outcome of an experiment: identifier, kind ("table", "figure" or "study"), whether it holds, text, and JSON.
type Reproduced = (&'static str, &'static str, bool, String, String);

/// Repeats the experiments of an identifier or of a source; result folders are made below `folder`.
#[pyfunction]
#[pyo3(signature = (id, folder, *, seed = None, jobs = None, progress = None))]
pub fn reproduce(
    py: Python<'_>,
    id: &str,
    folder: PathBuf,
    seed: Option<u64>,
    jobs: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Reproduced>> {
    let chosen = matching(id);
    if chosen.is_empty() {
        let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.id).collect();
        return Err(PyKeyError::new_err(format!("no experiment {id:?}; there are {}", known.join(", "))));
    }
    let jobs = background::jobs(jobs)?;
    let outcomes = background::run(py, progress.as_ref(), |work| {
        let (stop, run_done) = (|| work.is_stopped(), |runs| work.run_done(runs));
        let mut laboratory = Laboratory::new(Options {
            jobs,
            seed,
            messages: None,
            testbed: None,
            out: &folder,
            samples: true,
            existing: Existing::Resume,
            stop: &stop,
            progress: &run_done,
        });
        let mut outcomes: Vec<Reproduced> = Vec::new();
        laboratory.reproduce_each::<ReproduceError>(&chosen, &mut |experiment, outcome| {
            let (kind, text, json) = match &outcome {
                Outcome::Table(table) => ("table", table.to_string(), serde_json::to_string(table)),
                Outcome::Study(study) => ("study", study.to_string(), serde_json::to_string(study)),
                Outcome::Figure(figure) => ("figure", figure.title.clone(), serde_json::to_string(figure)),
            };
            let json = json.expect("outcomes are plain data");
            outcomes.push((experiment.id, kind, outcome.holds(), text, json));
            Ok(())
        })?;
        Ok::<_, ReproduceError>(outcomes)
    })?;
    outcomes.map_err(run_error)
}

/// Compares two result folders cell by cell. Returns the comparison in JSON.
#[pyfunction]
pub fn compare(py: Python<'_>, a: PathBuf, b: PathBuf) -> PyResult<String> {
    let comparison = py.detach(|| SummaryComparison::of(&a, &b)).map_err(run_error)?;
    serde_json::to_string(&comparison).map_err(run_error)
}
