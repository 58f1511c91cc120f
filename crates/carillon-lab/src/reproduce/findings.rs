//! Input of a study (its plans and their results) and its output (findings).

use serde::Deserialize;

use super::kept::{Settings, Source, Text};
use super::simulation::Simulation;
use crate::check::Check;
use crate::plot::Figure;
use crate::sheet::Sheet;

/// A scenario of a study.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyPlan {
    /// Identifier: the name of the result folder.
    pub id: Text,
    /// Name of the curves; empty for a single plan.
    #[serde(default)]
    pub name: Text,
    /// The scenario file.
    pub plan: Source,
    /// Settings applied to the scenario, so that one file serves several plans.
    #[serde(default)]
    pub settings: Settings,
    /// Stored results of a plan that runs on a testbed: the `summary.csv` of a result folder, or the needed part of
    /// it.
    pub measured: Option<Source>,
}

/// Plans of a study with their results, in order.
pub(super) struct Plans<'a>(pub Vec<(&'a StudyPlan, &'a Simulation)>);

impl<'a> Plans<'a> {
    /// Finds the results of a plan by its identifier.
    pub(super) fn find(&self, id: &str) -> Option<&'a Simulation> {
        self.0.iter().find(|(plan, _)| plan.id.0 == id).map(|(_, simulation)| *simulation)
    }
}

/// Tables, figures and findings.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub sheets: Vec<Sheet>,
    pub checks: Vec<Check>,
    pub figures: Vec<Figure>,
    pub remarks: Vec<String>,
}
