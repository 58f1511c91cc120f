//! Reading a scenario file, and setting keys on top of it.

use std::path::{Path, PathBuf};

use carillon_core::ProtocolEntry;
use toml::{Table, Value};

use super::document::{self, Document};
use super::error::ScenarioError;
use super::file::ScenarioFile;
use super::sweep;

impl ScenarioFile {
    /// Reads a scenario from TOML text; `origin` is its name in error messages.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ScenarioError> {
        Self::parse_with(origin, text, carillon_proto::REGISTRY)
    }

    /// The same, if it may name these protocols.
    pub fn parse_with(
        origin: &str,
        text: &str,
        protocols: &'static [&'static ProtocolEntry],
    ) -> Result<Self, ScenarioError> {
        let document: Document =
            toml::from_str(text).map_err(|error| ScenarioError::toml(origin, text, &error))?;
        let table: Table = toml::from_str(text).map_err(|error| ScenarioError::toml(origin, text, &error))?;
        Self::build(origin, text, table, document, dir_of(origin), protocols)
    }

    /// A scenario from a document that was made, not read.
    pub fn from_table(origin: &str, table: Table) -> Result<Self, ScenarioError> {
        let document = document::typed(origin, &table)?;
        Self::build(origin, "", table, document, dir_of(origin), carillon_proto::REGISTRY)
    }

    fn build(
        origin: &str,
        text: &str,
        table: Table,
        document: Document,
        dir: PathBuf,
        protocols: &'static [&'static ProtocolEntry],
    ) -> Result<Self, ScenarioError> {
        let axes = sweep::axes(origin, text, &table, protocols)?;
        let (origin, text) = (origin.to_owned(), text.to_owned());
        let file = ScenarioFile { origin, dir, text, table, document, axes, protocols };
        let (points, replications) = (file.points().len(), file.replications());
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

    /// The same scenario with one key set, as by `--set key=value`. A swept key is no longer swept.
    pub fn with(&self, key: &str, value: &str) -> Result<Self, ScenarioError> {
        self.with_all(&[(key, value)])
    }

    /// The same with several keys set at once.
    pub fn with_all(&self, settings: &[(&str, &str)]) -> Result<Self, ScenarioError> {
        if settings.is_empty() {
            return Ok(self.clone());
        }
        let mut table = self.table.clone();
        let mut origin = String::new();
        for (key, value) in settings {
            let separator = if origin.is_empty() { "" } else { " " };
            origin += &format!("{separator}--set {key}={value}");
            if let Some(Value::Table(sweep)) = table.get_mut("sweep") {
                sweep.remove(*key);
            }
            if let Some(axis) =
                self.axes.iter().find(|axis| axis.keys.len() > 1 && axis.keys.iter().any(|k| k == key))
            {
                let what = format!(
                    "is swept together with others ({}): change the scenario file instead",
                    axis.keys.join(", ")
                );
                return Err(ScenarioError::new(format!("--set {key}={value}"), format!("`{key}` {what}")));
            }
            sweep::set(&mut table, key, sweep::value_of(value));
        }
        let document = document::typed(&origin, &table)?;
        Self::build(&origin, "", table, document, self.dir.clone(), self.protocols)
            .map(|file| ScenarioFile { origin: self.origin.clone(), ..file })
    }
}

/// Each run of a plan has a scenario of its own in memory.
const MAX_RUNS: usize = 100_000;

/// The folder of a file.
fn dir_of(origin: &str) -> PathBuf {
    Path::new(origin).parent().map(Path::to_owned).unwrap_or_default()
}
