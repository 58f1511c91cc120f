//! Page of a result folder: what was run, published numbers, tables, plots, and how to repeat it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use thiserror::Error;
use toml::{Table, Value};

use super::document::{self, Document};
use super::outcome;
use crate::metrics::METRICS;
use crate::plot::{Figure, Folder, PlotError, distinct, escape, svg};
use crate::reproduce::{FolderExperiment, ReproduceError};
use crate::scenario::text_of;
use crate::statistics::significant;
use crate::summary_file::{SummaryError, SummaryFile, SummaryRow};

/// Report on a result folder.
#[derive(Debug)]
pub struct FolderReport {
    manifest: Manifest,
    summary: SummaryFile,
    folder: Folder,
    published: Option<FolderExperiment>,
}

/// A folder that no report can be made of.
#[derive(Debug, Error)]
pub enum ReportError {
    /// Its summary.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// A figure.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The comparison with published numbers.
    #[error(transparent)]
    Published(#[from] ReproduceError),
    /// A folder or manifest that is something else.
    #[error("{path}: {what}")]
    NoResults {
        /// The folder or the manifest.
        path: String,
        /// Description of the error, and what would be valid.
        what: String,
    },
}

/// Parts of the manifest that the report shows.
#[derive(Debug, Deserialize)]
struct Manifest {
    name: String,
    source: Option<String>,
    /// Document of the scenario. A TOML table keeps the order of the swept keys.
    scenario: Table,
    scenario_hash: String,
    version: String,
    schema_version: u64,
    seed: u64,
    runs: u64,
    runs_done: u64,
    #[serde(default)]
    runs_left_out: u64,
    steps: u64,
    wall_s: f64,
    #[serde(default)]
    protocol_settings: BTreeMap<String, String>,
}

impl FolderReport {
    /// Reads a result folder.
    pub fn read(dir: &Path) -> Result<Self, ReportError> {
        let is_of_several = !dir.join("summary.csv").exists() && dir.join("index.html").exists();
        if is_of_several {
            return Err(ReportError::NoResults {
                path: dir.display().to_string(),
                what: "has results of several experiments; the report on them is its index.html. Give the folder of one experiment".to_owned(),
            });
        }
        let summary = SummaryFile::read(dir)?;
        let manifest = Manifest::read(&dir.join("manifest.json"))?;
        let folder = Folder::read(dir)?;
        let is_complete = manifest.runs_done + manifest.runs_left_out == manifest.runs;
        let published = match is_complete {
            true => FolderExperiment::of(dir, &manifest.name, &manifest.scenario)?,
            false => None,
        };
        Ok(FolderReport { manifest, summary, folder, published })
    }

    /// The report as an HTML page.
    pub fn html(&self) -> String {
        let Manifest { name, source, .. } = &self.manifest;
        let title = match source {
            Some(source) => format!("{name} ({source})"),
            None => name.clone(),
        };
        let mut page = Document::new(&title, INTRODUCTION);
        page.section("run", "What was run", "", &self.what_was_run());
        if let Some(published) = &self.published {
            let mut body = String::new();
            outcome::table(&mut body, &published.comparison);
            published.figures.iter().for_each(|figure| body.push_str(&svg(figure)));
            page.section("published", "Comparison with published numbers", "", &body);
        }
        self.results(&mut page);
        page.section("repeat", "How to repeat it", "", &self.how_to_repeat());
        page.html("")
    }

    fn what_was_run(&self) -> String {
        let Manifest { name, source, scenario_hash, version, schema_version, seed, .. } = &self.manifest;
        let Manifest { runs, runs_done, runs_left_out, steps, wall_s, scenario, .. } = &self.manifest;
        let fact = |name: &str, value: String| vec![name.to_owned(), value];
        let mut facts = vec![fact("Scenario", name.clone())];
        facts.extend(source.as_ref().map(|source| fact("Source", source.clone())));
        if let Some(Value::Table(sweep)) = scenario.get("sweep") {
            let axes = sweep.iter().map(|(key, values)| fact(&format!("Swept: {key}"), swept(values)));
            facts.extend(axes);
        }
        facts.push(fact(
            "Runs",
            match (runs_done == runs, runs_done + runs_left_out == *runs) {
                (true, _) => format!("{runs}"),
                (_, true) => {
                    format!("{runs_done} of at most {runs}: the others were not needed (run.precision)")
                }
                _ => format!("{runs_done} of {runs}: the sweep was interrupted, so points are missing"),
            },
        ));
        facts.push(fact("Seed", format!("{seed}")));
        facts.push(fact("Version", format!("carillon {version}, trace schema {schema_version}")));
        facts.push(fact("Scenario hash", format!("{scenario_hash} (BLAKE3)")));
        facts.push(fact("Work", format!("{steps} simulation steps, {wall_s:.2} s summed over the runs")));
        let mut body = String::from("<div class=\"facts\">");
        document::table(&mut body, &["", ""], facts.into_iter(), 1, &[]);
        body.push_str("</div>\n");
        if !self.manifest.protocol_settings.is_empty() {
            body.push_str("<details>\n<summary>Parameters of the protocol at the first point, defaults included</summary>\n");
            let rows = self.manifest.protocol_settings.iter();
            let rows = rows.map(|(name, value)| vec![name.clone(), value.clone()]);
            document::table(&mut body, &["parameter", "value"], rows, 1, &[]);
            body.push_str("</details>\n");
        }
        body
    }

