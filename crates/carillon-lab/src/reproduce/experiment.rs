//! An experiment, and what it shows.

use super::figures::FigureSpec;
use super::study::StudySpec;
use super::table::TableSpec;

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What it is called on the command line.
    pub id: &'static str,
    /// What it is.
    pub title: &'static str,
    /// What it shows.
    pub shows: ExperimentKind,
}

/// What an experiment shows.
#[derive(Clone, Debug)]
pub enum ExperimentKind {
    /// A table, made from a scenario of its own.
    Table(TableSpec),
    /// A figure, drawn from the scenarios of tables or from formulas.
    Figure(FigureSpec),
    /// What runs of scenarios of its own say to a question, without published numbers.
    Study(StudySpec),
}
