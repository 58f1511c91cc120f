//! Shipped experiments: a table or figure of a source, run and compared with its published numbers, or a
//! study of a question that the source left open.
//!
//! An [`Experiment`] names the scenario, or scenarios, it is made from and what it shows: a table, a
//! figure, or a study. A [`Laboratory`] runs each scenario once, however many experiments are made from it.

mod ack_wait;
mod agents;
mod claims;
mod comparison;
mod figures;
mod files;
mod findings;
mod law;
mod means;
mod paired;
mod published;
mod quotient;
mod recovery;
mod simulation;
mod status_analysis;
mod study;
mod summary;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use crate::plot::Figure;
use crate::results::{Existing, SweepError, Testbed};
use crate::scenario::{ScenarioError, ScenarioFile};
use crate::summary_file::SummaryError;

pub use crate::check::{Check, CheckVerdict, HEADINGS, table as check_table};
pub use crate::sheet::{Heading, Number, Sheet};
pub use ack_wait::{AckWaitSpec, Condition};
pub use comparison::{Bound, ComparedCell, ComparedRow, Comparison, PublishedCell, Verdict};
pub use figures::{Curve, EachBound, FigureSpec};
pub use files::{EXPERIMENTS, Kept, List, Settings, Source, Text, find, matching, read};
pub use findings::StudyPlan;
pub use means::MeansSpec;
pub use paired::PairedSpec;
pub use published::PublishedValues;
pub use quotient::Quotient;
pub use recovery::{Pooled, RecoverySpec};
pub use simulation::{SimulatedPoint, Simulation};
pub use study::{Analysis, Study, StudySpec};

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What it is called on the command line.
    pub id: &'static str,
    /// What it is.
    pub title: &'static str,
    /// What it shows.
    pub shows: Shows,
}

/// What an experiment shows.
#[derive(Clone, Debug)]
pub enum Shows {
    /// A table, made from a scenario of its own.
    Table(TableSpec),
    /// A figure, drawn from the scenarios of tables or from formulas.
    Figure(FigureSpec),
    /// What runs of scenarios of its own say to a question, without published numbers.
    Study(StudySpec),
}

/// A table of a source.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// The scenario file.
    pub plan: Source,
    /// Settings under which the unicast equivalent is run too, to measure what relative
    /// throughput is relative to.
    pub unicast_settings: Option<Settings>,
    /// The published numbers.
    #[serde(default)]
    pub published: Published,
    /// Which columns of the published table say which point a row is of.
    pub keys: List<Key>,
    /// What is shown of each point.
    pub quantities: List<Quantity>,
    /// Independent samples behind a published mean.
    pub published_samples: PublishedSamples,
    /// Relative difference that is accepted even if it is more than three standard errors.
    pub tolerance: f64,
    /// The rows that are known to deviate, if there are any.
    pub expected: Option<ExpectedDeviation>,
    /// The same on a testbed, in a column of its own.
    pub testbed: Option<TestbedSpec>,
    /// What deviates from the source, and why.
    #[serde(default)]
    pub deviations: Text,
}

/// A table's scenario on a testbed: what was measured before, unless it is measured anew.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedSpec {
    /// What is set there in the scenario.
    #[serde(default)]
    pub settings: Settings,
    /// What was measured: the `summary.csv` of a result folder, or what is wanted of it.
    pub measured: Source,
    /// Where and how.
    pub conditions: Text,
}

/// The published numbers that are at hand, as CSV.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Published {
    /// The whole table.
    Table(Source),
    /// Single values that the text of the source quotes.
    Quoted(Source),
    /// None.
    #[default]
    Nothing,
}

/// A column of the published table that is also a key of the scenario.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The column.
    pub column: Text,
    /// How it is headed.
    pub label: Text,
    /// The swept key.
    pub scenario: Text,
    /// The column's value is the key's times this.
    #[serde(default = "files::one")]
    pub scale: f64,
    /// Its axis is logarithmic.
    #[serde(default)]
    pub log: bool,
}

/// A quantity that a table has the mean, least and greatest value of, and perhaps a bound.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Its columns in a published table are `mean_`, `min_` and `max_` before this.
    pub column: Text,
    /// How it is headed, with its unit.
    pub label: Text,
    /// The metric.
    pub metric: Text,
    /// The published value is the metric's times this.
    #[serde(default = "files::one")]
    pub scale: f64,
    /// Digits after the point.
    pub digits: usize,
    /// The published table's column of the theoretical bound, if the table has it.
    pub bound: Option<Text>,
    /// Its axis is logarithmic.
    #[serde(default)]
    pub log: bool,
}

/// Rows of a table that are known to deviate from the published ones.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedDeviation {
    /// Those whose value of this column ...
    pub column: Text,
    /// ... is above this.
    pub above: f64,
    /// Why.
    pub reason: Text,
}

/// How many independent samples a published mean was taken over.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedSamples {
    /// One for each packet.
    Packets(u32),
    /// One for each window of packets, which share their fate.
    Windows {
        /// Packets.
        packets: u32,
        /// The key that says how many make a window.
        key: Text,
    },
}

/// An experiment that could not be run.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// Its file.
    #[error("{0}")]
    File(String),
    /// Its scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Its runs.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// Its results.
    #[error(transparent)]
    Summary(#[from] SummaryError),
}

