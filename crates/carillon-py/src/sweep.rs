//! Sweeps: the runs of a scenario into a result folder, here or on other machines.

use std::path::PathBuf;

use carillon_lab::metrics::{METRICS, SubjectKind};
use carillon_lab::results::{self, Contents, Existing, SweepError, SweepOptions};
use carillon_lab::run::RunResult;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::background;
use crate::error::{run_error, sweep_error};
use crate::plan::{RunOutcome, result_of};
use crate::protocol::word;
use crate::scenario::Scenario;
use crate::table::Table;

/// Runs a scenario into a folder. `progress` is called with the numbers of finished runs and of all runs. A signal ends
/// the sweep; its finished runs are kept in the folder, and `existing="resume"` continues it.
#[pyfunction]
#[pyo3(signature = (scenario, folder, *, samples = true, existing = "keep", jobs = None, progress = None))]
pub fn run_into(
    py: Python<'_>,
    scenario: &Scenario,
    folder: PathBuf,
    samples: bool,
    existing: &str,
    jobs: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let (existing, jobs) = (existing_of(existing)?, background::jobs(jobs)?);
    let swept = background::run(py, progress.as_ref(), |work| {
        let options = SweepOptions {
            contents: Contents { samples, ..Contents::default() },
            existing,
            threads: jobs.into(),
            testbed: None,
            shared: None,
            stop: &|| work.is_stopped(),
            progress: &|runs| work.run_done(runs),
        };
        results::run_into(&scenario.file, &folder, &options)
    })?;
    swept.map(drop).map_err(sweep_error)
}

/// Writes the results of runs that are made elsewhere. `execute` is called with the indices of the missing runs and
/// returns an iterable of `(index, outcome)`, in any order; an outcome is the value of `Plan.run`, with samples of the
/// caller's own `metrics` after the others. An exception of the iterable ends the sweep; its finished runs are kept in
/// the folder.
#[pyfunction]
#[pyo3(signature = (scenario, folder, execute, *, samples = true, existing = "keep", metrics = Vec::new()))]
pub fn run_elsewhere(
    py: Python<'_>,
    scenario: &Scenario,
    folder: PathBuf,
    execute: &Bound<'_, PyAny>,
    samples: bool,
    existing: &str,
    metrics: Vec<String>,
) -> PyResult<()> {
    let metrics = metrics.iter().map(|metric| own_metric(metric)).collect::<PyResult<Vec<_>>>()?;
    // Results refer to the names, of which a program has few.
    let contents = Contents { samples, messages: false, metrics: Box::leak(metrics.into_boxed_slice()) };
    let existing = existing_of(existing)?;
    let swept = results::run_elsewhere(&scenario.file, &folder, contents, existing, |plan, pending, take| {
        let outcomes = execute.call1((pending.to_vec(),)).map_err(Failed::Python)?;
        for outcome in outcomes.try_iter().map_err(Failed::Python)? {
            let outcome = outcome.and_then(|outcome| outcome.extract::<(usize, RunOutcome)>());
            let (index, outcome) = outcome.map_err(Failed::Python)?;
            let Some(run) = plan.runs.get(index) else {
                let what = format!("run {index}: the plan has {} runs", plan.runs.len());
                return Err(Failed::Python(PyValueError::new_err(what)));
            };
            let result: RunResult = result_of(run, outcome, contents.metrics).map_err(Failed::Python)?;
            py.detach(|| take(index, result)).map_err(Failed::Sweep).map(drop)?;
            py.check_signals().map_err(Failed::Python)?;
        }
        Ok(())
    });
    swept.map(drop).map_err(|failed| match failed {
        Failed::Python(error) => error,
        Failed::Sweep(error) => sweep_error(error),
    })
}

/// Name of a metric of the caller, which no registered metric has.
fn own_metric(name: &str) -> PyResult<&'static str> {
    let is_word = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let what = if name.is_empty() || !is_word {
        "consists of lower-case letters, digits and underscores"
    } else if METRICS.iter().any(|metric| metric.name == name) {
        "is a registered metric: choose another name"
    } else {
        return word(name);
    };
    Err(PyValueError::new_err(format!("metric {name:?}: the name {what}")))
}

/// Failure of a sweep that is run elsewhere.
enum Failed {
    Python(PyErr),
    Sweep(SweepError),
}

impl From<SweepError> for Failed {
    fn from(error: SweepError) -> Self {
        Failed::Sweep(error)
    }
}

fn existing_of(name: &str) -> PyResult<Existing> {
    match name {
        "keep" => Ok(Existing::Keep),
        "replace" => Ok(Existing::Replace),
        "resume" => Ok(Existing::Resume),
        other => {
            let what = format!("existing={other:?}: give \"keep\", \"replace\" or \"resume\"");
            Err(PyValueError::new_err(what))
        }
    }
}

/// Reads a table of a result folder: "summary", "runs", "samples", "receivers" or "nodes".
#[pyfunction]
pub fn read_table(py: Python<'_>, folder: PathBuf, name: &str) -> PyResult<Table> {
    let table = py.detach(|| match name {
        "summary" => results::read_summary(&folder),
        "runs" => results::read_runs(&folder),
        "receivers" => results::read_nodes(&folder, SubjectKind::Receiver),
        "nodes" => results::read_nodes(&folder, SubjectKind::Node),
        name => carillon_lab::table::Table::read_parquet(&folder.join(format!("{name}.parquet"))),
    });
    Table::from_lab(table.map_err(run_error)?)
}
