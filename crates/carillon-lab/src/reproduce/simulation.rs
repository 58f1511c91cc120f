//! A scenario that was run, as its result folder has it: what tables and figures are made of.

use std::path::Path;
use std::time::Duration;

use super::error::ReproduceError;
use super::kept::Source;
use crate::metrics::{Bounds, Terms};
use crate::scenario::{Point, Scenario, ScenarioFile, number_of, text_of};
use crate::statistics::Summary;
use crate::summary_file::{RunMean, SummaryFile, SummaryRow, run_means};
use serde::Deserialize;

/// A scenario that was run.
#[derive(Debug)]
pub struct Simulation {
    /// Its sweep points in order.
    pub points: Vec<SimulatedPoint>,
    /// Largest relative difference between the unicast equivalent run as a protocol and its
    /// formula.
    pub unicast_deviation: Option<f64>,
    /// Steps of all runs.
    pub steps: u64,
    /// Time it took.
    pub wall: Duration,
}

/// A sweep point that was run.
#[derive(Debug)]
pub struct SimulatedPoint {
    point: Point,
    metrics: Vec<Measures>,
    bounds: Option<Bounds>,
    /// Scenario that was run.
    pub scenario: Scenario,
    /// The terms of the formulas, for a protocol that has them.
    pub terms: Option<Terms>,
    /// Size of a data frame.
    pub message_bytes: u32,
    messages: u64,
}

/// A metric at a point.
#[derive(Debug)]
struct Measures {
    metric: String,
    samples: Summary,
    /// The means that its runs have, in the order of replications: NaN where one has no sample.
    means: Vec<f64>,
    runs: Summary,
}

impl Simulation {
    /// Reads the result folder of a scenario.
    pub fn read(dir: &Path, file: &ScenarioFile) -> Result<Self, ReproduceError> {
        let wrong = |what: &str| ReproduceError::File(format!("{}: {what}", dir.display()));
        let summary = SummaryFile::read(dir)?;
        let runs = run_means(&dir.join("runs.csv")).map_err(|error| wrong(&error.to_string()))?;
        let manifest = std::fs::read(dir.join("manifest.json")).map_err(|error| wrong(&error.to_string()))?;
        let Manifest { steps, wall_s } =
            serde_json::from_slice(&manifest).map_err(|error| wrong(&error.to_string()))?;
        let rows: Vec<&[SummaryRow]> = summary.rows.chunk_by(|a, b| a.point == b.point).collect();
        let runs: Vec<&[RunMean]> = runs.chunk_by(|a, b| a.point == b.point).collect();
        let points = file.points();
        if rows.len() != points.len() || runs.len() != points.len() {
            return Err(wrong(
                "has not the points of the scenario; an interrupted sweep goes on with --resume",
            ));
        }
        let point = |((point, rows), runs): ((Point, &&[SummaryRow]), &&[RunMean])| {
            let of_metric = |row: &SummaryRow| {
                let of = runs.iter().filter(|run| run.metric == row.numbers.metric);
                let means: Vec<f64> = of.map(|run| run.mean).collect();
                let runs = Summary::of(&mut means.clone());
                Measures { metric: row.numbers.metric.clone(), samples: row.numbers.summary(), means, runs }
            };
            SimulatedPoint::new(file, point, rows.iter().map(of_metric).collect())
        };
        let points = points.into_iter().zip(&rows).zip(&runs).map(point);
        Ok(Simulation {
            points: points.collect::<Result<_, ReproduceError>>()?,
            unicast_deviation: None,
            steps,
            wall: Duration::from_secs_f64(wall_s),
        })
    }

