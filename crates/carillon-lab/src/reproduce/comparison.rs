//! Simulated and published numbers side by side.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use toml::Value;

use super::{Cell, Experiment, PublishedSamples};
use crate::results::Results;
use crate::scenario::Point;
use crate::statistics::Summary;

/// A table of simulated and published numbers.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The experiment.
    pub id: &'static str,
    /// What it is.
    pub title: &'static str,
    /// How the columns that name a row are headed.
    pub keys: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<ComparedRow>,
    /// What deviates from the source.
    pub deviations: &'static str,
    /// Accepted relative difference.
    pub tolerance: f64,
    /// Largest relative difference between the unicast equivalent run as a protocol and its
    /// formula.
    pub unicast_deviation: Option<f64>,
    /// Steps of all simulations.
    pub steps: u64,
    /// Time it took.
    #[serde(rename = "wall_s", serialize_with = "seconds")]
    pub wall: Duration,
}

/// A row of the table: one point.
#[derive(Debug, Serialize)]
pub struct ComparedRow {
    /// What names it.
    pub keys: Vec<String>,
    /// Its numbers.
    pub cells: Vec<ComparedCell>,
}

/// A number beside its published value.
#[derive(Debug, Serialize)]
pub struct ComparedCell {
    /// What it is, with its unit.
    pub label: &'static str,
    /// The simulated mean.
    pub value: f64,
    /// The published mean.
    pub published: f64,
    /// Relative difference.
    pub difference: f64,
    /// Standard error of the published mean, from the simulated deviation and the number of
    /// independent samples behind it.
    pub standard_error: f64,
    /// Whether the difference lies within three standard errors: a matter of chance.
    pub within_sampling_error: bool,
    /// Whether it lies within three standard errors or the accepted relative difference.
    pub within_bounds: bool,
    #[serde(skip)]
    digits: usize,
}

impl Comparison {
    pub(super) fn new(experiment: &Experiment, results: &Results<'_>) -> Self {
        let mut published = csv::Reader::from_reader(experiment.published.as_bytes());
        let headers = published.headers().expect("a shipped table has a header").clone();
        let at = |name: &str| headers.iter().position(|column| column == name).expect("a shipped column");
        let mut rows = Vec::new();
        for record in published.records() {
            let record = record.expect("a shipped table is well formed");
            let number = |column: &str| record[at(column)].parse::<f64>().ok();
            let is_this = |point: &Point| {
                experiment.keys.iter().all(|key| {
                    let value = key_number(point, key.scenario).map(|value| value * key.scale);
                    matches!((value, number(key.column)), (Some(a), Some(b)) if (a - b).abs() < 1e-6)
                })
            };
            let Some((point, metrics)) = results.points().find(|(point, _)| is_this(point)) else { continue };
            let samples = experiment.published_samples.count(point);
            let cells = experiment.cells.iter().filter_map(|cell| {
                let (_, summary) = metrics.iter().find(|(metric, _)| *metric == cell.metric)?;
                Some(compare(cell, summary, number(cell.column)?, samples, experiment.tolerance))
            });
            let keys = experiment.keys.iter().map(|key| record[at(key.column)].to_owned()).collect();
            rows.push(ComparedRow { keys, cells: cells.collect() });
        }
        Comparison {
            id: experiment.id,
            title: experiment.title,
            keys: experiment.keys.iter().map(|key| key.label).collect(),
            rows,
            deviations: experiment.deviations,
            tolerance: experiment.tolerance,
            unicast_deviation: None,
            steps: 0,
            wall: Duration::ZERO,
        }
    }

    /// All numbers.
    pub fn cells(&self) -> impl Iterator<Item = &ComparedCell> {
        self.rows.iter().flat_map(|row| &row.cells)
    }

    /// Whether every number lies within its bounds.
    pub fn holds(&self) -> bool {
        self.cells().all(|cell| cell.within_bounds)
    }
}

