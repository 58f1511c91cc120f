//! Runs what experiments need, and makes of it what they show.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::comparison::Comparison;
use super::error::ReproduceError;
use super::experiment::{Experiment, ExperimentKind};
use super::findings::Plans;
use super::kept::Source;
use super::options::Options;
use super::simulation::Simulation;
use super::simulations::Simulations;
use super::study::Study;
use super::task::Task;
use crate::check::CheckVerdict;
use crate::plot::Figure;
use crate::results::{Contents, SharedRuns, SweepError, SweepOptions, Testbed};
use crate::run::{Permits, Rank, Threads};
use crate::scenario::ScenarioFile;

/// Runs experiments; each scenario once.
pub struct Laboratory<'a> {
    options: Options<'a>,
    permits: Permits,
    /// Runs that several scenarios have.
    shared: Option<SharedRuns>,
    simulations: Simulations,
    /// Runs that are needed, as far as is known: with a precision some turn out not to be.
    runs: AtomicUsize,
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
        let permits = Permits::new(options.jobs);
        Laboratory {
            options,
            permits,
            shared: None,
            simulations: Simulations::default(),
            runs: AtomicUsize::new(0),
        }
    }

    /// Runs what an experiment needs and has not been run, and makes its table or figure.
    pub fn reproduce(&mut self, experiment: &'static Experiment) -> Result<Outcome, ReproduceError> {
        let mut outcomes = Vec::new();
        self.reproduce_each::<ReproduceError>(&[experiment], &mut |_, outcome| {
            outcomes.push(outcome);
            Ok(())
        })?;
        Ok(outcomes.remove(0))
    }

    /// Reproduces several experiments, and passes on the outcome of each in order. A run that several of their
    /// scenarios have is made once. The results are the same.
    ///
    /// A second thread runs scenarios from the end of the list, with the processors that the first one leaves idle.
    pub fn reproduce_each<E: From<ReproduceError>>(
        &mut self,
        experiments: &[&'static Experiment],
        take: &mut dyn FnMut(&'static Experiment, Outcome) -> Result<(), E>,
    ) -> Result<(), E> {
        let tasks = self.prepare(experiments)?;
        let (laboratory, is_over) = (&*self, AtomicBool::new(false));
        std::thread::scope(|scope| {
            // Ends the second thread on a panic too.
            let _end = SetAtEnd(&is_over);
            // Measurements on a testbed are not disturbed.
            if laboratory.options.testbed.is_none() && laboratory.options.jobs > 1 {
                let stop = || is_over.load(Ordering::Relaxed) || (laboratory.options.stop)();
                let ahead = move || {
                    let run = |task: &Task| laboratory.run(task, Rank::Second, &stop);
                    let mut tasks = tasks.iter().rev();
                    // An error ends it, and is reported in its turn.
                    tasks.all(|task| laboratory.simulations.run_ahead(&task.id, || run(task)));
                };
                // Without a second thread the first one does everything.
                let _ = std::thread::Builder::new().spawn_scoped(scope, ahead);
            }
            let mut each = |&experiment| take(experiment, laboratory.outcome(experiment)?);
            experiments.iter().try_for_each(&mut each)
        })
    }

    /// Lists the scenarios of these experiments, each once, and finds the runs that several of them have.
    fn prepare(&mut self, experiments: &[&'static Experiment]) -> Result<Vec<Task>, ReproduceError> {
        let mut tasks: Vec<Task> = Vec::new();
        for experiment in experiments {
            for task in Task::all_of(experiment)? {
                if !tasks.iter().any(|known| known.id == task.id) {
                    tasks.push(task);
                }
            }
        }
        let mut files = Vec::new();
        for task in tasks.iter().filter(|task| !self.simulations.contains(&task.id)) {
            let own = task.files(&self.options)?;
            *self.runs.get_mut() += runs(&own);
            files.extend(own);
        }
        self.shared = None;
        if files.len() > 1 {
            std::fs::create_dir_all(self.options.out).map_err(|error| {
                ReproduceError::File(format!("cannot make {}: {error}", self.options.out.display()))
            })?;
            self.shared = Some(SharedRuns::of(&files, self.options.out).map_err(SweepError::from)?);
        }
        Ok(tasks)
    }

    fn outcome(&self, experiment: &'static Experiment) -> Result<Outcome, ReproduceError> {
        let (id, title) = (experiment.id, experiment.title);
        match &experiment.shows {
            ExperimentKind::Table(table) => {
                let simulation = self.simulation(&Task::of_table(id, table)?)?;
                let testbed = table.testbed.as_ref().map(|testbed| {
                    let file = table.plan.scenario()?.with_all(testbed.settings.0)?;
                    self.measured(&format!("{id}-testbed"), file, &testbed.measured)
                });
                let testbed = testbed.transpose()?;
                let comparison = Comparison::new(id, title, table, &simulation, testbed.as_deref());
                Ok(Outcome::Table(match self.options.testbed {
                    Some(_) => Comparison { testbed: comparison.testbed.map(|_| MEASURED_NOW), ..comparison },
                    None => comparison,
                }))
            }
            ExperimentKind::Figure(figure) => {
                let tasks = Task::all_of(experiment)?;
                let simulations = tasks.iter().map(|task| Ok((&*task.id, self.simulation(task)?)));
                let simulations: BTreeMap<&str, Arc<Simulation>> =
                    simulations.collect::<Result<_, ReproduceError>>()?;
                Ok(Outcome::Figure(figure.draw(id, title, &|id: &str| &*simulations[id])))
            }
            ExperimentKind::Study(study) => {
                let simulations = study.plans.iter().map(|plan| {
                    let file = plan.plan.scenario()?.with_all(plan.settings.0)?;
                    match &plan.measured {
                        Some(measured) => self.measured(plan.id.0, file, measured),
                        None => self.simulation(&Task::of_study(plan.id.0, file)),
                    }
                });
                let simulations = simulations.collect::<Result<Vec<_>, ReproduceError>>()?;
                let plans = study.plans.iter().zip(simulations.iter().map(|simulation| &**simulation));
                Ok(Outcome::Study(study.study(id, title, &Plans(plans.collect()))))
            }
        }
    }

    fn simulation(&self, task: &Task) -> Result<Arc<Simulation>, ReproduceError> {
        self.simulations.get(&task.id, || self.run(task, Rank::First, self.options.stop))
    }

    fn run(
        &self,
        task: &Task,
        rank: Rank,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Simulation, ReproduceError> {
        self.run_on(None, self.shared.as_ref(), task, (rank, stop))
    }

    fn run_on(
        &self,
        testbed: Option<&Testbed<'_>>,
        shared: Option<&SharedRuns>,
        task: &Task,
        (rank, stop): (Rank, &(dyn Fn() -> bool + Sync)),
    ) -> Result<Simulation, ReproduceError> {
        let done = AtomicUsize::new(0);
        let progress = |_| {
            done.fetch_add(1, Ordering::Relaxed);
            (self.options.progress)(self.runs.load(Ordering::Relaxed));
        };
        let sweep = SweepOptions {
            contents: Contents::default(),
            existing: self.options.existing,
            threads: Threads::Shared(&self.permits, rank),
            testbed,
            shared,
            stop,
            progress: &progress,
        };
        let simulation = task.run(&sweep, &self.options)?;
        // Other runs were not needed, or were done before.
        let left_out = runs(&task.files(&self.options)?).saturating_sub(done.into_inner());
        self.runs.fetch_sub(left_out, Ordering::Relaxed);
        Ok(simulation)
    }

    /// Returns the testbed results of a scenario: measured now if a testbed is given, otherwise the stored ones.
    fn measured(
        &self,
        id: &str,
        file: ScenarioFile,
        measured: &Source,
    ) -> Result<Arc<Simulation>, ReproduceError> {
        self.simulations.get(id, || match self.options.testbed {
            Some(testbed) => {
                let task = Task::of_study(id, file);
                self.runs.fetch_add(runs(&task.files(&self.options)?), Ordering::Relaxed);
                self.run_on(Some(testbed), None, &task, (Rank::First, self.options.stop))
            }
            None => Simulation::measured(measured, &file),
        })
    }

    /// Steps of everything that was run.
    pub fn steps(&self) -> u64 {
        self.simulations.steps()
    }
}

/// Sets the flag when it is dropped.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Number of runs of these scenarios, if all are needed.
fn runs(files: &[ScenarioFile]) -> usize {
    files.iter().map(|file| file.points().len() * file.replications() as usize).sum()
}

/// Origin given for testbed numbers that were measured in this run.
const MEASURED_NOW: &str = "measured now, on this machine";
