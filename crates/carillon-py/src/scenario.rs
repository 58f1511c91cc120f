//! Scenarios of Python: TOML text or a document, checked as by the command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use carillon_lab::inputs;
use carillon_lab::plan::Plan;
use carillon_lab::scenario::ScenarioFile;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use toml::Table;

use crate::error::scenario_error;
use crate::network;
use crate::protocol::entries;

/// Role of each node, and ends of each link.
type NodesAndLinks = (Vec<&'static str>, Vec<(u32, u32)>);

/// A checked scenario. The class `carillon.Scenario` wraps it.
#[pyclass(frozen, module = "carillon._carillon")]
pub struct Scenario {
    pub(crate) file: ScenarioFile,
}

#[pymethods]
impl Scenario {
    /// Reads TOML text; `origin` is its path or name in error messages.
    #[staticmethod]
    fn parse(origin: &str, text: &str) -> PyResult<Self> {
        let file = ScenarioFile::parse_with(origin, text, inputs::beside(origin), entries())
            .map_err(scenario_error)?;
        Ok(Scenario { file })
    }

    /// Builds a scenario from a document in JSON. Files that it names are looked up in `folder`, except those with
    /// their contents in `files`.
    #[staticmethod]
    #[pyo3(signature = (origin, document, folder, files = BTreeMap::new()))]
    fn from_json(
        origin: &str,
        document: &str,
        folder: PathBuf,
        files: BTreeMap<String, PyBackedBytes>,
    ) -> PyResult<Self> {
        let table: Table =
            serde_json::from_str(document).map_err(|error| scenario_error(format!("{origin}: {error}")))?;
        let contents = files.into_iter().map(|(name, content)| (name, Arc::from(&content[..])));
        let inputs = inputs::in_folder(folder, contents.collect());
        let file = ScenarioFile::from_table_with(origin, table, inputs, entries()).map_err(scenario_error)?;
        Ok(Scenario { file })
    }

    /// Document of the scenario in JSON.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(self.file.table()).map_err(scenario_error)
    }

    /// Document of the scenario in TOML.
    fn to_toml(&self) -> PyResult<String> {
        toml::to_string(self.file.table()).map_err(scenario_error)
    }

    /// Contents of the files that the scenario names, such as topologies.
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let files = PyDict::new(py);
        for (name, content) in self.file.inputs() {
            files.set_item(name, PyBytes::new(py, &content))?;
        }
        Ok(files)
    }

    #[getter]
    fn name(&self) -> &str {
        self.file.name()
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.file.seed()
    }

    #[getter]
    fn origin(&self) -> &str {
        self.file.origin()
    }

    #[getter]
    fn points(&self) -> usize {
        self.file.points().len()
    }

    #[getter]
    fn replications(&self) -> u32 {
        self.file.replications()
    }

    /// Role of each node and ends of each link of the network at the first point. An Ethernet has a router in the place
    /// of its medium.
    fn network(&self) -> PyResult<NodesAndLinks> {
        let point = self.file.points().into_iter().next().expect("a scenario has a point");
        let scenario = self.file.resolve(&point).map_err(scenario_error)?;
        Ok(network::nodes_and_links(&scenario))
    }

    /// Keys of the sweep.
    #[getter]
    fn axes(&self) -> Vec<String> {
        self.file.axes().iter().flat_map(|axis| axis.keys.clone()).collect()
    }
}

impl Scenario {
    /// Returns the plan of the scenario.
    pub fn plan(&self) -> PyResult<Plan> {
        Plan::new(&self.file).map_err(scenario_error)
    }
}
