//! Result folder: `summary.csv`, `summary.parquet`, `runs.csv`, `samples.parquet`, `receivers.csv`, `manifest.json`.
//!
//! A folder is written as its runs end, in the order of the plan. Memory only holds the positions of the runs in the
//! journal. A sweep that stops early keeps its completed runs, and [`Writer::open`] resumes it.

mod columns;
mod error;
mod existing;
mod folder;
mod hashes;
mod journal;
mod nodes;
mod point;
mod shared;
mod sorted;
mod sweep;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use serde::Serialize;
use toml::Value;

use self::columns::{RUN_COLUMNS, SAMPLE_COLUMNS, summary_columns};
use self::error::io_at;
use self::existing::{check_resumed, remove_leftovers};
use self::hashes::{file_hashes, scenario_hash};
use self::journal::{JOURNAL_FILE, Journal, JournalRange};
use self::nodes::{NodeStatistics, NodeTable};
use self::point::{MetricInProgress, PointInProgress};
use self::sorted::SORT_SCRATCH_DIR;
use crate::metrics::{MessageRecord, SubjectKind, without_latency};
use crate::plan::{Plan, Run};
use crate::run::RunResult;
use crate::scenario::{Point, Precision, ScenarioFile, text_of};
use crate::statistics::Summary;
use crate::table::{Cell, ColumnKind, ParquetWriter, Table};

pub use self::error::ResultsError;
pub use self::existing::{Existing, check, has_results, is_abandoned, is_complete, progress};
pub use self::folder::{read_nodes, read_runs, read_summary};
pub use self::shared::SharedRuns;
pub use self::sweep::{SweepError, SweepOptions, TakeResult, Testbed, run_elsewhere, run_into};

/// Writes the results of a plan into a folder.
#[derive(Debug)]
pub struct Writer<'a> {
    file: &'a ScenarioFile,
    plan: &'a Plan,
    dir: PathBuf,
    contents: Contents,
    precision: Option<Precision>,
    keys: Vec<(String, ColumnKind)>,
    journal: Journal,
    /// First run without written rows: earlier ones have theirs, or their points needed no more runs.
    written: usize,
    /// Runs that were left out, as their points were precise enough without them.
    left_out: usize,
    /// Steps of the runs with written rows.
    steps: u64,
    /// Runs written of the point in progress.
    current: PointInProgress,
    runs_csv: BufWriter<File>,
    summary_csv: BufWriter<File>,
    summary: Table,
    samples: Option<ParquetWriter>,
    /// Tables of the kinds of nodes that the scenario measures.
    node_tables: Vec<NodeTable>,
    report: Report,
}

/// Optional files, beside the summary and the means of runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contents {
    /// Every sample, in `samples.parquet`.
    pub samples: bool,
    /// Every message, for [`Writer::messages`].
    pub messages: bool,
    /// Metrics of the caller, beside the registered ones: their names, in the order of each run's samples.
    pub metrics: &'static [&'static str],
}

/// Key figures of a completed sweep.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Steps of all runs.
    pub steps: u64,
    /// Points at which not everything was delivered.
    pub undelivered: usize,
    /// The greatest share that was not, and where.
    pub worst: Option<(f64, String)>,
    /// Points that have no `delivery_latency_s`, how many for each reason.
    pub without_latency: BTreeMap<&'static str, usize>,
}

/// Opens the journal of a folder, with the finished runs of an earlier sweep if it is resumed.
fn open_journal(
    file: &ScenarioFile,
    plan: &Plan,
    dir: &Path,
    contents: Contents,
    existing: Existing,
) -> Result<Journal, ResultsError> {
    let digest = digest(file, plan, contents);
    let path = dir.join(JOURNAL_FILE);
    if existing == Existing::Resume {
        check_resumed(dir, file, path.exists())?;
    }
    let earlier = match path.exists() && existing == Existing::Resume {
        true => {
            Some(Journal::resume(&path, &digest, plan.runs.len(), contents.metrics).map_err(io_at(&path))?)
        }
        false => None,
    };
    match earlier {
        Some(Some(journal)) => Ok(journal),
        Some(None) => {
            let what = "has a sweep of another scenario, file, seed or version, which cannot be resumed with this one";
            Err(ResultsError::There(format!("{} {what}", dir.display())))
        }
        None => Ok(Journal::create(&path, &digest, plan.runs.len(), contents.metrics).map_err(io_at(&path))?),
    }
}

