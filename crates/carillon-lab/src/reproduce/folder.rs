//! Comparison of a result folder with the published numbers of the shipped table that its scenario repeats, and the
//! figures that are drawn from this table alone.

use std::path::Path;

use toml::Table;

use super::comparison::Comparison;
use super::error::ReproduceError;
use super::experiment::ExperimentKind;
use super::files::EXPERIMENTS;
use super::simulation::Simulation;
use crate::plot::Figure;
use crate::scenario::ScenarioFile;

/// Outcomes of shipped experiments for the results of a folder.
#[derive(Debug)]
pub struct FolderExperiment {
    /// The table beside its published numbers.
    pub comparison: Comparison,
    /// Figures of the source that show this table.
    pub figures: Vec<Figure>,
}

impl FolderExperiment {
    /// Finds the shipped table by the name and document of the folder's scenario, and reads the results. `None` if no
    /// table has this scenario, or if it differs in more than its sweep, messages and runs.
    pub fn of(dir: &Path, name: &str, scenario: &Table) -> Result<Option<Self>, ReproduceError> {
        let table = EXPERIMENTS.iter().find_map(|experiment| match &experiment.shows {
            ExperimentKind::Table(table) if experiment.id == name => Some((experiment, table)),
            _ => None,
        });
        let Some((experiment, table)) = table else { return Ok(None) };
        let document = serde_json::to_value(scenario);
        if !document.is_ok_and(|document| table.plan.scenario().is_ok_and(|file| file.repeats(&document))) {
            return Ok(None);
        }
        let origin = dir.join("manifest.json").display().to_string();
        let simulation = Simulation::read(dir, &ScenarioFile::from_table(&origin, scenario.clone())?)?;
        let figures = EXPERIMENTS.iter().filter_map(|other| {
            let ExperimentKind::Figure(figure) = &other.shows else { return None };
            let tables = figure.tables();
            let is_of_this = !tables.is_empty() && tables.iter().all(|(id, _)| *id == experiment.id);
            is_of_this.then(|| figure.draw(other.id, other.title, &|_| &simulation))
        });
        let figures = figures.collect();
        let comparison = Comparison::new(experiment.id, experiment.title, table, &simulation, None);
        Ok(Some(FolderExperiment { comparison, figures }))
    }
}
