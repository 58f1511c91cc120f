//! Simulated and published numbers side by side.

use std::time::Duration;

use serde::Serialize;

use super::published::{Published, PublishedTable};
use super::quantities::Quantity;
use super::simulation::{SimulatedPoint, Simulation, seconds};
use super::table::{PublishedSamples, TableSpec};

/// A table of simulated numbers, beside published ones where they are at hand.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The experiment.
    pub id: &'static str,
    /// Title.
    pub title: &'static str,
    /// Which published numbers are at hand.
    pub published: &'static str,
    /// Place and conditions of the testbed run, if there is one.
    pub testbed: Option<&'static str>,
    /// Headings of the columns that name a row.
    pub keys: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<ComparedRow>,
    /// Deviations from the source.
    pub deviations: &'static str,
    /// Why the cells marked as expected deviations deviate.
    pub expected_deviation: Option<&'static str>,
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
    /// Values of the keys that name the row.
    pub keys: Vec<String>,
    /// Its numbers.
    pub cells: Vec<ComparedCell>,
}

/// A quantity at a point.
#[derive(Debug, Serialize)]
pub struct ComparedCell {
    /// Name of the quantity, with its unit.
    pub label: &'static str,
    /// The simulated mean.
    pub value: f64,
    /// The least simulated value.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The theoretical bound.
    pub bound: Option<Bound>,
    /// The mean on a testbed.
    pub testbed: Option<f64>,
    /// The published mean and how far it is.
    pub published: Option<PublishedCell>,
    #[serde(skip)]
    digits: usize,
}

/// A theoretical bound.
#[derive(Debug, Serialize)]
pub struct Bound {
    /// Name in the source.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Value printed in the source, if at hand.
    pub published: Option<f64>,
    /// True if the two agree to the printed digits.
    pub agrees: bool,
}

/// A published mean beside a simulated one.
#[derive(Debug, Serialize)]
pub struct PublishedCell {
    /// The published mean.
    pub value: f64,
    /// The least published value.
    pub min: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
    /// Relative difference of the simulated mean; none from a published zero.
    pub difference: Option<f64>,
    /// Standard error of the published mean, from the simulated deviation and the number of
    /// independent samples behind it.
    pub standard_error: f64,
    /// Assessment of the difference.
    pub verdict: Verdict,
}

/// Assessment of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within three standard errors: a matter of chance.
    SamplingError,
    /// Within the accepted relative difference.
    Tolerance,
    /// Outside both, and known to be: the reason stands with the table.
    ExpectedDeviation,
    /// Outside both.
    Outside,
}

impl Comparison {
    pub(super) fn new(
        id: &'static str,
        title: &'static str,
        table: &TableSpec,
        simulation: &Simulation,
        testbed: Option<&Simulation>,
    ) -> Self {
        let published = PublishedTable::read(table.published);
        let row = |(at, point): (usize, &SimulatedPoint)| {
            row(table, &published, point, testbed.and_then(|testbed| testbed.points.get(at)))
        };
        let rows = simulation.points.iter().enumerate().map(row).collect();
        Comparison {
            id,
            title,
            published: match table.published {
                Published::Table(_) => "The published table is at hand.",
                Published::Quoted(_) => {
                    "The published table is not at hand; the values its text quotes stand beside."
                }
                Published::Nothing => "No published numbers are at hand for this table.",
            },
            testbed: testbed.and(table.testbed).map(|testbed| testbed.conditions.0),
            keys: table.keys.iter().map(|key| key.label.0).collect(),
            rows,
            deviations: table.deviations.0,
            expected_deviation: table.expected.map(|expected| expected.reason.0),
            tolerance: table.tolerance,
            unicast_deviation: simulation.unicast_deviation,
            steps: simulation.steps,
            wall: simulation.wall,
        }
    }

    /// Returns all quantities of all rows.
    pub fn cells(&self) -> impl Iterator<Item = &ComparedCell> {
        self.rows.iter().flat_map(|row| &row.cells)
    }

