//! A scenario that was run, reduced to what tables and figures are made of.

use std::time::{Duration, Instant};

use carillon_core::Kind;
use toml::Value;

use super::{Options, ReproduceError};
use crate::metrics::Terms;
use crate::plan::Plan;
use crate::results::Results;
use crate::run::{RunResult, run_plan};
use crate::scenario::{Point, Scenario, ScenarioFile, text_of};
use crate::statistics::Summary;

/// What is written of the results of a simulation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Folder {
    /// Everything.
    Whole,
    /// All but the samples, of which a study has tens of millions.
    Summary,
}

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
    metrics: Vec<(&'static str, Summary)>,
    replications: Vec<(&'static str, Summary)>,
    bounds: Option<Bounds>,
    /// The terms of the formulas, for a protocol that has them.
    pub terms: Option<Terms>,
    /// Size of a data frame.
    pub message_bytes: u32,
}

/// The theoretical bounds of a point, for full windows (section 4.1).
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Least message latency, in seconds (equations 4.18 and 4.19).
    pub latency: f64,
    /// Greatest relative throughput (equations 4.5 and 4.13).
    pub relative_throughput: f64,
    /// Greatest absolute throughput, in bit/s.
    pub throughput: f64,
}

impl Bounds {
    /// The bounds of a window of n messages.
    pub fn new(terms: &Terms, window: f64) -> Self {
        let latency = terms.latency_bound(window);
        let useful_bits = terms.receivers * window * terms.data * terms.rate.bps() as f64;
        Bounds {
            latency,
            relative_throughput: terms.unicast_time(window) / latency,
            throughput: useful_bits / latency,
        }
    }

    fn of(scenario: &Scenario) -> Option<Self> {
        let has_window = |parameter: &carillon_core::Parameter| {
            parameter.name == "window" && matches!(parameter.kind, Kind::Count { .. })
        };
        let window = match scenario.protocol.parameters.iter().any(has_window) {
            true => scenario.config.count("window") as f64,
            false => 1.0,
        };
        Terms::of(scenario).map(|terms| Bounds::new(&terms, window))
    }

    /// The bound of a metric, in its unit.
    pub fn of_metric(&self, metric: &str) -> Option<f64> {
        match metric {
            "message_latency_s" => Some(self.latency),
            "relative_throughput" => Some(self.relative_throughput),
            "throughput_bps" => Some(self.throughput),
            _ => None,
        }
    }
}

impl Simulation {
    /// Runs a scenario.
    pub(super) fn run(
        id: &str,
        mut file: ScenarioFile,
        unicast_settings: Option<&[(&str, &str)]>,
        folder: Folder,
        options: &Options<'_>,
    ) -> Result<Self, ReproduceError> {
        let begin = Instant::now();
        if let Some(seed) = options.seed {
            file = file.with("run.seed", &seed.to_string())?;
        }
        if let Some(messages) = options.messages {
            file = file.with("workload.messages", &messages.to_string())?;
        }
        let plan = Plan::new(&file)?;
        let runs = run_plan(&plan, options.jobs, &|| (options.progress)(plan.runs.len()))?;
        let results = Results::new(&file, &plan, &runs, begin.elapsed());
        if let Some(dir) = options.out {
            match folder {
                Folder::Whole => results.write(&dir.join(id))?,
                Folder::Summary => results.write_summary(&dir.join(id))?,
            }
        }
        let mut points = Vec::with_capacity(plan.points.len());
        for ((point, metrics), runs) in results.points().zip(runs.chunk_by(|a, b| a.point == b.point)) {
            let scenario = file.resolve(point)?;
            points.push(SimulatedPoint {
                point: point.clone(),
                metrics: metrics.to_vec(),
                replications: of_replications(runs),
                bounds: Bounds::of(&scenario),
                terms: Terms::of(&scenario),
                message_bytes: scenario.workload.message_bytes,
            });
        }
        let unicast_deviation =
            unicast_settings.map(|settings| unicast_deviation(&file, settings, options.jobs)).transpose()?;
        let steps = runs.iter().map(|run| run.steps).sum();
        Ok(Simulation { points, unicast_deviation, steps, wall: begin.elapsed() })
    }
}

impl SimulatedPoint {
    /// The summary of a metric.
    pub fn summary(&self, metric: &str) -> Option<&Summary> {
        self.metrics.iter().find(|(name, _)| *name == metric).map(|(_, summary)| summary)
    }

    /// The summary of the means that the replications have of a metric. Unlike samples of one run, which
    /// may share their fate, these are independent.
    pub fn replications(&self, metric: &str) -> Option<&Summary> {
        self.replications.iter().find(|(name, _)| *name == metric).map(|(_, summary)| summary)
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
        match value {
            Value::Integer(n) => Some(*n as f64),
            Value::Float(x) => Some(*x),
            Value::String(quantity) => quantity.split_whitespace().next()?.parse().ok(),
            _ => None,
        }
    }
}

/// For each metric a summary of the means of these runs.
fn of_replications(runs: &[RunResult]) -> Vec<(&'static str, Summary)> {
    let Some(first) = runs.first() else { return Vec::new() };
    let metrics = first.samples.iter().enumerate().map(|(at, &(metric, _))| {
        let mean = |run: &RunResult| Summary::of(&mut run.samples[at].1.clone()).mean;
        (metric, Summary::of(&mut runs.iter().map(mean).collect::<Vec<f64>>()))
    });
    metrics.collect()
}

/// Runs the unicast equivalent of each point as a protocol; returns the largest relative
/// difference between the time it takes and the formula's r n d + r a.
fn unicast_deviation(
    file: &ScenarioFile,
    settings: &[(&str, &str)],
    jobs: usize,
) -> Result<f64, ReproduceError> {
    let mut unicast = file.clone();
    for (key, value) in settings {
        unicast = unicast.with(key, value)?;
    }
    let (multicast, plan) = (Plan::new(file)?, Plan::new(&unicast)?);
    let runs = run_plan(&plan, jobs, &|| {})?;
    let mut worst: f64 = 0.0;
    for (run, multicast) in runs.iter().zip(&multicast.runs) {
        let Some(terms) = Terms::of(&multicast.scenario) else { continue };
        for message in &run.messages {
            let measured = (message.end - message.start).as_secs_f64();
            let formula = terms.unicast_time(message.window.into());
            worst = worst.max((measured / formula - 1.0).abs());
        }
    }
    Ok(worst)
}
