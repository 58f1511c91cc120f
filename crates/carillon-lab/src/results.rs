//! The result folder: `summary.csv`, `summary.parquet`, `samples.parquet`, `manifest.json`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;
use toml::Value;

use crate::plan::{Plan, Run};
use crate::run::RunResult;
use crate::scenario::{Point, ScenarioFile, text_of};
use crate::statistics::Summary;
use crate::table::{Cell, ColumnKind, Table, TableError};

/// The results of a whole plan.
#[derive(Debug)]
pub struct Results<'a> {
    file: &'a ScenarioFile,
    plan: &'a Plan,
    runs: &'a [RunResult],
    wall: Duration,
    keys: Vec<(String, ColumnKind)>,
    /// The summaries by point, then metric.
    points: Vec<Vec<(&'static str, Summary)>>,
}

/// A folder that could not be written.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// A table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The folder or the manifest.
    #[error("cannot write {path}: {error}")]
    Io {
        /// What was to be written.
        path: String,
        /// Why it was not.
        error: std::io::Error,
    },
}

/// Whether there are results in a folder, which a further run would replace.
pub fn has_results(dir: &Path) -> bool {
    ["summary.csv", "manifest.json", "index.html"].iter().any(|name| dir.join(name).exists())
}

impl<'a> Results<'a> {
    /// Summarises the runs of a plan, which come in its order; `wall` is the time they took.
    pub fn new(file: &'a ScenarioFile, plan: &'a Plan, runs: &'a [RunResult], wall: Duration) -> Self {
        let keys = file
            .axes()
            .iter()
            .flat_map(|axis| {
                axis.keys.iter().enumerate().map(|(at, key)| (key.clone(), kind_of(axis.values(at))))
            })
            .collect();
        let mut points: Vec<Vec<(&'static str, Summary)>> = Vec::with_capacity(plan.points.len());
        for runs in runs.chunk_by(|a, b| a.point == b.point) {
            let metrics = runs[0].samples.iter().enumerate().map(|(at, &(metric, _))| {
                let mut pooled: Vec<f64> =
                    runs.iter().flat_map(|run| run.samples[at].1.iter().copied()).collect();
                (metric, Summary::of(&mut pooled))
            });
            points.push(metrics.collect());
        }
        Results { file, plan, runs, wall, keys, points }
    }

    /// The points with their summaries.
    pub fn points(&self) -> impl Iterator<Item = (&Point, &[(&'static str, Summary)])> {
        self.plan.points.iter().zip(self.points.iter().map(Vec::as_slice))
    }

    /// One row for each point and metric.
    pub fn summary(&self) -> Table {
        let mut columns = vec![("metric", ColumnKind::Text)];
        columns.extend(Summary::COLUMNS);
        let mut table = self.table(&columns);
        for (point, metrics) in self.points() {
            for (metric, summary) in metrics {
                table.push(self.key_cells(point).chain([(*metric).into()]).chain(summary.cells()));
            }
        }
        table
    }

    /// One row for each sample.
    pub fn samples(&self) -> Table {
        let mut table = self.table(&[
            ("replication", ColumnKind::Integer),
            ("metric", ColumnKind::Text),
            ("sample", ColumnKind::Integer),
            ("value", ColumnKind::Real),
        ]);
        for run in self.runs {
            for (metric, values) in &run.samples {
                for (number, &value) in values.iter().enumerate() {
                    let own = [
                        Cell::count(run.replication.into()),
                        (*metric).into(),
                        Cell::count(number as u64),
                        value.into(),
                    ];
                    table.push(self.key_cells(&self.plan.points[run.point]).chain(own));
                }
            }
        }
        table
    }

    /// Writes the folder.
    pub fn write(&self, dir: &Path) -> Result<(), ResultsError> {
        self.write_summary(dir)?;
        Ok(self.samples().write_parquet(&dir.join("samples.parquet"))?)
    }

    /// Writes the folder without the samples.
    pub fn write_summary(&self, dir: &Path) -> Result<(), ResultsError> {
        let io = |path: &Path| {
            let path = path.display().to_string();
            move |error| ResultsError::Io { path, error }
        };
        std::fs::create_dir_all(dir).map_err(io(dir))?;
        let summary = self.summary();
        summary.write_csv(&dir.join("summary.csv"))?;
        summary.write_parquet(&dir.join("summary.parquet"))?;
        let path = dir.join("manifest.json");
        let text = serde_json::to_string_pretty(&self.manifest()).expect("a manifest is plain data");
        std::fs::write(&path, text + "\n").map_err(io(&path))
    }

    fn manifest(&self) -> Manifest<'_> {
        let resolved = self.file.table().to_string();
        let steps = self.runs.iter().map(|run| run.steps).sum();
        let wall_s = self.wall.as_secs_f64();
        Manifest {
            name: self.file.name(),
            source: self.file.source(),
            scenario_hash: blake3::hash(resolved.as_bytes()).to_hex().to_string(),
            scenario: self.file.table(),
            protocol_settings: self.runs_of_points().next().map(settings).unwrap_or_default(),
            points: self.runs_of_points().map(|run| self.point_settings(run)).collect(),
            version: env!("CARGO_PKG_VERSION"),
            schema_version: carillon_core::SCHEMA_VERSION,
            seed: self.file.seed(),
            steps,
            wall_s,
            steps_per_s: steps as f64 / wall_s,
        }
    }

    /// The first run of each point.
    fn runs_of_points(&self) -> impl Iterator<Item = &Run> {
        self.plan.runs.iter().filter(|run| run.replication == 0)
    }

    fn point_settings(&self, run: &Run) -> PointSettings {
        let point = self.plan.points[run.point].0.iter();
        PointSettings {
            at: point.map(|(key, value)| (key.clone(), text_of(value))).collect(),
            protocol: run.scenario.protocol.name,
            settings: settings(run),
        }
    }

    /// A table with the swept keys as its first columns.
    fn table(&self, own: &[(&str, ColumnKind)]) -> Table {
        let own = own.iter().map(|&(name, kind)| (name.to_owned(), kind));
        Table::new(self.keys.iter().cloned().chain(own))
            .expect("keys have a dot in their names, metrics none")
    }

    fn key_cells(&self, point: &Point) -> impl Iterator<Item = Cell> {
        point.0.iter().zip(&self.keys).map(|((_, value), (_, kind))| cell_of(value, *kind))
    }
}

#[derive(Serialize)]
struct Manifest<'a> {
    name: &'a str,
    source: Option<&'a str>,
    scenario_hash: String,
    scenario: &'a toml::Table,
    /// Every parameter of the protocol at the first point, defaults included.
    protocol_settings: BTreeMap<&'static str, String>,
    /// What was run at each point.
    points: Vec<PointSettings>,
    version: &'static str,
    schema_version: u32,
    seed: u64,
    steps: u64,
    wall_s: f64,
    steps_per_s: f64,
}

/// What was run at a point.
#[derive(Serialize)]
struct PointSettings {
    /// The values of the swept keys.
    at: BTreeMap<String, String>,
    protocol: &'static str,
    /// Every parameter of the protocol, defaults included.
    settings: BTreeMap<&'static str, String>,
}

fn settings(run: &Run) -> BTreeMap<&'static str, String> {
    run.scenario.config.iter().map(|(name, value)| (name, value.to_string())).collect()
}

/// What a column of swept values holds.
fn kind_of<'a>(values: impl Iterator<Item = &'a Value> + Clone) -> ColumnKind {
    if values.clone().all(Value::is_integer) {
        ColumnKind::Integer
    } else if values.clone().all(|value| value.is_integer() || value.is_float()) {
        ColumnKind::Real
    } else {
        ColumnKind::Text
    }
}

fn cell_of(value: &Value, kind: ColumnKind) -> Cell {
    match (value, kind) {
        (Value::Integer(n), ColumnKind::Integer) => (*n).into(),
        (Value::Integer(n), ColumnKind::Real) => (*n as f64).into(),
        (Value::Float(x), ColumnKind::Real) => (*x).into(),
        (value, _) => text_of(value).into(),
    }
}
