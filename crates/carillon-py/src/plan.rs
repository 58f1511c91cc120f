//! Single runs of a plan. Their results travel between processes as plain Python values.

use std::time::Duration;

use carillon_lab::metrics::METRICS;
use carillon_lab::plan::Run;
use carillon_lab::run::{RunResult, run_one};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::error::run_error;
use crate::scenario::Scenario;
use crate::table::Table;
use crate::trace::TableRecorder;

/// Outcome of a run: its steps, its real time in seconds, and for each metric the samples as 64-bit floating-point
/// numbers, little-endian.
pub type RunOutcome = (u64, f64, Vec<(String, PyBackedBytes)>);

/// A [`RunOutcome`] on its way to Python.
type NewOutcome<'py> = (u64, f64, Vec<(&'static str, Bound<'py, PyBytes>)>);

/// The runs of a scenario, each with its seed.
#[pyclass(frozen, module = "carillon._carillon")]
pub struct Plan {
    plan: carillon_lab::plan::Plan,
}

#[pymethods]
impl Plan {
    #[new]
    fn new(scenario: &Scenario) -> PyResult<Self> {
        Ok(Plan { plan: scenario.plan()? })
    }

    fn __len__(&self) -> usize {
        self.plan.runs.len()
    }

    /// Makes the run of this index and returns its outcome.
    fn run<'py>(&self, py: Python<'py>, index: usize) -> PyResult<NewOutcome<'py>> {
        let run = self.get(index)?;
        let result = py.detach(|| run_one(run, &mut carillon_core::NoObserver)).map_err(run_error)?;
        let samples = result.samples.iter().map(|(metric, values)| {
            let bytes = PyBytes::new_with(py, 8 * values.len(), |bytes| {
                for (into, value) in bytes.chunks_exact_mut(8).zip(values) {
                    into.copy_from_slice(&value.to_le_bytes());
                }
                Ok(())
            });
            bytes.map(|bytes| (*metric, bytes))
        });
        Ok((result.steps, result.wall.as_secs_f64(), samples.collect::<PyResult<Vec<_>>>()?))
    }

    /// Makes the run of this index and returns its trace.
    fn trace(&self, py: Python<'_>, index: usize) -> PyResult<Table> {
        let run = self.get(index)?;
        let columns = py.detach(|| {
            let mut recorder = TableRecorder::default();
            run_one(run, &mut recorder).map(|_| recorder.columns)
        });
        columns.map_err(run_error)?.finish().map_err(run_error)
    }
}

impl Plan {
    fn get(&self, index: usize) -> PyResult<&Run> {
        let runs = self.plan.runs.len();
        let missing = || PyIndexError::new_err(format!("run {index}: the scenario has {runs} runs"));
        self.plan.runs.get(index).ok_or_else(missing)
    }
}

/// Result of a run from its outcome.
pub fn result_of(run: &Run, (steps, wall, samples): RunOutcome) -> PyResult<RunResult> {
    let samples = samples.into_iter().map(|(name, bytes)| {
        let metric = METRICS.iter().find(|metric| metric.name == name);
        let metric = metric.ok_or_else(|| PyValueError::new_err(format!("no metric {name:?}")))?;
        let (values, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(PyValueError::new_err(format!("{name}: {} bytes are no samples", bytes.len())));
        }
        Ok((metric.name, values.iter().map(|value| f64::from_le_bytes(*value)).collect()))
    });
    Ok(RunResult {
        point: run.point,
        replication: run.replication,
        messages: Vec::new(),
        samples: samples.collect::<PyResult<Vec<_>>>()?,
        steps,
        wall: Duration::try_from_secs_f64(wall).unwrap_or_default(),
    })
}