    /// Reads stored results of a scenario: the `summary.csv` of a result folder, or the needed part of it.
    ///
    /// Its rows carry the keys swept when it was measured. A row belongs to the point of this scenario with the same
    /// values, whether this scenario sweeps them or not. A point without a row has no metrics. At least one point
    /// must have a row.
    pub fn measured(measured: &Source, file: &ScenarioFile) -> Result<Self, ReproduceError> {
        let wrong = |what: String| ReproduceError::File(format!("{}: {what}", measured.path));
        let summary = SummaryFile::parse(&measured.path, &measured.text)?;
        let points = file.points().into_iter().map(|point| {
            let value = |key: &String| {
                let swept = point.0.iter().find(|(name, _)| name == key).map(|(_, value)| text_of(value));
                swept
                    .or_else(|| file.text(key))
                    .ok_or_else(|| wrong(format!("{} says nothing of {key}", file.origin())))
            };
            let values: Vec<String> = summary.keys.iter().map(value).collect::<Result<_, _>>()?;
            let of_row = |row: &SummaryRow| {
                let summary = row.numbers.summary();
                Measures {
                    metric: row.numbers.metric.clone(),
                    samples: summary,
                    means: Vec::new(),
                    runs: summary,
                }
            };
            let rows = summary.rows.iter().filter(|row| row.point == values).map(of_row);
            SimulatedPoint::new(file, point, rows.collect())
        });
        let points = points.collect::<Result<Vec<_>, ReproduceError>>()?;
        if points.iter().all(|point| point.metrics.is_empty()) {
            return Err(wrong(format!("has no row for any point of {}", file.origin())));
        }
        Ok(Simulation { points, unicast_deviation: None, steps: 0, wall: Duration::ZERO })
    }

    /// The greatest relative difference between what the unicast equivalent took at each of these points and the
    /// formula's r n d + r a; the least time is that of the last window, if it is not full.
    pub(super) fn unicast_deviation(&self, unicast: &Simulation) -> f64 {
        let of_point = |(multicast, unicast): (&SimulatedPoint, &SimulatedPoint)| {
            let (terms, bounds) = multicast.terms.zip(multicast.bounds)?;
            let latency = unicast.summary("message_latency_s")?;
            let rest = match multicast.messages as f64 % bounds.window {
                0.0 => bounds.window,
                rest => rest,
            };
            let off = |measured: f64, window: f64| (measured / terms.unicast_time(window) - 1.0).abs();
            Some(off(latency.min, rest).max(off(latency.max, bounds.window)))
        };
        self.points.iter().zip(&unicast.points).filter_map(of_point).fold(0.0, f64::max)
    }
}

/// Part of a manifest that is read back.
#[derive(Deserialize)]
struct Manifest {
    steps: u64,
    wall_s: f64,
}

impl SimulatedPoint {
    fn new(file: &ScenarioFile, point: Point, metrics: Vec<Measures>) -> Result<Self, ReproduceError> {
        let scenario = file.resolve(&point)?;
        Ok(SimulatedPoint {
            point,
            metrics,
            bounds: Bounds::of(&scenario),
            terms: Terms::of(&scenario),
            message_bytes: scenario.workload.message_bytes,
            messages: scenario.workload.messages,
            scenario,
        })
    }

    /// The summary of a metric.
    pub fn summary(&self, metric: &str) -> Option<&Summary> {
        self.measures(metric).map(|found| &found.samples)
    }

    /// The summary of the means that the replications have of a metric. Unlike samples of one run, which
    /// may share their fate, these are independent.
    pub fn replications(&self, metric: &str) -> Option<&Summary> {
        self.measures(metric).map(|found| &found.runs)
    }

    /// The means that the replications have of a metric, in their order: NaN where one has no sample.
    pub fn runs(&self, metric: &str) -> Option<&[f64]> {
        self.measures(metric).map(|found| &found.means[..])
    }

    fn measures(&self, metric: &str) -> Option<&Measures> {
        self.metrics.iter().find(|found| found.metric == metric)
    }

    /// The theoretical bound of a metric, in its unit.
    pub fn bound(&self, metric: &str) -> Option<f64> {
        self.bounds?.of_metric(metric)
    }

    /// The value of a swept key as it would be typed.
    pub fn text(&self, key: &str) -> Option<String> {
        let (_, value) = self.point.0.iter().find(|(name, _)| name == key)?;
        Some(text_of(value))
    }

    /// The value of a swept key; of a quantity, the number before its unit.
    pub fn number(&self, key: &str) -> Option<f64> {
        let (_, value) = self.point.0.iter().find(|(name, _)| name == key)?;
        number_of(value).or_else(|| value.as_str()?.split_whitespace().next()?.parse().ok())
    }
}

/// The time that something took, as it stands in reports.
pub(super) fn seconds<S: serde::Serializer>(wall: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(wall.as_secs_f64())
}
