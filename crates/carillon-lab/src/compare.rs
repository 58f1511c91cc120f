//! Two result folders side by side, cell by cell.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;
use thiserror::Error;

use crate::statistics::significant;
use crate::summary_file::{Numbers, SummaryError, SummaryFile, SummaryRow};

/// A comparison of two summaries.
#[derive(Clone, Debug, Serialize)]
pub struct SummaryComparison {
    /// The swept keys.
    pub keys: Vec<String>,
    /// A row for each point and metric of either.
    pub rows: Vec<Row>,
}

/// A metric at a point.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The values of the keys.
    pub point: Vec<String>,
    /// The metric.
    pub metric: String,
    /// Value in the first folder, if any.
    pub a: Option<Cell>,
    /// Value in the second folder, if any.
    pub b: Option<Cell>,
    /// Difference between the two values.
    pub difference: Difference,
}

/// A mean and its 95 % confidence interval over the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Number of samples.
    pub n: u64,
    /// Number of runs that have samples; `None` if the folder has no `runs.csv`.
    pub runs: Option<u64>,
    /// Mean of the means of the runs, or of the samples where the runs are unknown; NaN without samples.
    pub mean: f64,
    /// The lower end of the interval; NaN with less than two runs.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Difference between two cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// Their means are equal.
    Equal,
    /// Their intervals overlap: it may be chance.
    WithinIntervals,
    /// Their intervals are apart.
    Apart,
    /// No verdict: a folder has a single run at this point, and a single run has no confidence interval.
    OneRun,
    /// There is no interval to tell: a folder has no `runs.csv`, or its runs have infinite means.
    Unknown,
    /// No verdict: one folder has no value at this point.
    Missing,
}

/// Error of a comparison of two folders.
#[derive(Debug, Error)]
pub enum CompareError {
    /// Failure to read one of the two folders.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// Different sweeps.
    #[error("the folders have different swept keys: {a} and {b}")]
    Keys {
        /// Swept keys of the first folder.
        a: String,
        /// Swept keys of the second folder.
        b: String,
    },
}

/// The cells of a summary by point and metric, in the order of the file.
struct Summary {
    keys: Vec<String>,
    order: Vec<(Vec<String>, String)>,
    cells: BTreeMap<(Vec<String>, String), Cell>,
}

impl SummaryComparison {
    /// Reads and compares the summaries of two result folders.
    pub fn of(a: &Path, b: &Path) -> Result<Self, CompareError> {
        let (a, mut b) = (Summary::read(a)?, Summary::read(b)?);
        if a.keys != b.keys {
            return Err(CompareError::Keys { a: a.keys.join(", "), b: b.keys.join(", ") });
        }
        let mut rows: Vec<Row> = Vec::new();
        for of in &a.order {
            let (point, metric) = of.clone();
            rows.push(Row::new(point, metric, a.cells.get(of).copied(), b.cells.remove(of)));
        }
        for of in b.order {
            if let Some(cell) = b.cells.remove(&of) {
                rows.push(Row::new(of.0, of.1, None, Some(cell)));
            }
        }
        // A metric without samples in both folders is left out.
        let has = |cell: &Option<Cell>| cell.is_some_and(|cell| cell.n > 0);
        rows.retain(|row| has(&row.a) || has(&row.b));
        Ok(SummaryComparison { keys: a.keys, rows })
    }

    /// Remarks for the reader: why there are no intervals, if so, and what gives some.
    pub fn remarks(&self) -> Vec<String> {
        let count = |difference| self.rows.iter().filter(|row| row.difference == difference).count();
        let (one_run, unknown) = (count(Difference::OneRun), count(Difference::Unknown));
        let mut remarks = Vec::new();
        if one_run > 0 {
            remarks.push(format!(
                "{one_run} of {} rows have one run on a side, and one run has no interval: run.replications = 5 or more gives some",
                self.rows.len()
            ));
        }
        if unknown > 0 {
            remarks.push(format!(
                "{unknown} of {} rows have no interval: a folder has no runs.csv with the mean of each run",
                self.rows.len()
            ));
        }
        remarks
    }
}

