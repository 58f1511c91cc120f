//! Studies: questions that a source left open, answered by runs of shipped scenarios.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ack_wait::AckWaitSpec;
use super::agents::AgentsSpec;
use super::claims::ClaimsSpec;
use super::findings::{Findings, Plans, StudyPlan};
use super::kept::{List, Text};
use super::means::MeansSpec;
use super::paired::PairedSpec;
use super::recovery::RecoverySpec;
use super::simulation::seconds;
use super::summary::SummarySpec;
use crate::check::{Check, CheckVerdict};
use crate::plot::Figure;
use crate::sheet::Sheet;

/// Plans and analysis of a study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudySpec {
    /// Plans to run, in order.
    pub plans: List<StudyPlan>,
    /// Analysis of the results.
    pub analysis: Analysis,
    /// Under what conditions, a line each; they stand with the sheets and below the headings of figures.
    #[serde(default)]
    pub conditions: List<Text>,
    /// Checks that are known not to hold, and why.
    #[serde(default)]
    pub expected: Vec<Expected>,
}

/// Checks that are known not to hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Identifiers of the checks.
    pub checks: Vec<String>,
    /// Why.
    pub reason: String,
}

/// Analysis of the results of a study.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Analysis {
    /// Means with their intervals, side by side.
    Means(MeansSpec),
    /// Paired comparison of two plans, run by run.
    Paired(PairedSpec),
    /// The best random acknowledgment wait, and its law.
    AckWait(AckWaitSpec),
    /// Recovery from losses over topologies.
    Recovery(RecoverySpec),
    /// Results of every plan in one table.
    Summary(SummarySpec),
    /// Claims of a source in words.
    Claims(ClaimsSpec),
    /// Comparison with the agents of another simulator.
    Agents(AgentsSpec),
}

/// Results of a study.
#[derive(Debug, Serialize)]
pub struct Study {
    /// The experiment.
    pub id: &'static str,
    /// The question.
    pub title: &'static str,
    /// Tables of numbers.
    pub sheets: Vec<Sheet>,
    /// Numbers stated by other sources, with verdicts.
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

impl StudySpec {
    /// Builds the study from the results of its plans.
    pub(super) fn study(&self, id: &'static str, title: &'static str, plans: &Plans<'_>) -> Study {
        let Findings { sheets, mut checks, mut figures, remarks } = match &self.analysis {
            Analysis::Means(means) => means.findings(id, plans),
            Analysis::Paired(paired) => paired.findings(plans),
            Analysis::AckWait(waits) => waits.findings(id, plans),
            Analysis::Recovery(recovery) => recovery.findings(id, title, plans),
            Analysis::Summary(summary) => summary.findings(plans),
            Analysis::Claims(claims) => claims.findings(plans),
            Analysis::Agents(agents) => agents.findings(plans),
        };
        for check in checks.iter_mut().filter(|check| check.verdict == CheckVerdict::DoesNotHold) {
            let is_of = |expected: &&Expected| expected.checks.contains(&check.id);
            if let Some(expected) = self.expected.iter().find(is_of) {
                check.verdict = CheckVerdict::ExpectedDeviation;
                let separator = if check.note.is_empty() { "" } else { "; " };
                check.note += &format!("{separator}{}", expected.reason);
            }
        }
        let conditions = || self.conditions.iter().map(|line| line.0.to_owned());
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
            steps: plans.0.iter().map(|(_, simulation)| simulation.steps).sum(),
            wall: plans.0.iter().map(|(_, simulation)| simulation.wall).sum(),
        }
    }
}
