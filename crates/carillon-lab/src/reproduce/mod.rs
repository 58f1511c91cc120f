//! Shipped experiments: a table or figure of a source, run and compared with its published numbers.

mod comparison;
mod registry;

use std::time::Instant;

use carillon_core::ConfigError;
use thiserror::Error;

use crate::metrics::Terms;
use crate::plan::Plan;
use crate::results::{Results, ResultsError};
use crate::run::{RunError, run_plan};
use crate::scenario::{ScenarioError, ScenarioFile};

pub use comparison::{ComparedCell, ComparedRow, Comparison};
pub use registry::{EXPERIMENTS, find};

/// A shipped experiment.
#[derive(Debug)]
pub struct Experiment {
    /// What it is called on the command line.
    pub id: &'static str,
    /// What it is.
    pub title: &'static str,
    /// The scenario file.
    pub plan: &'static str,
    /// The published numbers, as CSV.
    pub published: &'static str,
    /// Which columns of the published table say which point a row is of.
    pub keys: &'static [Key],
    /// What is compared.
    pub cells: &'static [Cell],
    /// Independent samples behind a published mean.
    pub published_samples: PublishedSamples,
    /// Relative difference that is accepted even if it is more than three standard errors.
    pub tolerance: f64,
    /// Settings under which the unicast equivalent is run too, to measure what relative
    /// throughput is relative to.
    pub unicast_settings: Option<&'static [(&'static str, &'static str)]>,
    /// What deviates from the source, and why.
    pub deviations: &'static str,
}

/// A column of the published table that is also a key of the scenario.
#[derive(Debug)]
pub struct Key {
    /// The column.
    pub column: &'static str,
    /// How it is headed.
    pub label: &'static str,
    /// The swept key.
    pub scenario: &'static str,
    /// The column's value is the key's times this.
    pub scale: f64,
}

/// A published number.
#[derive(Debug)]
pub struct Cell {
    /// The column.
    pub column: &'static str,
    /// How it is headed, with its unit.
    pub label: &'static str,
    /// The metric whose mean it is.
    pub metric: &'static str,
    /// The published value is the metric's times this.
    pub scale: f64,
    /// Digits after the point.
    pub digits: usize,
}

/// How many independent samples a published mean was taken over.
#[derive(Clone, Copy, Debug)]
pub enum PublishedSamples {
    /// One for each packet.
    Packets(u32),
    /// One for each window of packets, which share their fate.
    Windows {
        /// Packets.
        packets: u32,
        /// The key that says how many make a window.
        key: &'static str,
    },
}

/// An experiment that could not be run.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// Its scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its results.
    #[error(transparent)]
    Results(#[from] ResultsError),
}

impl From<ConfigError> for ReproduceError {
    fn from(error: ConfigError) -> Self {
        RunError::from(error).into()
    }
}

/// How an experiment is to be run.
pub struct Options<'a> {
    /// Threads.
    pub jobs: usize,
    /// The seed, if not the scenario's.
    pub seed: Option<u64>,
    /// Where the result folder goes, if anywhere.
    pub out: Option<&'a std::path::Path>,
    /// Told after each run, with the number of all runs.
    pub progress: &'a (dyn Fn(usize) + Sync),
}

/// Runs an experiment and compares.
pub fn reproduce(experiment: &Experiment, options: &Options<'_>) -> Result<Comparison, ReproduceError> {
    let begin = Instant::now();
    let mut file = ScenarioFile::parse(experiment.id, experiment.plan)?;
    if let Some(seed) = options.seed {
        file = file.with("run.seed", &seed.to_string())?;
    }
    let plan = Plan::new(&file)?;
    let runs = run_plan(&plan, options.jobs, &|| (options.progress)(plan.runs.len()))?;
    let results = Results::new(&file, &plan, &runs, begin.elapsed());
    if let Some(dir) = options.out {
        results.write(&dir.join(experiment.id))?;
    }
    let mut comparison = Comparison::new(experiment, &results);
    if let Some(settings) = experiment.unicast_settings {
        comparison.unicast_deviation = Some(unicast_deviation(&file, settings, options.jobs)?);
    }
    comparison.wall = begin.elapsed();
    comparison.steps = runs.iter().map(|run| run.steps).sum();
    Ok(comparison)
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
