//! Studies: questions that a source left open, answered by runs of shipped scenarios.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::ack_wait::AckWaitSpec;
use super::check::{self, Check};
use super::means::MeansSpec;
use super::recovery::RecoverySpec;
use super::routed;
use super::sheet::Sheet;
use super::{Simulation, seconds};
use crate::plot::Figure;

/// What a study runs and what it makes of it.
#[derive(Clone, Copy, Debug)]
pub struct StudySpec {
    /// What is run, in order.
    pub plans: &'static [StudyPlan],
    /// What is made of it.
    pub analysis: Analysis,
    /// Under what conditions, a line each; they stand with the sheets and below the headings of figures.
    pub conditions: &'static [&'static str],
}

/// A scenario of a study.
#[derive(Clone, Copy, Debug)]
pub struct StudyPlan {
    /// What it is called: its result folder.
    pub id: &'static str,
    /// What its curves are called; empty if there is but one plan.
    pub name: &'static str,
    /// The scenario file.
    pub plan: &'static str,
    /// What is set in it, so that one file serves several plans.
    pub settings: &'static [(&'static str, &'static str)],
}

/// What is made of the results.
#[derive(Clone, Copy, Debug)]
pub enum Analysis {
    /// Means with their intervals, side by side.
    Means(MeansSpec),
    /// The best random acknowledgment wait, and its law.
    AckWait(AckWaitSpec),
    /// Recovery from losses over topologies.
    Recovery(RecoverySpec),
    /// What each plan gave, in one table.
    Summary,
    /// What a source says in words.
    Claims,
    /// What another simulator's agents measured.
    Agents,
}

/// What a study gave.
#[derive(Debug, Serialize)]
pub struct Study {
    /// The experiment.
    pub id: &'static str,
    /// The question.
    pub title: &'static str,
    /// Tables of numbers.
    pub sheets: Vec<Sheet>,
    /// What others say in numbers, and whether it holds.
    pub checks: Vec<Check>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Conditions and findings, a sentence each.
    pub remarks: Vec<String>,
    /// Steps of all simulations.
    pub steps: u64,
    /// Time they took.
    #[serde(rename = "wall_s", serialize_with = "seconds")]
    pub wall: Duration,
}

/// Tables, figures and findings.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub sheets: Vec<Sheet>,
    pub checks: Vec<Check>,
    pub figures: Vec<Figure>,
    pub remarks: Vec<String>,
}

impl StudySpec {
    /// Makes the study of the simulations of its plans, which come in their order.
    pub(super) fn study(
        &self,
        id: &'static str,
        title: &'static str,
        simulations: &[(&StudyPlan, &Simulation)],
    ) -> Study {
        let Findings { sheets, checks, mut figures, remarks } = match self.analysis {
            Analysis::Means(means) => means.findings(id, simulations),
            Analysis::AckWait(waits) => waits.findings(id, simulations),
            Analysis::Recovery(recovery) => recovery.findings(id, title, simulations),
            Analysis::Summary => routed::summary::findings(simulations),
            Analysis::Claims => routed::claims::findings(simulations),
            Analysis::Agents => routed::agents::findings(simulations),
        };
        let conditions = || self.conditions.iter().map(|line| (*line).to_owned());
        for figure in &mut figures {
            figure.notes = conditions().chain(std::mem::take(&mut figure.notes)).collect();
        }
        Study {
            id,
            title,
            sheets,
            checks,
            figures,
            remarks: conditions().map(|line| line + ".").chain(remarks).collect(),
            steps: simulations.iter().map(|(_, simulation)| simulation.steps).sum(),
            wall: simulations.iter().map(|(_, simulation)| simulation.wall).sum(),
        }
    }
}

/// The study as text, for a terminal or a paper.
impl fmt::Display for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}\n", self.id, self.title)?;
        for sheet in &self.sheets {
            writeln!(f, "{sheet}")?;
        }
        if !self.checks.is_empty() {
            check::write(f, &self.checks)?;
        }
        for remark in &self.remarks {
            writeln!(f, "{remark}")?;
        }
        writeln!(
            f,
            "{} simulation steps in {:.2} s ({:.1} million a second).",
            self.steps,
            self.wall.as_secs_f64(),
            self.steps as f64 / self.wall.as_secs_f64() / 1e6
        )
    }
}
