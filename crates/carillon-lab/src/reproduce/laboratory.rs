//! Runs what experiments need, and makes of it what they show.

use std::collections::BTreeMap;

use super::comparison::Comparison;
use super::error::ReproduceError;
use super::experiment::{Experiment, ExperimentKind};
use super::findings::Plans;
use super::kept::Source;
use super::options::Options;
use super::simulation::Simulation;
use super::study::Study;
use super::table::TableSpec;
use crate::check::CheckVerdict;
use crate::plot::Figure;
use crate::results::{SharedRuns, SweepError};
use crate::scenario::ScenarioFile;

/// Runs experiments; each scenario once.
pub struct Laboratory<'a> {
    options: Options<'a>,
    /// Runs that several scenarios have.
    shared: Option<SharedRuns>,
    simulations: BTreeMap<&'static str, Simulation>,
    /// Testbed results, by table.
    testbeds: BTreeMap<&'static str, Simulation>,
}

/// Result of an experiment.
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
    /// Returns true if every compared number and claim lies within its bounds or is a known deviation.
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
        Laboratory { options, shared: None, simulations: BTreeMap::new(), testbeds: BTreeMap::new() }
    }

    /// Names the experiments to be reproduced. A run that several of their scenarios have is then made once. The
    /// results are the same.
    pub fn expect(&mut self, experiments: &[&'static Experiment]) -> Result<(), ReproduceError> {
        let mut files: BTreeMap<String, ScenarioFile> = BTreeMap::new();
        for experiment in experiments {
            for (id, file) in scenarios(experiment)? {
                files.insert(id, Simulation::with_options(file, &self.options)?);
            }
        }
        self.shared = None;
        if files.len() > 1 {
            std::fs::create_dir_all(self.options.out).map_err(|error| {
                ReproduceError::File(format!("cannot make {}: {error}", self.options.out.display()))
            })?;
            let shared = SharedRuns::of(files.values(), self.options.out).map_err(SweepError::from)?;
            self.shared = Some(shared);
        }
        Ok(())
    }

    /// Runs what an experiment needs and has not been run, and makes its table or figure.
    pub fn reproduce(&mut self, experiment: &'static Experiment) -> Result<Outcome, ReproduceError> {
        match &experiment.shows {
            ExperimentKind::Table(table) => {
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
            ExperimentKind::Figure(figure) => {
                for (id, table) in figure.tables() {
                    self.simulate(id, &table)?;
                }
                let simulation = |id: &str| &self.simulations[id];
                Ok(Outcome::Figure(figure.draw(experiment.id, experiment.title, &simulation)))
            }
            ExperimentKind::Study(study) => {
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
                let plans = Plans(plans.collect());
                Ok(Outcome::Study(study.study(experiment.id, experiment.title, &plans)))
            }
        }
    }

    /// Runs the scenario of a table.
    fn simulate(&mut self, id: &'static str, table: &TableSpec) -> Result<(), ReproduceError> {
        let unicast_settings = table.unicast_settings.map(|settings| settings.0);
        self.run_once(id, table.plan.scenario()?, unicast_settings, self.options.samples)
    }

    fn run_once(
        &mut self,
        id: &'static str,
        file: ScenarioFile,
        unicast_settings: Option<&[(&str, &str)]>,
        samples: bool,
    ) -> Result<(), ReproduceError> {
        if !self.simulations.contains_key(id) {
            let shared = self.shared.as_ref();
            let simulation =
                Simulation::run(id, file, unicast_settings, samples, (None, shared), &self.options)?;
            self.simulations.insert(id, simulation);
        }
        Ok(())
    }

    /// Returns the testbed results of a scenario: measured now if a testbed is given, otherwise the stored ones.
    fn measure(&self, id: &str, file: ScenarioFile, measured: &Source) -> Result<Simulation, ReproduceError> {
        match self.options.testbed {
            Some(testbed) => Simulation::run(id, file, None, false, (Some(testbed), None), &self.options),
            None => Simulation::measured(measured, &file),
        }
    }

    /// Steps of everything that was run.
    pub fn steps(&self) -> u64 {
        self.simulations.values().map(|simulation| simulation.steps).sum()
    }
}

/// The scenarios that an experiment simulates, with the names of their result folders.
fn scenarios(experiment: &'static Experiment) -> Result<Vec<(String, ScenarioFile)>, ReproduceError> {
    let mut scenarios = Vec::new();
    let mut add_table = |id: &str, table: &TableSpec| -> Result<(), ReproduceError> {
        let file = table.plan.scenario()?;
        if let Some(settings) = table.unicast_settings {
            scenarios.push((format!("{id}-unicast"), file.clone().with_all(settings.0)?));
        }
        scenarios.push((id.to_owned(), file));
        Ok(())
    };
    match &experiment.shows {
        ExperimentKind::Table(table) => add_table(experiment.id, table)?,
        ExperimentKind::Figure(figure) => {
            figure.tables().iter().try_for_each(|(id, table)| add_table(id, table))?;
        }
        ExperimentKind::Study(study) => {
            for plan in study.plans.iter().filter(|plan| plan.measured.is_none()) {
                scenarios.push((plan.id.to_string(), plan.plan.scenario()?.with_all(plan.settings.0)?));
            }
        }
    }
    Ok(scenarios)
}

/// Origin given for testbed numbers that were measured in this run.
const MEASURED_NOW: &str = "measured now, on this machine";