    /// Returns the cells that have a published value.
    pub fn published_cells(&self) -> impl Iterator<Item = &PublishedCell> {
        self.cells().filter_map(|cell| cell.published.as_ref())
    }

    /// Number of published values with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.published_cells().filter(|cell| cell.verdict == verdict).count()
    }

    /// Returns true if every number lies within its bounds or is a known deviation.
    pub fn holds(&self) -> bool {
        let mut bounds = self.cells().filter_map(|cell| cell.bound.as_ref());
        self.count(Verdict::Outside) == 0 && bounds.all(|bound| bound.agrees)
    }

    /// Remarks on the comparison as a whole, one sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let all = self.published_cells().count();
        if all > 0 {
            let chance = self.count(Verdict::SamplingError);
            let bounds = chance + self.count(Verdict::Tolerance);
            remarks.push(format!(
                "{chance} of {all} published means lie within the sampling error (3 standard errors, \"3 s.e.\"), {bounds} within that or {} % (\"{} %\").",
                self.tolerance * 100.0,
                self.tolerance * 100.0
            ));
        }
        let expected = self.count(Verdict::ExpectedDeviation);
        if let (Some(reason), true) = (self.expected_deviation, expected > 0) {
            remarks.push(format!("{expected} deviate and are known to (\"NO, known\"): {reason}"));
        }
        let bounds = || self.cells().filter_map(|cell| cell.bound.as_ref()).filter(|b| b.published.is_some());
        if bounds().count() > 0 {
            let agree = bounds().filter(|bound| bound.agrees).count();
            remarks.push(format!(
                "{agree} of {} published bounds agree to the printed digits with the formulas.",
                bounds().count()
            ));
        }
        if let Some(deviation) = self.unicast_deviation {
            remarks.push(format!(
                "The unicast equivalent, run as a protocol at every point, took r n d + r a to within {deviation:.1e}."
            ));
        }
        if !self.deviations.is_empty() {
            remarks.push(self.deviations.to_owned());
        }
        remarks.extend(self.testbed.map(|conditions| format!("\"testbed\": {conditions}.")));
        remarks
    }
}

fn row(
    table: &TableSpec,
    published: &PublishedTable,
    point: &SimulatedPoint,
    testbed: Option<&SimulatedPoint>,
) -> ComparedRow {
    let numbers: Vec<f64> = table
        .keys
        .iter()
        .map(|key| point.number(key.scenario.0).map_or(f64::NAN, |value| value * key.scale))
        .collect();
    let record = published.record(table.keys.iter().map(|key| key.column.0).zip(numbers.iter().copied()));
    let samples = table.published_samples.count(point);
    let deviates = table.expected.is_some_and(|expected| expected.covers(&table.keys, &numbers));
    let cells = table.quantities.iter().map(|quantity| {
        let testbed =
            testbed.and_then(|point| point.summary(quantity.metric.0)).filter(|summary| summary.n > 0);
        let testbed = testbed.map(|summary| summary.mean * quantity.scale);
        let empty = ComparedCell {
            label: quantity.label.0,
            value: f64::NAN,
            min: f64::NAN,
            max: f64::NAN,
            bound: None,
            testbed,
            published: None,
            digits: quantity.digits,
        };
        // What no run has stays empty.
        let Some(summary) = point.summary(quantity.metric.0).filter(|summary| summary.n > 0) else {
            return empty;
        };
        let (mean, sd) = (summary.mean * quantity.scale, summary.sd * quantity.scale);
        let number = |column: &str| published.number(record?, column);
        let printed = |prefix: &str| number(&format!("{prefix}_{}", quantity.column));
        let published = printed("mean").map(|value| {
            let (min, max) = (printed("min"), printed("max"));
            // No run scatters more than half its range: rare long recoveries here do not widen the
            // band of a published run that had none.
            let half_range = min.zip(max).map_or(f64::INFINITY, |(min, max)| (max - min) / 2.0);
            let standard_error = sd.min(half_range) / samples.sqrt();
            let gap = (mean - value).abs();
            let verdict = if gap <= 3.0 * standard_error {
                Verdict::SamplingError
            } else if gap <= table.tolerance * value.abs() {
                Verdict::Tolerance
            } else if deviates {
                Verdict::ExpectedDeviation
            } else {
                Verdict::Outside
            };
            let difference = (value != 0.0).then(|| mean / value - 1.0);
            PublishedCell { value, min, max, difference, standard_error, verdict }
        });
        let bound = quantity.bound.and_then(|column| {
            let value = point.bound(quantity.metric.0)? * quantity.scale;
            let published = number(column.0);
            let half_a_digit = 0.5001 * 0.1_f64.powi(quantity.digits as i32);
            let agrees = published.is_none_or(|printed| (printed - value).abs() <= half_a_digit);
            Some(Bound { name: bound_name(quantity), value, published, agrees })
        });
        let (min, max) = (summary.min * quantity.scale, summary.max * quantity.scale);
        ComparedCell { value: mean, min, max, bound, published, ..empty }
    });
    let cells = cells.collect();
    ComparedRow {
        keys: numbers.iter().map(|number| format!("{}", (number * 1e9).round() / 1e9)).collect(),
        cells,
    }
}

