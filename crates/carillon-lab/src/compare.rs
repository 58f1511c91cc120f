//! Two result folders side by side, cell by cell.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;
use thiserror::Error;

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
    /// What the first folder has.
    pub a: Option<Cell>,
    /// What the second has.
    pub b: Option<Cell>,
}

/// A mean and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Samples.
    pub n: u64,
    /// Their mean; NaN without samples.
    pub mean: f64,
    /// The lower end of the interval; NaN with less than two samples.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// How two cells differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// Their means are equal.
    Equal,
    /// Their intervals overlap: it may be chance.
    WithinIntervals,
    /// Their intervals are apart.
    Apart,
    /// There are no intervals to tell.
    Unknown,
    /// One of the folders does not have it.
    Missing,
}

/// Why two folders cannot be compared.
#[derive(Debug, Error)]
pub enum CompareError {
    /// One of them.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// Different sweeps.
    #[error("the folders have different swept keys: {a} and {b}")]
    Keys {
        /// Those of the first.
        a: String,
        /// Those of the second.
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
            rows.push(Row { point, metric, a: a.cells.get(of).copied(), b: b.cells.remove(of) });
        }
        for of in b.order {
            if let Some(cell) = b.cells.remove(&of) {
                rows.push(Row { point: of.0, metric: of.1, a: None, b: Some(cell) });
            }
        }
        // What neither has samples of says nothing.
        let has = |cell: &Option<Cell>| cell.is_some_and(|cell| cell.n > 0);
        rows.retain(|row| has(&row.a) || has(&row.b));
        Ok(SummaryComparison { keys: a.keys, rows })
    }
}

impl Summary {
    fn read(folder: &Path) -> Result<Self, SummaryError> {
        let SummaryFile { keys, rows } = SummaryFile::read(folder)?;
        let mut summary = Summary { keys, order: Vec::new(), cells: BTreeMap::new() };
        for SummaryRow { point, numbers } in rows {
            let Numbers { metric, n, mean, ci95_low: low, ci95_high: high, .. } = numbers;
            summary.order.push((point.clone(), metric.clone()));
            summary.cells.insert((point, metric), Cell { n, mean, low, high });
        }
        Ok(summary)
    }
}

impl Row {
    /// How its cells differ.
    pub fn difference(&self) -> Difference {
        let (Some(a), Some(b)) = (self.a.filter(|a| a.n > 0), self.b.filter(|b| b.n > 0)) else {
            return Difference::Missing;
        };
        if a.mean == b.mean {
            Difference::Equal
        } else if [a.low, a.high, b.low, b.high].iter().any(|end| end.is_nan()) {
            Difference::Unknown
        } else if a.low <= b.high && b.low <= a.high {
            Difference::WithinIntervals
        } else {
            Difference::Apart
        }
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
        let difference = match self.difference() {
            Difference::Equal => "equal",
            Difference::WithinIntervals => "within the intervals",
            Difference::Apart => "apart",
            Difference::Unknown => "",
            Difference::Missing => "in one only",
        };
        let mut texts = self.point.clone();
        texts.extend([self.metric.clone(), cell(self.a), cell(self.b), relative, difference.to_owned()]);
        texts
    }
}

/// A number with four significant digits.
fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    if (-4.0..7.0).contains(&magnitude) {
        let digits = (3.0 - magnitude).max(0.0) as usize;
        format!("{value:.digits$}")
    } else {
        format!("{value:.3e}")
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

    fn folder(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("summary.csv"), text).unwrap();
        folder
    }

    const HEAD: &str = "loss.p,metric,n,mean,sd,min,p25,p50,p75,p95,max,ci95_low,ci95_high\n";

    #[test]
    fn cells_are_compared_by_point_and_metric() {
        let a = folder(&format!(
            "{HEAD}0.1,latency,10,2,,,,,,,,1.9,2.1\n0.1,share,1,0.5,,,,,,,,,\n0.2,latency,10,2,,,,,,,,1.9,2.1\n"
        ));
        let b = folder(&format!(
            "{HEAD}0.1,latency,10,3,,,,,,,,2.9,3.1\n0.2,latency,10,2.1,,,,,,,,2,2.2\n0.2,empty,0,,,,,,,,,,\n0.2,new,1,7,,,,,,,,,\n"
        ));
        let comparison = SummaryComparison::of(a.path(), b.path()).unwrap();
        let differences: Vec<_> = comparison.rows.iter().map(Row::difference).collect();
        assert_eq!(
            differences,
            [Difference::Apart, Difference::Missing, Difference::WithinIntervals, Difference::Missing]
        );
        let text = comparison.to_string();
        assert_eq!(
            text.lines().nth(1).unwrap(),
            "0.1     latency  2.000 ±0.1000  3.000 ±0.1000    +50.0 %  apart"
        );
        assert_eq!(text.lines().count(), 5);
    }

    #[test]
    fn what_is_no_result_folder_is_refused() {
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
