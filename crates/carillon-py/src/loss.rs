//! Loss models that are written in Python.

use std::sync::Arc;

use carillon_lab::scenario::register_loss;
use carillon_sim::loss::{LossFunction, LossQuery};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::protocol::note_failure;

/// A Python function that returns the probability with which a packet is lost.
struct PyLoss(Py<PyAny>);

impl LossFunction for PyLoss {
    fn probability(&self, packet: &LossQuery) -> f64 {
        let result = Python::attach(|py| {
            let message = packet.original.map(|original| original.message.0);
            let arguments = (packet.time.as_nanos(), packet.place.to_string(), packet.number, message);
            let probability: f64 = self.0.bind(py).call1(arguments)?.extract()?;
            match (0.0..=1.0).contains(&probability) {
                true => Ok(probability),
                false => {
                    Err(PyValueError::new_err(format!("a loss model returned {probability}: give 0 to 1")))
                }
            }
        });
        result.unwrap_or_else(|error| {
            // The run ends at the next look of its observer.
            note_failure(error);
            0.0
        })
    }
}

/// Makes a function known to scenarios as the loss model of this name.
#[pyfunction]
pub fn register_loss_model(name: &str, function: Py<PyAny>) {
    register_loss(name, Arc::new(PyLoss(function)));
}
