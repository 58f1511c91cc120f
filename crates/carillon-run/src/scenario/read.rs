//! Reading a scenario file, and setting keys on top of it.

use carillon_core::ProtocolEntry;
use toml::{Table, Value};

use super::document::{self, Document};
use super::error::ScenarioError;
use super::file::ScenarioFile;
use super::inputs::Inputs;
use super::precision::Precision;
use super::sweep::{self, Axis};

impl ScenarioFile {
    /// Reads a scenario from TOML text; `origin` is its name in error messages. It cannot name files.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ScenarioError> {
        Self::parse_with(origin, text, Inputs::default(), carillon_proto::REGISTRY)
    }

    /// Returns true if a text looks like a scenario, independent of its file name: TOML with one of the sections.
    pub fn recognises(text: &str) -> bool {
        let sections = ["network", "protocol", "workload", "sweep"];
        toml::from_str::<Table>(text).is_ok_and(|table| sections.iter().any(|name| table.contains_key(*name)))
    }

    /// Parses a scenario that may name these files and protocols.
    pub fn parse_with(
        origin: &str,
        text: &str,
        inputs: Inputs,
        protocols: &'static [&'static ProtocolEntry],
    ) -> Result<Self, ScenarioError> {
        let document: Document =
            toml::from_str(text).map_err(|error| ScenarioError::toml(origin, text, &error))?;
        let table: Table = toml::from_str(text).map_err(|error| ScenarioError::toml(origin, text, &error))?;
        Self::build(origin, text, table, document, inputs, protocols)
    }

    /// A scenario from a document that was made, not read. It cannot name files.
    pub fn from_table(origin: &str, table: Table) -> Result<Self, ScenarioError> {
        Self::from_table_with(origin, table, Inputs::default(), carillon_proto::REGISTRY)
    }

    /// A scenario from a document that was made, the files that it names, and the protocols that it may name.
    pub fn from_table_with(
        origin: &str,
        table: Table,
        inputs: Inputs,
        protocols: &'static [&'static ProtocolEntry],
    ) -> Result<Self, ScenarioError> {
        let document = document::typed(origin, &table)?;
        Self::build(origin, "", table, document, inputs, protocols)
    }

    fn build(
        origin: &str,
        text: &str,
        table: Table,
        document: Document,
        inputs: Inputs,
        protocols: &'static [&'static ProtocolEntry],
    ) -> Result<Self, ScenarioError> {
        let axes = sweep::axes(origin, text, &table, protocols)?;
        let (origin, text) = (origin.to_owned(), text.to_owned());
        let file = ScenarioFile { origin, inputs, text, table, document, axes, protocols };
        let (points, replications) = (file.points().len(), file.replications());
        if replications == 0 {
            return Err(file.bad("run.replications", "is 0: give 1 or more".to_owned()));
        }
        if let Err((key, what)) = Precision::check(&file.document.run) {
            return Err(file.bad(key, what));
        }
        if points.saturating_mul(replications as usize) > MAX_RUNS {
            let what = format!(
                "is {replications}: with {points} points that is more than {MAX_RUNS} runs; sweep fewer values, replicate less, or divide the sweep among several files"
            );
            return Err(file.bad("run.replications", what));
        }
        // Every value is looked at now, so that the last point of a sweep cannot fail after hours.
        for point in file.points() {
            file.resolve(&point)?;
        }
        Ok(file)
    }

    /// Returns the scenario with one key set, as by `--set key=value`. A swept key is no longer swept.
    pub fn with(&self, key: &str, value: &str) -> Result<Self, ScenarioError> {
        self.with_all(&[(key, value)])
    }

    /// Returns the scenario with several keys set at once: all are set before any is checked.
    pub fn with_all(&self, settings: &[(&str, &str)]) -> Result<Self, ScenarioError> {
        if settings.is_empty() {
            return Ok(self.clone());
        }
        let (table, origin) = apply(self.table.clone(), &self.axes, settings)?;
        let document = document::typed(&origin, &table)?;
        Self::build(&origin, "", table, document, self.inputs.clone(), self.protocols)
            .map(|file| ScenarioFile { origin: self.origin.clone(), ..file })
    }

    /// Reads a scenario on top of which keys are set, as by several `--set key=value`: all are set before anything is
    /// checked, so that they may supply what the file is missing.
    pub fn parse_set(
        origin: &str,
        text: &str,
        settings: &[(&str, &str)],
        inputs: Inputs,
    ) -> Result<Self, ScenarioError> {
        let protocols = carillon_proto::REGISTRY;
        let error = match Self::parse_with(origin, text, inputs.clone(), protocols) {
            Ok(file) => return file.with_all(settings),
            Err(error) => error,
        };
        let Ok(table) = toml::from_str::<Table>(text) else { return Err(error) };
        if settings.is_empty() {
            return Err(error);
        }
        let axes = sweep::axes(origin, text, &table, protocols)?;
        let (table, place) = apply(table, &axes, settings)?;
        let place = format!("{origin} with {place}");
        let document = document::typed(&place, &table)?;
        Self::build(&place, "", table, document, inputs, protocols)
            .map(|file| ScenarioFile { origin: origin.to_owned(), ..file })
    }
}

/// A document with these keys set, and what set them. A swept key is no longer swept.
fn apply(
    mut table: Table,
    axes: &[Axis],
    settings: &[(&str, &str)],
) -> Result<(Table, String), ScenarioError> {
    let mut origin = String::new();
    for (key, value) in settings {
        let separator = if origin.is_empty() { "" } else { " " };
        origin += &format!("{separator}--set {key}={value}");
        if let Some(Value::Table(sweep)) = table.get_mut("sweep") {
            sweep.remove(*key);
        }
        let joint = axes.iter().find(|axis| axis.keys.len() > 1 && axis.keys.iter().any(|k| k == key));
        if let Some(axis) = joint {
            let what = format!(
                "is swept together with others ({}): change the scenario file instead",
                axis.keys.join(", ")
            );
            return Err(ScenarioError::new(format!("--set {key}={value}"), format!("`{key}` {what}")));
        }
        if let Some(what) = sweep::names_no_section(&table, key) {
            return Err(ScenarioError::new(format!("--set {key}={value}"), format!("`{key}` {what}")));
        }
        sweep::set(&mut table, key, sweep::value_of(value));
    }
    Ok((table, origin))
}

/// Maximum number of runs of a plan: each run keeps its scenario in memory.
const MAX_RUNS: usize = 100_000;
