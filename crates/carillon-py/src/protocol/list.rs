//! The registry of protocols.

use carillon_core::ProtocolEntry;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Returns the protocols of the registry: for each its name, family, summary, source, roles, networks and parameters.
#[pyfunction]
pub fn protocols(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let all = carillon_proto::REGISTRY.iter().map(|entry| describe(py, entry));
    PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)
}

fn describe<'py>(py: Python<'py>, entry: &ProtocolEntry) -> PyResult<Bound<'py, PyDict>> {
    let words =
        |list: &[&dyn std::fmt::Display]| list.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let roles: Vec<&dyn std::fmt::Display> = entry.roles.iter().map(|role| role as _).collect();
    let networks: Vec<&dyn std::fmt::Display> = entry.networks.iter().map(|network| network as _).collect();
    let described = PyDict::new(py);
    described.set_item("name", entry.name)?;
    described.set_item("family", entry.about.family)?;
    described.set_item("summary", entry.about.summary)?;
    described.set_item("source", entry.about.reference)?;
    described.set_item("order", entry.delivery.order.to_string())?;
    described.set_item("roles", words(&roles))?;
    described.set_item("networks", words(&networks))?;
    let parameters = entry.parameters.iter().map(|parameter| {
        let described = PyDict::new(py);
        described.set_item("name", parameter.name)?;
        described.set_item("default", parameter.default)?;
        described.set_item("values", parameter.kind.to_string())?;
        described.set_item("doc", parameter.doc)?;
        Ok(described)
    });
    described.set_item("parameters", PyList::new(py, parameters.collect::<PyResult<Vec<_>>>()?)?)?;
    Ok(described)
}