impl Summary {
    fn read(folder: &Path) -> Result<Self, SummaryError> {
        let SummaryFile { keys, rows } = SummaryFile::read(folder)?;
        let mut summary = Summary { keys, order: Vec::new(), cells: BTreeMap::new() };
        for SummaryRow { point, numbers, runs } in rows {
            let Numbers { metric, n, mean, ci95_low: low, ci95_high: high, .. } = numbers;
            let runs = runs.filter(|runs| runs.n > 0);
            let mean = runs.map_or(mean, |runs| runs.mean);
            summary.order.push((point.clone(), metric.clone()));
            summary.cells.insert((point, metric), Cell { n, runs: runs.map(|runs| runs.n), mean, low, high });
        }
        Ok(summary)
    }
}

impl Row {
    fn new(point: Vec<String>, metric: String, a: Option<Cell>, b: Option<Cell>) -> Self {
        let difference = Difference::of(a, b);
        Row { point, metric, a, b, difference }
    }

    /// Its texts: the point, the metric, both means with half their intervals, the relative
    /// difference, and how they differ.
    fn texts(&self) -> Vec<String> {
        let cell = |cell: Option<Cell>| match cell.filter(|cell| cell.n > 0) {
            None => "-".to_owned(),
            Some(Cell { mean, high, .. }) if high.is_nan() => significant(mean),
            Some(Cell { mean, high, .. }) => format!("{} ±{}", significant(mean), significant(high - mean)),
        };
        let relative = match (self.a, self.b) {
            (Some(a), Some(b)) if a.mean != 0.0 && a.n > 0 && b.n > 0 => {
                format!("{:+.1} %", (b.mean / a.mean - 1.0) * 100.0)
            }
            _ => String::new(),
        };
        let difference = match self.difference {
            Difference::Equal => "equal",
            Difference::WithinIntervals => "within the intervals",
            Difference::Apart => "apart",
            Difference::OneRun => "one run: no interval",
            Difference::Unknown => "no interval",
            Difference::Missing => "in one only",
        };
        let mut texts = self.point.clone();
        texts.extend([self.metric.clone(), cell(self.a), cell(self.b), relative, difference.to_owned()]);
        texts
    }
}

impl Difference {
    fn of(a: Option<Cell>, b: Option<Cell>) -> Self {
        let (Some(a), Some(b)) = (a.filter(|a| a.n > 0), b.filter(|b| b.n > 0)) else {
            return Difference::Missing;
        };
        if a.mean == b.mean {
            Difference::Equal
        } else if [a.runs, b.runs].contains(&Some(1)) {
            Difference::OneRun
        } else if [a.low, a.high, b.low, b.high].iter().any(|end| end.is_nan()) {
            Difference::Unknown
        } else if a.low <= b.high && b.low <= a.high {
            Difference::WithinIntervals
        } else {
            Difference::Apart
        }
    }
}