fn bound_name(quantity: &Quantity) -> &'static str {
    match quantity.metric.0 {
        "message_latency_s" => "LBL",
        "relative_throughput" => "UBRT",
        _ => "UBAT",
    }
}

impl PublishedSamples {
    pub(super) fn count(self, point: &SimulatedPoint) -> f64 {
        match self {
            PublishedSamples::Packets(packets) => packets.into(),
            PublishedSamples::Windows { packets, key } => {
                f64::from(packets) / point.number(key.0).unwrap_or(1.0)
            }
        }
    }
}

impl Verdict {
    /// A word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::SamplingError => "3 s.e.",
            Verdict::Tolerance => "%",
            Verdict::ExpectedDeviation => "NO, known",
            Verdict::Outside => "NO",
        }
    }
}

impl Comparison {
    /// Headings of the columns of the quantity at this index of a row.
    pub fn headings(&self, quantity: usize) -> Vec<&'static str> {
        let of_rows = || self.rows.iter().map(|row| &row.cells[quantity]);
        let mut headings = vec!["mean"];
        if of_rows().any(|cell| cell.published.is_some()) {
            headings.extend(["published", "diff", "within"]);
        }
        headings.extend(["min", "max"]);
        headings.extend(of_rows().any(|cell| cell.testbed.is_some()).then_some("testbed"));
        headings.extend(of_rows().find_map(|cell| cell.bound.as_ref()).map(|bound| bound.name));
        headings
    }
}

impl ComparedCell {
    /// The text under one of [`Comparison::headings`].
    pub fn text(&self, heading: &str) -> String {
        let digits = self.digits;
        let published = self.published.as_ref();
        match (heading, published) {
            ("testbed", _) => self.testbed.map_or("-".into(), |mean| format!("{mean:.digits$}")),
            ("mean" | "min" | "max", _) if self.value.is_nan() => "-".into(),
            ("mean", _) => format!("{:.digits$}", self.value),
            ("min", _) => format!("{:.digits$}", self.min),
            ("max", _) => format!("{:.digits$}", self.max),
            ("published", Some(published)) => format!("{:.digits$}", published.value),
            ("diff", Some(PublishedCell { difference: Some(difference), .. })) => {
                format!("{:+.1}%", difference * 100.0)
            }
            ("diff", Some(_)) => "-".into(),
            ("within", Some(published)) => published.verdict.word().into(),
            ("published" | "diff" | "within", None) => String::new(),
            _ => self.bound.as_ref().map_or(String::new(), |bound| format!("{:.digits$}", bound.value)),
        }
    }
}
