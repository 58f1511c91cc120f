//! Scenarios that an experiment simulates.

use std::path::Path;

use super::error::ReproduceError;
use super::experiment::{Experiment, ExperimentKind};
use super::options::Options;
use super::simulation::Simulation;
use super::table::TableSpec;
use crate::results::{Contents, SweepOptions, run_into};
use crate::scenario::ScenarioFile;

/// Scenario that an experiment simulates.
#[derive(Debug)]
pub(super) struct Task {
    /// Name of its result folder.
    pub id: String,
    pub file: ScenarioFile,
    /// Settings of the unicast equivalent, which is run too.
    pub unicast_settings: Option<&'static [(&'static str, &'static str)]>,
    /// True if its folder may have every sample.
    pub has_samples: bool,
}

impl Task {
    /// Scenarios of an experiment, in the order in which they are run.
    pub(super) fn all_of(experiment: &Experiment) -> Result<Vec<Task>, ReproduceError> {
        match &experiment.shows {
            ExperimentKind::Table(table) => Ok(vec![Task::of_table(experiment.id, table)?]),
            ExperimentKind::Figure(figure) => {
                figure.tables().iter().map(|(id, table)| Task::of_table(id, table)).collect()
            }
            ExperimentKind::Study(study) => {
                let simulated = study.plans.iter().filter(|plan| plan.measured.is_none());
                let files =
                    simulated.map(|plan| Ok((plan.id.0, plan.plan.scenario()?.with_all(plan.settings.0)?)));
                files.map(|named| named.map(|(id, file)| Task::of_study(id, file))).collect()
            }
        }
    }

    /// The scenario of a table.
    pub(super) fn of_table(id: &str, table: &TableSpec) -> Result<Task, ReproduceError> {
        let unicast_settings = table.unicast_settings.map(|settings| settings.0);
        Ok(Task { id: id.to_owned(), file: table.plan.scenario()?, unicast_settings, has_samples: true })
    }

    /// A scenario of a study.
    pub(super) fn of_study(id: &str, file: ScenarioFile) -> Task {
        Task { id: id.to_owned(), file, unicast_settings: None, has_samples: false }
    }

    /// Scenario files that are run, with the seed and the messages of the options.
    pub(super) fn files(&self, options: &Options<'_>) -> Result<Vec<ScenarioFile>, ReproduceError> {
        let unicast =
            self.unicast_settings.map(|settings| self.file.clone().with_all(settings)).transpose()?;
        let files = std::iter::once(self.file.clone()).chain(unicast);
        files.map(|file| options.applied_to(file)).collect()
    }

    /// Runs the scenario into its folder below `--out` and reads the results.
    pub(super) fn run(
        &self,
        sweep: &SweepOptions<'_>,
        options: &Options<'_>,
    ) -> Result<Simulation, ReproduceError> {
        let read = |dir: &Path, file: &ScenarioFile, samples: bool| {
            let contents = Contents { samples, ..sweep.contents };
            run_into(file, dir, &SweepOptions { contents, ..*sweep })?;
            Simulation::read(dir, file)
        };
        let dir = options.out.join(&self.id);
        let files = self.files(options)?;
        let mut simulation = read(&dir, &files[0], options.samples && self.has_samples)?;
        if let Some(file) = files.get(1) {
            let unicast = read(&options.out.join(format!("{}-unicast", self.id)), file, false)?;
            simulation.unicast_deviation = Some(simulation.unicast_deviation(&unicast));
        }
        Ok(simulation)
    }
}