impl<'a> Writer<'a> {
    /// Opens a folder, which is made if it is not there.
    pub fn open(
        file: &'a ScenarioFile,
        plan: &'a Plan,
        dir: &Path,
        contents: Contents,
        existing: Existing,
    ) -> Result<Self, ResultsError> {
        check(dir, existing)?;
        fs::create_dir_all(dir).map_err(io_at(dir))?;
        let journal = open_journal(file, plan, dir, contents, existing)?;
        remove_leftovers(dir);
        let keys: Vec<(String, ColumnKind)> = file
            .axes()
            .iter()
            .flat_map(|axis| {
                axis.keys.iter().enumerate().map(|(at, key)| (key.clone(), kind_of(axis.values(at))))
            })
            .collect();
        let create = |name: &str| {
            let path = dir.join(name);
            File::create(&path).map(BufWriter::new).map_err(io_at(&path))
        };
        let summary = table(&keys, &summary_columns());
        let is_measured = |kind: &SubjectKind| plan.runs.iter().any(|run| kind.is_measured(&run.scenario));
        let kinds: Vec<SubjectKind> = SubjectKind::VARIANTS.into_iter().filter(is_measured).collect();
        let samples = contents.samples.then(|| {
            let path = dir.join("samples.parquet");
            let nodes = kinds.iter().map(|kind| (kind.name(), ColumnKind::OptionalInteger));
            let columns: Vec<_> = SAMPLE_COLUMNS.into_iter().chain(nodes).collect();
            ParquetWriter::create(&path, table(&keys, &columns))
        });
        nodes::remove_tables(dir).map_err(io_at(dir))?;
        let node_tables = kinds.iter().map(|&kind| NodeTable::create(dir, kind));
        let mut writer = Writer {
            runs_csv: create("runs.csv")?,
            summary_csv: create("summary.csv")?,
            summary,
            samples: samples.transpose()?,
            node_tables: node_tables.collect::<io::Result<_>>().map_err(io_at(dir))?,
            file,
            plan,
            dir: dir.into(),
            contents,
            precision: file.precision(),
            keys,
            journal,
            written: 0,
            left_out: 0,
            steps: 0,
            current: PointInProgress::default(),
            report: Report::default(),
        };
        let header = table(&writer.keys, &RUN_COLUMNS);
        header.append_csv(&mut writer.runs_csv, true).map_err(io_at(dir))?;
        writer.summary.append_csv(&mut writer.summary_csv, true).map_err(io_at(dir))?;
        for nodes in &mut writer.node_tables {
            let header = table(&writer.keys, &NodeTable::columns(nodes.kind));
            header.append_csv(nodes.out(), true).map_err(io_at(dir))?;
        }
        writer.write_manifest()?;
        writer.write_rows(None)?;
        Ok(writer)
    }

    /// The runs that are needed and not done, in the order of the plan.
    pub fn pending(&self) -> Vec<usize> {
        (self.written..self.plan.runs.len()).filter(|run| self.journal.run(*run).is_none()).collect()
    }

    /// Accepts the results of a run of the plan, and writes the rows that are next in order. Results of a run that is
    /// done are ignored: they are the same ones, made twice on other machines. So are results of a run that its point
    /// does not need. Returns the first run that is still needed.
    pub fn take(&mut self, run: usize, result: RunResult) -> Result<usize, ResultsError> {
        if run >= self.written && self.journal.run(run).is_none() {
            let path = self.dir.join(JOURNAL_FILE);
            self.journal.append(run, &result, self.contents.messages).map_err(io_at(&path))?;
            self.write_rows(Some((run, result)))?;
        }
        Ok(self.written)
    }

    /// The messages of a run that is done.
    pub fn messages(&mut self, run: usize) -> Result<Vec<MessageRecord>, ResultsError> {
        self.journal.messages(run).map_err(io_at(&self.dir))
    }

    /// Stops a sweep early and keeps the completed runs. Returns their number.
    pub fn interrupt(mut self) -> Result<usize, ResultsError> {
        self.flush()?;
        self.write_manifest()?;
        Ok(self.journal.done())
    }