fn compare(cell: &Cell, summary: &Summary, published: f64, samples: f64, tolerance: f64) -> ComparedCell {
    let value = summary.mean * cell.scale;
    let standard_error = summary.sd * cell.scale / samples.sqrt();
    let gap = (value - published).abs();
    let within_sampling_error = gap <= 3.0 * standard_error;
    ComparedCell {
        label: cell.label,
        value,
        published,
        difference: value / published - 1.0,
        standard_error,
        within_sampling_error,
        within_bounds: within_sampling_error || gap <= tolerance * published.abs(),
        digits: cell.digits,
    }
}

impl PublishedSamples {
    fn count(self, point: &Point) -> f64 {
        match self {
            PublishedSamples::Packets(packets) => packets.into(),
            PublishedSamples::Windows { packets, key } => {
                f64::from(packets) / key_number(point, key).unwrap_or(1.0)
            }
        }
    }
}

fn key_number(point: &Point, key: &str) -> Option<f64> {
    let (_, value) = point.0.iter().find(|(name, _)| name == key)?;
    match value {
        Value::Integer(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

fn seconds<S: serde::Serializer>(wall: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(wall.as_secs_f64())
}

/// The table as text, for a terminal or a paper.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.id, self.title)?;
        writeln!(f)?;
        let widths: Vec<usize> = (0..self.keys.len())
            .map(|i| self.rows.iter().map(|row| row.keys[i].len()).max().unwrap_or(0).max(self.keys[i].len()))
            .collect();
        for (key, width) in self.keys.iter().zip(&widths) {
            write!(f, "{:width$}  ", "")?;
            debug_assert!(key.len() <= *width);
        }
        for cell in self.rows.first().map_or(&[][..], |row| &row.cells) {
            write!(f, "| {:<CELL_WIDTH$} ", cell.label)?;
        }
        writeln!(f)?;
        for (key, width) in self.keys.iter().zip(&widths) {
            write!(f, "{key:>width$}  ")?;
        }
        for _ in self.rows.first().map_or(&[][..], |row| &row.cells) {
            write!(f, "| {:>10} {:>10} {:>7}  {:<8} ", "simulated", "published", "diff", "within")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            for (key, width) in row.keys.iter().zip(&widths) {
                write!(f, "{key:>width$}  ")?;
            }
            for cell in &row.cells {
                write!(f, "{cell}")?;
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        let all = self.cells().count();
        let chance = self.cells().filter(|cell| cell.within_sampling_error).count();
        let bounds = self.cells().filter(|cell| cell.within_bounds).count();
        writeln!(
            f,
            "{chance} of {all} numbers lie within the sampling error (3 standard errors, \"3 s.e.\") of the published run, {bounds} within that or {} % (\"{} %\").",
            self.tolerance * 100.0,
            self.tolerance * 100.0
        )?;
        if let Some(deviation) = self.unicast_deviation {
            writeln!(
                f,
                "The unicast equivalent, run as a protocol at every point, took r n d + r a to within {:.1e}.",
                deviation
            )?;
        }
        if !self.deviations.is_empty() {
            writeln!(f, "{}", self.deviations)?;
        }
        writeln!(
            f,
            "{} simulation steps in {:.2} s ({:.1} million a second).",
            self.steps,
            self.wall.as_secs_f64(),
            self.steps as f64 / self.wall.as_secs_f64() / 1e6
        )
    }
}

impl fmt::Display for ComparedCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let within = match (self.within_sampling_error, self.within_bounds) {
            (true, _) => "3 s.e.",
            (false, true) => "%",
            (false, false) => "NO",
        };
        let digits = self.digits;
        // A published zero has no relative difference.
        let difference = if self.published == 0.0 {
            String::from("-")
        } else {
            format!("{:+.1}%", self.difference * 100.0)
        };
        write!(f, "| {:>10.digits$} {:>10.digits$} {difference:>7}  {within:<8} ", self.value, self.published)
    }
}

/// Four columns and the spaces between them.
const CELL_WIDTH: usize = 10 + 1 + 10 + 1 + 7 + 2 + 8;
