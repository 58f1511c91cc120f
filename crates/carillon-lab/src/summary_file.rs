//! The summary of a result folder, read back: what `compare` and `plot` work on.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Deserialize;
use thiserror::Error;

use crate::statistics::Summary;

/// A summary: one row for each sweep point and metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SummaryFile {
    /// The swept keys.
    pub keys: Vec<String>,
    /// The rows, in the order of the file.
    pub rows: Vec<SummaryRow>,
}

/// A metric at a point.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRow {
    /// The values of the keys, as they stand in the file.
    pub point: Vec<String>,
    /// Statistics of the metric at this point.
    pub numbers: Numbers,
    /// Summary of the means of the runs, which are independent of each other, from the folder's `runs.csv`; `None` if
    /// there is none.
    pub runs: Option<Summary>,
}

/// The columns after the swept keys; NaN where a cell is empty.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Numbers {
    /// The metric.
    pub metric: String,
    /// Samples.
    pub n: u64,
    /// Their mean.
    #[serde(deserialize_with = "or_nan")]
    pub mean: f64,
    /// Their standard deviation.
    #[serde(deserialize_with = "or_nan")]
    pub sd: f64,
    /// The least.
    #[serde(deserialize_with = "or_nan")]
    pub min: f64,
    /// The first quartile.
    #[serde(deserialize_with = "or_nan")]
    pub p25: f64,
    /// The median.
    #[serde(deserialize_with = "or_nan")]
    pub p50: f64,
    /// The third quartile.
    #[serde(deserialize_with = "or_nan")]
    pub p75: f64,
    /// The 95th percentile.
    #[serde(deserialize_with = "or_nan")]
    pub p95: f64,
    /// The greatest.
    #[serde(deserialize_with = "or_nan")]
    pub max: f64,
    /// Lower end of the 95 % confidence interval of the mean, over the runs; NaN of one run.
    #[serde(deserialize_with = "or_nan")]
    pub ci95_low: f64,
    /// The upper end.
    #[serde(deserialize_with = "or_nan")]
    pub ci95_high: f64,
}

/// Why there is no summary.
#[derive(Debug, Error)]
pub enum SummaryError {
    /// A file that cannot be read.
    #[error("cannot read {path}: {error}; a result folder has a summary.csv (carillon run FILE --out DIR)")]
    Read {
        /// Which.
        path: String,
        /// Why.
        error: csv::Error,
    },
    /// A table of runs that cannot be read.
    #[error(
        "cannot read {path}: {error}; the confidence intervals are computed from the means of runs in this file"
    )]
    Runs {
        /// Its path.
        path: String,
        /// The reason.
        error: csv::Error,
    },
    /// A file that is something else.
    #[error("{path}: {what}; expected the summary.csv of a result folder")]
    NoSummary {
        /// Which.
        path: String,
        /// Description of the error.
        what: String,
    },
}

impl Numbers {
    /// A row of this metric.
    pub(crate) fn of(metric: String, summary: Summary) -> Numbers {
        let Summary { n, mean, sd, min, p25, p50, p75, p95, max, ci95_low, ci95_high } = summary;
        Numbers { metric, n, mean, sd, min, p25, p50, p75, p95, max, ci95_low, ci95_high }
    }

    /// Returns the summary as it was before it was written.
    pub fn summary(&self) -> Summary {
        let &Numbers { n, mean, sd, min, p25, p50, p75, p95, max, ci95_low, ci95_high, .. } = self;
        Summary { n, mean, sd, min, p25, p50, p75, p95, max, ci95_low, ci95_high }
    }
}