/// The comparison as text, for a terminal or a paper.
impl fmt::Display for SummaryComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = vec![self.keys.clone()];
        table[0].extend(["metric", "a", "b", "b / a - 1", ""].map(str::to_owned));
        table.extend(self.rows.iter().map(Row::texts));
        let columns = table[0].len();
        let width = |at: usize| table.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &table {
            let mut line = String::new();
            for (at, text) in row.iter().enumerate() {
                let width = widths[at];
                // Names to the left, numbers to the right.
                let left = at <= self.keys.len() || at + 1 == columns;
                line += &if left { format!("{text:width$}  ") } else { format!("{text:>width$}  ") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result folder; `runs` has the rows of `runs.csv`.
    fn folder_with_runs(text: &str, runs: &str) -> tempfile::TempDir {
        let folder = folder(text);
        let text = format!("loss.p,replication,metric,n,mean\n{runs}");
        std::fs::write(folder.path().join("runs.csv"), text).unwrap();
        folder
    }

    fn folder(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("summary.csv"), text).unwrap();
        folder
    }

    const HEAD: &str = "loss.p,metric,n,mean,sd,min,p25,p50,p75,p95,max,ci95_low,ci95_high\n";

    #[test]
    fn cells_are_compared_by_point_and_metric() {
        // Earlier releases wrote intervals over samples, which are too narrow (first two rows). The intervals over
        // the runs count.
        let a = folder_with_runs(
            &format!(
                "{HEAD}0.1,latency,10,2,,,,,,,,1.9,2.1\n0.1,share,1,0.5,,,,,,,,,\n0.2,latency,10,2,,,,,,,,1.99,2.01\n"
            ),
            "0.1,0,latency,5,1.99\n0.1,1,latency,5,2.01\n0.1,0,share,1,0.5\n0.2,0,latency,5,1.9\n0.2,1,latency,5,2.1\n",
        );
        let b = folder_with_runs(
            &format!(
                "{HEAD}0.1,latency,10,3,,,,,,,,2.9,3.1\n0.2,latency,10,2.1,,,,,,,,2.09,2.11\n0.2,empty,0,,,,,,,,,,\n0.2,new,1,7,,,,,,,,,\n"
            ),
            "0.1,0,latency,5,2.99\n0.1,1,latency,5,3.01\n0.2,0,latency,5,2\n0.2,1,latency,5,2.2\n0.2,0,new,1,7\n",
        );
        let comparison = SummaryComparison::of(a.path(), b.path()).unwrap();
        let differences: Vec<_> = comparison.rows.iter().map(|row| row.difference).collect();
        assert_eq!(
            differences,
            [Difference::Apart, Difference::Missing, Difference::WithinIntervals, Difference::Missing]
        );
        let text = comparison.to_string();
        assert_eq!(
            text.lines().nth(1).unwrap(),
            "0.1     latency  2.000 ±0.1271  3.000 ±0.1271    +50.0 %  apart"
        );
        assert_eq!(text.lines().count(), 5);
    }

    #[test]
    fn one_run_has_no_interval_and_the_comparison_says_so() {
        let text = |mean: f64| format!("{HEAD}0.1,latency,900,{mean},,,,,,,,1.99,2.01\n");
        let one = folder_with_runs(&text(2.0), "0.1,0,latency,900,2\n");
        let two = folder_with_runs(&text(3.0), "0.1,0,latency,450,2.9\n0.1,1,latency,450,3.1\n");
        let without = folder(&text(4.0));
        let of =
            |a: &tempfile::TempDir, b: &tempfile::TempDir| SummaryComparison::of(a.path(), b.path()).unwrap();
        let comparison = of(&one, &two);
        assert_eq!(comparison.rows[0].difference, Difference::OneRun);
        assert!(comparison.to_string().ends_with("+50.0 %  one run: no interval\n"), "{comparison}");
        assert!(comparison.remarks()[0].contains("run.replications"), "{:?}", comparison.remarks());
        let comparison = of(&two, &without);
        assert_eq!(comparison.rows[0].difference, Difference::Unknown);
        assert!(comparison.remarks()[0].contains("no runs.csv"), "{:?}", comparison.remarks());
        assert!(of(&two, &two).remarks().is_empty());
    }

    #[test]
    fn other_folder_is_refused() {
        let a = folder(&format!("{HEAD}0.1,x,1,1,,,,,,,,,\n"));
        let other = folder(&HEAD.replace("loss.p", "group.receivers"));
        let error = |b: &Path| SummaryComparison::of(a.path(), b).unwrap_err().to_string();
        assert!(error(other.path()).contains("different swept keys: loss.p and group.receivers"));
        assert!(error(folder("a,b\n").path()).contains("has no column `metric`"));
        assert!(error(Path::new("/nowhere")).contains("/nowhere/summary.csv"));
        assert!(
            error(folder(&format!("{HEAD}0.1,x,1,one,,,,,,,,,\n")).path()).contains("`one` is no number")
        );
    }
}
