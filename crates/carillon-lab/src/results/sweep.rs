//! A scenario file run into its result folder.

use std::path::Path;

use thiserror::Error;

use super::{Contents, Existing, Report, ResultsError, Writer, is_complete};
use crate::plan::{Plan, Run};
use crate::run::{RunError, RunResult, run_each};
use crate::scenario::{ScenarioError, ScenarioFile};

/// Options of a sweep.
pub struct SweepOptions<'a> {
    /// Files to write.
    pub contents: Contents,
    /// Handling of existing results.
    pub existing: Existing,
    /// Threads.
    pub jobs: usize,
    /// Runs them, one after the other, in place of the simulator.
    pub testbed: Option<&'a Testbed<'a>>,
    /// Returns true when the sweep is to stop; completed runs are kept.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told after each run, with the number of all that are run.
    pub progress: &'a (dyn Fn(usize) + Sync),
}

/// Makes a run on a testbed, or says why it could not.
pub type Testbed<'a> = dyn Fn(&Run) -> Result<RunResult, String> + 'a;

/// A sweep that did not come to its end.
#[derive(Debug, Error)]
pub enum SweepError {
    /// Its scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run on a testbed.
    #[error("{0}")]
    Testbed(String),
    /// Its results.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The sweep was stopped before its end.
    #[error(
        "interrupted: {done} of {runs} runs are done and kept in {dir}; run the command again with --resume for the rest"
    )]
    Interrupted {
        /// Runs that are done.
        done: usize,
        /// Number of all runs.
        runs: usize,
        /// The folder.
        dir: String,
    },
}

/// Runs the missing runs of a scenario file. Does nothing if the folder is complete and the options say to keep it.
pub fn run_into(file: &ScenarioFile, dir: &Path, options: &SweepOptions<'_>) -> Result<Report, SweepError> {
    if options.existing == Existing::Resume && is_complete(dir, file) {
        return Ok(Report::default());
    }
    let plan = Plan::new(file)?;
    let mut writer = Writer::open(file, &plan, dir, options.contents, options.existing)?;
    let pending = writer.pending();
    let mut take = |run: usize, result: RunResult| {
        writer.take(run, result)?;
        (options.progress)(pending.len());
        Ok::<(), SweepError>(())
    };
    let swept = match options.testbed {
        None => run_each(&plan, &pending, options.jobs, options.stop, &mut take),
        Some(testbed) => pending
            .iter()
            .take_while(|_| !(options.stop)())
            .try_for_each(|&run| take(run, testbed(&plan.runs[run]).map_err(SweepError::Testbed)?)),
    };
    if swept.is_ok() && writer.pending().is_empty() {
        return Ok(writer.finish()?);
    }
    let done = writer.interrupt()?;
    swept?;
    Err(SweepError::Interrupted { done, runs: plan.runs.len(), dir: dir.display().to_string() })
}