impl SummaryFile {
    /// Reads the summary of a result folder. Its confidence intervals are computed from the runs in `runs.csv`, for
    /// folders of every release; without that file there are none.
    pub fn read(folder: &Path) -> Result<Self, SummaryError> {
        let path = folder.join("summary.csv");
        let name = path.display().to_string();
        let reader = csv::Reader::from_path(&path)
            .map_err(|error| SummaryError::Read { path: name.clone(), error })?;
        let mut summary = SummaryFile::from_reader(&name, reader)?;
        let runs = folder.join("runs.csv");
        let means = match runs.exists() {
            true => run_means(&runs)
                .map_err(|error| SummaryError::Runs { path: runs.display().to_string(), error })?,
            false => return Ok(summary.without_intervals()),
        };
        let mut of_rows = BTreeMap::<_, Vec<f64>>::new();
        for run in means {
            of_rows.entry((run.point, run.metric)).or_default().push(run.mean);
        }
        for SummaryRow { point, numbers, runs } in &mut summary.rows {
            let key = (point.clone(), numbers.metric.clone());
            let of_runs = Summary::of(&mut of_rows.remove(&key).unwrap_or_default());
            (numbers.ci95_low, numbers.ci95_high) = (of_runs.ci95_low, of_runs.ci95_high);
            *runs = Some(of_runs);
        }
        Ok(summary)
    }

    /// Returns the summary without confidence intervals, for an unknown number of runs.
    fn without_intervals(mut self) -> Self {
        for SummaryRow { numbers, .. } in &mut self.rows {
            (numbers.ci95_low, numbers.ci95_high) = (f64::NAN, f64::NAN);
        }
        self
    }

    /// Reads a summary that is known by this name.
    pub fn parse(name: &str, text: &str) -> Result<Self, SummaryError> {
        SummaryFile::from_reader(name, csv::Reader::from_reader(text.as_bytes()))
    }

    fn from_reader(name: &str, mut reader: csv::Reader<impl io::Read>) -> Result<Self, SummaryError> {
        let read = |error| SummaryError::Read { path: name.to_owned(), error };
        let wrong = |what: String| SummaryError::NoSummary { path: name.to_owned(), what };
        let headers = reader.headers().map_err(read)?.clone();
        let metric = headers.iter().position(|header| header == "metric");
        let metric = metric.ok_or_else(|| wrong("has no column `metric`".to_owned()))?;
        let mut summary =
            SummaryFile { keys: headers.iter().take(metric).map(str::to_owned).collect(), rows: Vec::new() };
        for record in reader.records() {
            let record = record.map_err(read)?;
            let numbers = record.deserialize(Some(&headers)).map_err(|error| {
                let line = record.position().map_or(0, csv::Position::line);
                wrong(format!("line {line}: {}", reason(&error)))
            })?;
            let point = record.iter().take(metric).map(str::to_owned).collect();
            summary.rows.push(SummaryRow { point, numbers, runs: None });
        }
        Ok(summary)
    }
}

/// A row of `runs.csv`: what one run has of a metric.
pub(crate) struct RunMean {
    pub point: Vec<String>,
    pub metric: String,
    pub mean: f64,
}

/// The means of runs that a result folder has, in the order of the plan.
pub(crate) fn run_means(path: &Path) -> Result<Vec<RunMean>, csv::Error> {
    let mut reader = csv::Reader::from_path(path)?;
    // After the swept keys: replication, metric, n, mean.
    let keys = reader.headers()?.len().saturating_sub(4);
    let mean = |record: csv::StringRecord| {
        let text = |at: usize| record.get(at).unwrap_or_default();
        RunMean {
            point: record.iter().take(keys).map(str::to_owned).collect(),
            metric: text(keys + 1).to_owned(),
            mean: text(keys + 3).parse().unwrap_or(f64::NAN),
        }
    };
    reader.records().map(|record| record.map(mean)).collect()
}

/// Message of the CSV reader without its position, which the caller adds.
fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
        _ => error.to_string(),
    }
}

fn or_nan<'de, D: serde::Deserializer<'de>>(cell: D) -> Result<f64, D::Error> {
    let text = String::deserialize(cell)?;
    match text.as_str() {
        "" => Ok(f64::NAN),
        text => text.parse().map_err(|_| serde::de::Error::custom(format!("`{text}` is no number"))),
    }
}
