//! Errors of experiments.

use thiserror::Error;

use crate::results::SweepError;
use crate::scenario::ScenarioError;
use crate::summary_file::SummaryError;

/// An experiment that could not be run.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// Its file.
    #[error("{0}")]
    File(String),
    /// Its scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Its runs.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// Its results.
    #[error(transparent)]
    Summary(#[from] SummaryError),
}