/// How experiments are to be run.
pub struct Options<'a> {
    /// Threads.
    pub jobs: usize,
    /// The seed, if not the scenario's.
    pub seed: Option<u64>,
    /// Messages of each run, if not the scenario's.
    pub messages: Option<u64>,
    /// Measures what is shown of testbeds anew; otherwise it is what was measured before.
    pub testbed: Option<&'a Testbed<'a>>,
    /// Where the result folders go, which everything is made from.
    pub out: &'a Path,
    /// What is to be done about those that are there.
    pub existing: Existing,
    /// Whether to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told after each run, with the number of all runs of the scenario.
    pub progress: &'a (dyn Fn(usize) + Sync),
}

/// Runs experiments; each scenario once.
pub struct Laboratory<'a> {
    options: Options<'a>,
    simulations: BTreeMap<&'static str, Simulation>,
    /// Of tables, what the testbed gave.
    testbeds: BTreeMap<&'static str, Simulation>,
}

/// What an experiment gave.
#[derive(Debug)]
pub enum Outcome {
    /// A table.
    Table(Comparison),
    /// A figure.
    Figure(Figure),
    /// A study.
    Study(Study),
}

impl Outcome {
    /// Whether every number and claim that is compared lies within its bounds or is known not to.
    pub fn holds(&self) -> bool {
        match self {
            Outcome::Table(comparison) => comparison.holds(),
            Outcome::Study(study) => {
                study.checks.iter().all(|check| check.verdict != CheckVerdict::DoesNotHold)
            }
            Outcome::Figure(_) => true,
        }
    }
}

impl<'a> Laboratory<'a> {
    /// A laboratory in which nothing has been run yet.
    pub fn new(options: Options<'a>) -> Self {
        Laboratory { options, simulations: BTreeMap::new(), testbeds: BTreeMap::new() }
    }

    /// Runs what an experiment needs and has not been run, and makes its table or figure.
    pub fn reproduce(&mut self, experiment: &'static Experiment) -> Result<Outcome, ReproduceError> {
        match &experiment.shows {
            Shows::Table(table) => {
                self.simulate(experiment.id, table)?;
                if let Some(testbed) = &table.testbed {
                    let file = table.plan.scenario()?.with_all(testbed.settings.0)?;
                    let name = format!("{}-testbed", experiment.id);
                    let measured = self.measure(&name, file, &testbed.measured)?;
                    self.testbeds.insert(experiment.id, measured);
                }
                let simulation = &self.simulations[experiment.id];
                let testbed = self.testbeds.get(experiment.id);
                let comparison = Comparison::new(experiment.id, experiment.title, table, simulation, testbed);
                Ok(Outcome::Table(match self.options.testbed {
                    Some(_) => Comparison { testbed: comparison.testbed.map(|_| MEASURED_NOW), ..comparison },
                    None => comparison,
                }))
            }
            Shows::Figure(figure) => {
                for (id, table) in figure.tables() {
                    self.simulate(id, &table)?;
                }
                let simulation = |id: &str| &self.simulations[id];
                Ok(Outcome::Figure(figure.draw(experiment.id, experiment.title, &simulation)))
            }
            Shows::Study(study) => {
                for plan in study.plans.0 {
                    let file = plan.plan.scenario()?.with_all(plan.settings.0)?;
                    match &plan.measured {
                        Some(measured) if !self.simulations.contains_key(plan.id.0) => {
                            let measured = self.measure(plan.id.0, file, measured)?;
                            self.simulations.insert(plan.id.0, measured);
                        }
                        Some(_) => {}
                        None => self.run_once(plan.id.0, file, None, false)?,
                    }
                }
                let plans = study.plans.iter().map(|plan| (plan, &self.simulations[plan.id.0]));
                let plans = findings::Plans(plans.collect());
                Ok(Outcome::Study(study.study(experiment.id, experiment.title, &plans)))
            }
        }
    }

    /// Runs the scenario of a table.
    fn simulate(&mut self, id: &'static str, table: &TableSpec) -> Result<(), ReproduceError> {
        let unicast_settings = table.unicast_settings.map(|settings| settings.0);
        self.run_once(id, table.plan.scenario()?, unicast_settings, true)
    }

    fn run_once(
        &mut self,
        id: &'static str,
        file: ScenarioFile,
        unicast_settings: Option<&[(&str, &str)]>,
        samples: bool,
    ) -> Result<(), ReproduceError> {
        if !self.simulations.contains_key(id) {
            let simulation = Simulation::run(id, file, unicast_settings, samples, None, &self.options)?;
            self.simulations.insert(id, simulation);
        }
        Ok(())
    }

    /// What a testbed gives of a scenario: measured now, if there is one, or before.
    fn measure(&self, id: &str, file: ScenarioFile, measured: &Source) -> Result<Simulation, ReproduceError> {
        match self.options.testbed {
            Some(testbed) => Simulation::run(id, file, None, false, Some(testbed), &self.options),
            None => Simulation::measured(measured, &file),
        }
    }

    /// Steps of everything that was run.
    pub fn steps(&self) -> u64 {
        self.simulations.values().map(|simulation| simulation.steps).sum()
    }
}

/// Said of a testbed's numbers that are none of those that were measured before.
const MEASURED_NOW: &str = "measured now, on this machine";

fn seconds<S: serde::Serializer>(wall: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(wall.as_secs_f64())
}
