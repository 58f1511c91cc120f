//! Scenarios of Python: TOML text or a document, checked as by the command line.

use std::path::PathBuf;

use carillon_lab::plan::Plan;
use carillon_lab::scenario::ScenarioFile;
use pyo3::prelude::*;
use toml::Table;

use crate::error::scenario_error;

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
        let file = ScenarioFile::parse(origin, text).map_err(scenario_error)?;
        Ok(Scenario { file })
    }

    /// Builds a scenario from a document in JSON. Files that it names are looked up in `folder`.
    #[staticmethod]
    fn from_json(origin: &str, document: &str, folder: PathBuf) -> PyResult<Self> {
        let table: Table =
            serde_json::from_str(document).map_err(|error| scenario_error(format!("{origin}: {error}")))?;
        let file = ScenarioFile::from_table_in(origin, table, folder).map_err(scenario_error)?;
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