    /// Ends a sweep after all its runs.
    pub fn finish(mut self) -> Result<Report, ResultsError> {
        assert_eq!(self.written, self.plan.runs.len(), "a sweep is finished when all of its runs are done");
        self.flush()?;
        self.summary.write_parquet(&self.dir.join("summary.parquet"))?;
        if let Some(samples) = self.samples.take() {
            samples.finish()?;
        }
        self.write_manifest()?;
        self.report.steps = self.steps;
        let mut without = BTreeMap::new();
        for reason in self.runs_of_points().filter_map(|run| without_latency(&run.scenario)) {
            *without.entry(reason).or_default() += 1;
        }
        self.report.without_latency = without;
        self.journal.remove().map_err(io_at(&self.dir))?;
        Ok(self.report)
    }

    fn flush(&mut self) -> Result<(), ResultsError> {
        for file in [&mut self.runs_csv, &mut self.summary_csv] {
            io::Write::flush(file).map_err(io_at(&self.dir))?;
        }
        self.node_tables.iter_mut().try_for_each(NodeTable::flush).map_err(io_at(&self.dir))?;
        Ok(())
    }

    /// Writes what stands next in the order of the plan, as far as it is done. The samples of the run that has
    /// just ended need not be read from the journal.
    fn write_rows(&mut self, ended: Option<(usize, RunResult)>) -> Result<(), ResultsError> {
        let mut ended = ended.filter(|(run, _)| *run == self.written).map(|(_, result)| result.samples);
        while self.written < self.plan.runs.len() && self.journal.run(self.written).is_some() {
            let run = self.written;
            let own = self.write_run(run, ended.take().unwrap_or_default())?;
            self.written += 1;
            let point = self.plan.runs[run].point;
            let left = self.plan.runs[self.written..].iter().take_while(|next| next.point == point).count();
            // Runs are looked at in the order of the plan, so that the end does not depend on the number of threads.
            if left == 0 || self.is_precise(run) {
                self.write_point(point, run, own)?;
                self.written += left;
                self.left_out += left;
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Returns true if the written runs of a point suffice, of which `last` is the last one.
    fn is_precise(&self, last: usize) -> bool {
        let Some(Precision { relative, metrics }) = &self.precision else { return false };
        if self.plan.runs[last].replication + 1 < Precision::MIN_RUNS {
            return false;
        }
        metrics.iter().all(|wanted| {
            let at = self.parts(last).iter().position(|(metric, _)| metric == wanted);
            let Some(means) = at.and_then(|at| self.current.metrics.get(at)).map(|metric| &metric.means)
            else {
                return false;
            };
            let found = Summary::of(&mut means.clone());
            // Equal means have an interval without width, whatever they are.
            found.ci95_high - found.mean <= relative * found.mean.abs()
        })
    }

    /// Writes the means of a run, and its samples. Returns the summaries of these. `known` may have the samples of the
    /// run.
    fn write_run(
        &mut self,
        run: usize,
        known: Vec<(&'static str, Vec<f64>)>,
    ) -> Result<Vec<Summary>, ResultsError> {
        let Run { point, replication, .. } = &self.plan.runs[run];
        self.steps += self.journal.run(run).map_or(0, |entry| entry.steps);
        let (key_cells, replication) = (self.key_cells(*point), Cell::count((*replication).into()));
        let mut rows = table(&self.keys, &RUN_COLUMNS);
        let mut summaries = Vec::new();
        let mut known = known.into_iter();
        for (metric, part) in self.parts(run) {
            let nodes = self.journal.run(run).and_then(|entry| entry.nodes(metric));
            self.write_samples(&key_cells, &replication, (metric, part), nodes)?;
            let (mut samples, summary) = match known.next() {
                Some((_, samples)) => (Some(samples), None),
                None if part.count <= sorted::MAX_SAMPLES_IN_MEMORY as u64 => {
                    let mut samples = Vec::new();
                    self.journal.read(part, &mut samples).map_err(io_at(&self.dir))?;
                    (Some(samples), None)
                }
                None => (None, Some(self.summarise(&[part])?)),
            };
            let summary = summary.unwrap_or_else(|| Summary::of(samples.as_deref_mut().unwrap_or_default()));
            let own = [replication.clone(), metric.into(), Cell::count(summary.n), summary.mean.into()];
            rows.push(key_cells.iter().cloned().chain(own));
            self.current.add(summaries.len(), summary.mean, samples);
            summaries.push(summary);
        }
        rows.append_csv(&mut self.runs_csv, false).map_err(io_at(&self.dir))?;
        Ok(summaries)
    }

    /// Writes the samples of a metric of a run, and the means by node if the samples have nodes.
    fn write_samples(
        &mut self,
        key_cells: &[Cell],
        replication: &Cell,
        (metric, part): (&'static str, JournalRange),
        nodes: Option<JournalRange>,
    ) -> Result<(), ResultsError> {
        let kind = nodes.and_then(|_| nodes::kind_of(metric));
        if self.samples.is_none() && kind.is_none() {
            return Ok(());
        }
        let journal = self.dir.join(JOURNAL_FILE);
        let in_journal = io_at(&journal);
        let (mut number, mut values, mut named, metric) = (0, Vec::new(), Vec::new(), Cell::from(metric));
        let mut statistics = NodeStatistics::default();
        let mut node_pieces = nodes.map(|nodes| nodes.pieces(sorted::MAX_SAMPLES_IN_MEMORY as u64));
        for piece in part.pieces(sorted::MAX_SAMPLES_IN_MEMORY as u64) {
            values.clear();
            named.clear();
            self.journal.read(piece, &mut values).map_err(&in_journal)?;
            if let Some(piece) = node_pieces.as_mut().and_then(Iterator::next) {
                self.journal.read_nodes(piece, &mut named).map_err(&in_journal)?;
            }
            statistics.add(&named, &values);
            let Some(samples) = &mut self.samples else { continue };
            for (at, &value) in values.iter().enumerate() {
                let own = [replication.clone(), metric.clone(), Cell::count(number), value.into()];
                let node = |table: &NodeTable| {
                    let node = named.get(at).filter(|_| Some(table.kind) == kind);
                    node.map_or(Cell::MISSING, |node| node.0.into())
                };
                let row = key_cells.iter().cloned().chain(own).chain(self.node_tables.iter().map(node));
                samples.push(row)?;
                number += 1;
            }
        }
        if let Some(nodes) = self.node_tables.iter_mut().find(|table| Some(table.kind) == kind) {
            let mut rows = table(&self.keys, &NodeTable::columns(nodes.kind));
            for cells in statistics.cells(&metric) {
                rows.push(key_cells.iter().chain([replication]).cloned().chain(cells));
            }
            rows.append_csv(nodes.out(), false).map_err(io_at(&self.dir))?;
        }
        Ok(())
    }

    fn summarise(&mut self, parts: &[JournalRange]) -> Result<Summary, ResultsError> {
        let scratch = self.dir.join(SORT_SCRATCH_DIR);
        sorted::summary(&mut self.journal, parts, &scratch).map_err(io_at(&scratch))
    }

    /// Writes the summaries of a point after its `last` run, of which `of_last` has the summaries.
    fn write_point(&mut self, point: usize, last: usize, of_last: Vec<Summary>) -> Result<(), ResultsError> {
        let runs: Vec<usize> =
            (0..=last).rev().take_while(|run| self.plan.runs[*run].point == point).collect();
        let runs: Vec<_> = runs.into_iter().rev().map(|run| self.parts(run)).collect();
        let mut rows = table(&self.keys, &summary_columns());
        let mut current = std::mem::take(&mut self.current);
        for (at, &(metric, _)) in runs[0].iter().enumerate() {
            let MetricInProgress { means, samples } = &mut current.metrics[at];
            let summary = match (runs.len(), samples) {
                (1, _) => of_last[at],
                (_, Some(samples)) => Summary::of_pieces(samples),
                (_, None) => {
                    let parts: Vec<JournalRange> = runs.iter().map(|parts| parts[at].1).collect();
                    self.summarise(&parts)?
                }
            };
            let summary = summary.over_runs(means);
            rows.push(self.key_cells(point).into_iter().chain([metric.into()]).chain(summary.cells()));
            if metric == "undelivered_share" && summary.max > 0.0 {
                self.report.undelivered += 1;
                if self.report.worst.as_ref().is_none_or(|(worst, _)| *worst < summary.max) {
                    self.report.worst = Some((summary.max, self.plan.points[point].to_string()));
                }
            }
        }
        rows.append_csv(&mut self.summary_csv, false).map_err(io_at(&self.dir))?;
        self.summary.append(rows);
        Ok(())
    }

    fn parts(&self, run: usize) -> Vec<(&'static str, JournalRange)> {
        self.journal.run(run).map(|entry| entry.metrics.clone()).unwrap_or_default()
    }

    fn write_manifest(&self) -> Result<(), ResultsError> {
        let path = self.dir.join("manifest.json");
        let text = serde_json::to_string_pretty(&self.manifest()).expect("a manifest is plain data");
        fs::write(&path, text + "\n").map_err(io_at(&path))
    }

    fn manifest(&self) -> Manifest<'_> {
        // Of a finished sweep, those of its results: more runs may have been made than they needed.
        let is_finished = self.written == self.plan.runs.len();
        let steps = if is_finished { self.steps } else { self.journal.steps() };
        let runs_done = if is_finished { self.written - self.left_out } else { self.journal.done() };
        let wall_s = self.journal.wall().as_secs_f64();
        Manifest {
            name: self.file.name(),
            source: self.file.source(),
            scenario_hash: scenario_hash(self.file),
            scenario: self.file.table(),
            files: file_hashes(self.file),
            protocol_settings: self.runs_of_points().next().map(settings).unwrap_or_default(),
            points: self.runs_of_points().map(|run| self.point_settings(run)).collect(),
            version: env!("CARGO_PKG_VERSION"),
            schema_version: carillon_core::SCHEMA_VERSION,
            seed: self.file.seed(),
            runs: self.plan.runs.len(),
            runs_done,
            runs_left_out: self.left_out,
            steps,
            wall_s,
            steps_per_s: if wall_s > 0.0 { steps as f64 / wall_s } else { 0.0 },
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

    fn key_cells(&self, point: usize) -> Vec<Cell> {
        let Point(values) = &self.plan.points[point];
        values.iter().zip(&self.keys).map(|((_, value), (_, kind))| cell_of(value, *kind)).collect()
    }
}

/// A table with the swept keys as its first columns.
fn table(keys: &[(String, ColumnKind)], own: &[(&str, ColumnKind)]) -> Table {
    let own = own.iter().map(|&(name, kind)| (name.to_owned(), kind));
    Table::new(keys.iter().cloned().chain(own)).expect("keys have a dot in their names, metrics none")
}

/// Digest that identifies a sweep, so that results of different sweeps never mix.
fn digest(file: &ScenarioFile, plan: &Plan, contents: Contents) -> [u8; 32] {
    let version = env!("CARGO_PKG_VERSION");
    let schema = carillon_core::SCHEMA_VERSION;
    let mut what = format!("{}\n{version} {schema} {} {}", file.table(), plan.runs.len(), contents.messages);
    contents.metrics.iter().for_each(|metric| what += &format!(" {metric}"));
    file_hashes(file).iter().for_each(|(name, hash)| what += &format!("\n{name} {hash}"));
    *blake3::hash(what.as_bytes()).as_bytes()
}

#[derive(Serialize)]
struct Manifest<'a> {
    name: &'a str,
    source: Option<&'a str>,
    scenario_hash: String,
    scenario: &'a toml::Table,
    /// Hash of each file that the scenario names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, String>,
    /// Every parameter of the protocol at the first point, defaults included.
    protocol_settings: BTreeMap<&'static str, String>,
    /// Settings of each point.
    points: Vec<PointSettings>,
    version: &'static str,
    schema_version: u32,
    seed: u64,
    runs: usize,
    /// Fewer than all, if the sweep was interrupted or runs were left out.
    runs_done: usize,
    /// Runs that the precision of their points made needless (`run.precision`).
    #[serde(skip_serializing_if = "is_zero")]
    runs_left_out: usize,
    steps: u64,
    /// Sum of the real times of all runs in seconds; parallel runs each count in full.
    wall_s: f64,
    steps_per_s: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Settings of a point.
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

/// Type of a column of swept values.
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