    /// Sections of the metrics: those that vary over the sweep each have a plot and a table, the others share a table.
    fn results(&self, page: &mut Document) {
        let metrics = distinct(self.summary.rows.iter().map(|row| row.numbers.metric.as_str()));
        let (mut varying, mut constant) = (Vec::new(), Vec::new());
        for metric in metrics {
            let rows: Vec<&SummaryRow> =
                self.summary.rows.iter().filter(|row| row.numbers.metric == metric).collect();
            match rows.iter().all(|row| row.numbers.n == 0) {
                true => {}
                false if is_constant(&rows) => constant.push(rows[0]),
                false => varying.push((metric, rows)),
            }
        }
        if !constant.is_empty() {
            let points = distinct(self.summary.rows.iter().map(|row| &row.point)).len();
            let heading = if points > 1 { "Metrics that are the same at every point" } else { "Results" };
            let rows = constant.into_iter().map(|row| {
                let metric = row.numbers.metric.clone();
                [metric].into_iter().chain(numbers(row)).collect()
            });
            let mut body = String::new();
            document::table(
                &mut body,
                &["metric"].into_iter().chain(COLUMNS).collect::<Vec<_>>(),
                rows,
                1,
                &[],
            );
            page.section("results", heading, "", &body);
        }
        for (metric, rows) in varying {
            let mut body = String::new();
            match self.folder.overview(metric) {
                Ok(figures) => figures.iter().for_each(|figure: &Figure| body.push_str(&svg(figure))),
                Err(reason) => document::remarks(&mut body, [reason.to_string()]),
            }
            body.push_str("<details open>\n<summary>Table</summary>\n");
            let keys = self.summary.keys.iter().map(String::as_str);
            let headings: Vec<&str> = keys.chain(COLUMNS).collect();
            let cells = rows.iter().map(|row| row.point.iter().cloned().chain(numbers(row)).collect());
            document::table(&mut body, &headings, cells, self.summary.keys.len(), &[]);
            body.push_str("</details>\n");
            let definition = METRICS.iter().find(|known| known.name == metric);
            page.section(metric, metric, definition.map_or("", |known| known.definition), &body);
        }
    }

    fn how_to_repeat(&self) -> String {
        let Manifest { name, version, scenario, .. } = &self.manifest;
        let mut body = String::new();
        if let Some(FolderExperiment { comparison, .. }) = &self.published {
            let _ = writeln!(
                body,
                "<p>The shipped experiment:</p>\n<pre>carillon reproduce {}</pre>",
                escape(comparison.id)
            );
        }
        let file =
            format!("{}.toml", name.replace(|c: char| !c.is_alphanumeric() && !"-_.".contains(c), "-"));
        let _ = writeln!(
            body,
            "<p>Save the scenario below as <code>{file}</code> and run it with carillon {}. Files that it names must stand \
             beside it. The tables have the same bytes for any number of threads.</p>\n\
             <pre>carillon run {file} --out results\ncarillon report results</pre>\n<pre>{}</pre>",
            escape(version),
            escape(&scenario.to_string()),
            file = escape(&file),
        );
        body
    }
}

impl Manifest {
    fn read(path: &Path) -> Result<Self, ReportError> {
        let wrong = |what: String| ReportError::NoResults { path: path.display().to_string(), what };
        let expected = "a report needs the manifest of a result folder (carillon run FILE --out DIR)";
        let text =
            std::fs::read(path).map_err(|error| wrong(format!("cannot read it: {error}; {expected}")))?;
        serde_json::from_slice(&text).map_err(|error| wrong(format!("{error}; {expected}")))
    }
}

/// Returns true if a metric has one value: at all points, and in all samples of a sweep.
fn is_constant(rows: &[&SummaryRow]) -> bool {
    let first = &rows[0].numbers;
    rows.len() == 1
        || rows.iter().all(|row| {
            let numbers = &row.numbers;
            numbers.n > 0 && [numbers.mean, numbers.min, numbers.max].iter().all(|value| *value == first.mean)
        })
}

/// Cells of a row under [`COLUMNS`].
fn numbers(row: &SummaryRow) -> Vec<String> {
    let own = &row.numbers;
    let runs = row.runs.filter(|runs| runs.n > 0);
    let text = |value: f64| if value.is_nan() { "-".to_owned() } else { significant(value) };
    let mean = runs.map_or(own.mean, |runs| runs.mean);
    let half_width = (own.ci95_high - own.ci95_low) / 2.0;
    let counts = [runs.map_or("-".to_owned(), |runs| runs.n.to_string()), own.n.to_string()];
    let spread = [own.sd, own.min, own.p25, own.p50, own.p75, own.p95, own.max].map(text);
    [text(mean), text(half_width)].into_iter().chain(counts).chain(spread).collect()
}

const COLUMNS: [&str; 11] =
    ["mean", "±", "runs", "samples", "sd", "min", "25 %", "median", "75 %", "95 %", "max"];

/// Swept values as they stand in the scenario.
fn swept(values: &Value) -> String {
    match values {
        Value::Array(values) => values.iter().map(text_of).collect::<Vec<_>>().join(", "),
        Value::Table(range) => {
            let parts = range.iter().map(|(name, value)| format!("{name} {}", text_of(value)));
            parts.collect::<Vec<_>>().join(", ")
        }
        other => text_of(other),
    }
}

const INTRODUCTION: &str = "Means are over the runs; “±” is half the width of their 95 % confidence interval \
(Student's t), which one run does not have. Standard deviation, extremes and percentiles are of all samples. Empty \
metrics are left out.";
