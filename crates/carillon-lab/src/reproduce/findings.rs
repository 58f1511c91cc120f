//! What a study has to work with, and what it finds.

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
    /// What it is called: its result folder.
    pub id: Text,
    /// What its curves are called; empty if there is but one plan.
    #[serde(default)]
    pub name: Text,
    /// The scenario file.
    pub plan: Source,
    /// What is set in it, so that one file serves several plans.
    #[serde(default)]
    pub settings: Settings,
    /// It runs on a testbed, and this was measured there before: the `summary.csv` of a result folder, or what is wanted of it.
    pub measured: Option<Source>,
}

/// What the plans of a study gave, in their order.
pub(super) struct Plans<'a>(pub Vec<(&'a StudyPlan, &'a Simulation)>);

impl<'a> Plans<'a> {
    /// What the plan of this name gave.
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
