//! Exceptions: one base class, and a class for each kind of failure.

use carillon_lab::results::SweepError;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(carillon, CarillonError, PyException, "Base class of all errors of this package.");
create_exception!(carillon, ScenarioError, CarillonError, "A scenario that cannot be read or resolved.");
create_exception!(
    carillon,
    RunError,
    CarillonError,
    "A run that failed, or results that could not be written."
);
create_exception!(carillon, Interrupted, RunError, "A sweep that was stopped; its finished runs are kept.");

create_exception!(
    carillon,
    TransportError,
    CarillonError,
    "A delivery that failed at this end: its files, its settings or its network."
);

/// Converts the error of a delivery.
pub fn transport_error(error: carillon_transfer::Error) -> PyErr {
    TransportError::new_err(error.to_string())
}

/// Converts the error of a scenario.
pub fn scenario_error(error: impl std::fmt::Display) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

/// Converts the error of a run or of a table.
pub fn run_error(error: impl std::fmt::Display) -> PyErr {
    RunError::new_err(error.to_string())
}

/// Converts the error of a sweep.
pub fn sweep_error(error: SweepError) -> PyErr {
    match error {
        SweepError::Scenario(error) => scenario_error(error),
        SweepError::Interrupted { .. } => Interrupted::new_err(error.to_string()),
        error => run_error(error),
    }
}
