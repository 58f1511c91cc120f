//! Single runs of a plan. Their results travel between processes as plain Python values.

use std::time::Duration;

use carillon_core::{NodeId, Observer};
use carillon_lab::metrics::METRICS;
use carillon_lab::plan::Run;
use carillon_lab::run::{RunResult, run_while};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::error::run_error;
use crate::protocol::{Guard, take_failure};
use crate::scenario::Scenario;
use crate::table::Table;
use crate::trace::TableRecorder;

/// Outcome of a run: its steps, its real time in seconds, and for each metric the samples as 64-bit floating-point
/// numbers, and the nodes of the samples, if they have any, as 32-bit numbers, all little-endian.
pub type RunOutcome = (u64, f64, Vec<(String, PyBackedBytes, PyBackedBytes)>);

/// A [`RunOutcome`] on its way to Python.
type NewOutcome<'py> = (u64, f64, Vec<(&'static str, Bound<'py, PyBytes>, Bound<'py, PyBytes>)>);

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
        let (result, _) = made(py, self.get(index)?, carillon_core::NoObserver)?;
        outcome(py, &result)
    }

    /// Makes the run of this index and returns its outcome and its trace.
    fn run_traced<'py>(&self, py: Python<'py>, index: usize) -> PyResult<(NewOutcome<'py>, Table)> {
        let run = self.get(index)?;
        let (result, recorder) = made(py, run, TableRecorder::new(run.scenario.protocol.packets.format))?;
        Ok((outcome(py, &result)?, recorder.columns.finish().map_err(run_error)?))
    }

    /// Makes the run of this index and returns its trace.
    fn trace(&self, py: Python<'_>, index: usize) -> PyResult<Table> {
        let run = self.get(index)?;
        made(py, run, TableRecorder::new(run.scenario.protocol.packets.format))?
            .1
            .columns
            .finish()
            .map_err(run_error)
    }
}

impl Plan {
    fn get(&self, index: usize) -> PyResult<&Run> {
        let runs = self.plan.runs.len();
        let missing = || PyIndexError::new_err(format!("run {index}: the scenario has {runs} runs"));
        self.plan.runs.get(index).ok_or_else(missing)
    }
}

/// Outcome of a run, from its result.
fn outcome<'py>(py: Python<'py>, result: &RunResult) -> PyResult<NewOutcome<'py>> {
    let samples = result.samples.iter().map(|(metric, values)| {
        let bytes = PyBytes::new_with(py, 8 * values.len(), |bytes| {
            for (into, value) in bytes.chunks_exact_mut(8).zip(values) {
                into.copy_from_slice(&value.to_le_bytes());
            }
            Ok(())
        });
        let nodes = result.nodes.iter().find(|(of, _)| of == metric).map_or(&[][..], |(_, nodes)| nodes);
        let nodes = PyBytes::new_with(py, 4 * nodes.len(), |bytes| {
            for (into, node) in bytes.chunks_exact_mut(4).zip(nodes) {
                into.copy_from_slice(&node.0.to_le_bytes());
            }
            Ok(())
        });
        Ok((*metric, bytes?, nodes?))
    });
    Ok((result.steps, result.wall.as_secs_f64(), samples.collect::<PyResult<Vec<_>>>()?))
}

/// Makes a run, and returns its result with the observer. An exception of a machine ends the run.
fn made<O: Observer>(py: Python<'_>, run: &Run, observer: O) -> PyResult<(RunResult, O)> {
    let (made, failure) = py.detach(|| {
        take_failure();
        let mut guard = Guard(observer);
        let made = run_while(run, &mut guard, &|| false);
        (made.map(|result| (result, guard.0)), take_failure())
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    let (result, observer) = made.map_err(run_error)?;
    let result = result.ok_or_else(|| run_error("the run was stopped"))?;
    Ok((result, observer))
}

/// Result of a run from its outcome.
pub fn result_of(
    run: &Run,
    (steps, wall, samples): RunOutcome,
    own_metrics: &'static [&'static str],
) -> PyResult<RunResult> {
    let (mut metrics, mut nodes) = (Vec::new(), Vec::new());
    for (name, samples, of) in samples {
        let mut known = METRICS.iter().map(|metric| metric.name).chain(own_metrics.iter().copied());
        let metric = known.find(|known| *known == name);
        let metric = metric.ok_or_else(|| PyValueError::new_err(format!("no metric {name:?}")))?;
        let values: Vec<f64> = numbers(&name, &samples, f64::from_le_bytes)?;
        let of: Vec<NodeId> = numbers(&name, &of, |bytes| NodeId(u32::from_le_bytes(bytes)))?;
        if !of.is_empty() && of.len() != values.len() {
            let what = format!("{name}: {} nodes for {} samples", of.len(), values.len());
            return Err(PyValueError::new_err(what));
        }
        if !of.is_empty() {
            nodes.push((metric, of));
        }
        metrics.push((metric, values));
    }
    Ok(RunResult {
        point: run.point,
        replication: run.replication,
        messages: Vec::new(),
        samples: metrics,
        nodes,
        steps,
        wall: Duration::try_from_secs_f64(wall).unwrap_or_default(),
    })
}

/// Numbers of `N` bytes each.
fn numbers<const N: usize, T>(
    metric: &str,
    bytes: &[u8],
    convert: impl Fn([u8; N]) -> T,
) -> PyResult<Vec<T>> {
    let (numbers, rest) = bytes.as_chunks::<N>();
    if !rest.is_empty() {
        let what = format!("{metric}: {} bytes are no numbers of {N} bytes", bytes.len());
        return Err(PyValueError::new_err(what));
    }
    Ok(numbers.iter().map(|number| convert(*number)).collect())
}
