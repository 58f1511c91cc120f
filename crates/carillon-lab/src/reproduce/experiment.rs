//! An experiment, and what it shows.

use super::figures::FigureSpec;
use super::study::StudySpec;
use super::table::TableSpec;

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Identifier on the command line.
    pub id: &'static str,
    /// Title.
    pub title: &'static str,
    /// Source that the experiment repeats, or name of the file's subject.
    pub source: &'static str,
    /// Table, figure or study of the experiment.
    pub shows: ExperimentKind,
}

/// Kind of an experiment, with its specification.
#[derive(Clone, Debug)]
pub enum ExperimentKind {
    /// A table, made from a scenario of its own.
    Table(TableSpec),
    /// A figure, drawn from the scenarios of tables or from formulas.
    Figure(FigureSpec),
    /// A study: scenarios run to answer a question, without published numbers.
    Study(StudySpec),
}
