//! A scenario file run into its result folder.

use std::path::Path;

use thiserror::Error;

use super::shared::SharedRuns;
use super::{Contents, Existing, Report, ResultsError, Writer, is_complete};
use crate::plan::{Plan, Run};
use crate::run::{RunError, RunResult, Threads, run_each};
use crate::scenario::{Precision, ScenarioError, ScenarioFile};

/// Options of a sweep.
#[derive(Clone, Copy)]
pub struct SweepOptions<'a> {
    /// Files to write.
    pub contents: Contents,
    /// Handling of existing results.
    pub existing: Existing,
    /// Threads.
    pub threads: Threads<'a>,
    /// Runs them, one after the other, in place of the simulator.
    pub testbed: Option<&'a Testbed<'a>>,
    /// Runs that other sweeps have too; they are made once.
    pub shared: Option<&'a SharedRuns>,
    /// Returns true when the sweep is to stop; completed runs are kept.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told after each run, with the number of all that are run.
    pub progress: &'a (dyn Fn(usize) + Sync),
}

/// Makes a run on a testbed, or says why it could not.
pub type Testbed<'a> = dyn Fn(&Run) -> Result<RunResult, String> + Sync + 'a;

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
    run_elsewhere(file, dir, options.contents, options.existing, |plan, pending, take| {
        let mut take = |run: usize, result: RunResult| {
            let first_needed = take(run, result)?;
            (options.progress)(pending.len());
            Ok::<usize, SweepError>(first_needed)
        };
        match options.testbed {
            None => run_shared(file, plan, pending, options, &mut take),
            Some(testbed) => {
                let mut first_needed = 0;
                for &run in pending {
                    if (options.stop)() {
                        break;
                    }
                    if run >= first_needed {
                        let result = testbed(&plan.runs[run]).map_err(SweepError::Testbed)?;
                        first_needed = take(run, result)?;
                    }
                }
                Ok(())
            }
        }
    })
}

/// Makes these runs of a plan, except those that another sweep has made.
fn run_shared(
    file: &ScenarioFile,
    plan: &Plan,
    pending: &[usize],
    options: &SweepOptions<'_>,
    take: &mut TakeResult<'_>,
) -> Result<(), SweepError> {
    // Own metrics and messages are not shared.
    let is_plain = !options.contents.messages && options.contents.metrics.is_empty();
    let Some(shared) = options.shared.filter(|_| is_plain) else {
        return run_all(file, plan, pending.to_vec(), options, take);
    };
    let shared = shared.of_plan(file, plan);
    let (mut others, mut first_needed) = (Vec::new(), 0);
    for &run in pending {
        if run < first_needed {
            continue;
        }
        match shared.find(run) {
            Some(result) => first_needed = take(run, result)?,
            None => others.push(run),
        }
    }
    // A run that is needed no more stays in the list: `take` says so again.
    run_all(file, plan, others, options, &mut |run, result| {
        shared.keep(run, &result);
        take(run, result)
    })
}

/// Makes these runs of a plan, those first that every point needs.
///
/// Whether another run is needed depends on those before it at its point: made beside them, it would often not be
/// needed. So where other sweeps can use the processors, the other runs are made one after the other.
fn run_all(
    file: &ScenarioFile,
    plan: &Plan,
    runs: Vec<usize>,
    options: &SweepOptions<'_>,
    take: &mut TakeResult<'_>,
) -> Result<(), SweepError> {
    let is_needed =
        |run: &usize| file.precision().is_none() || plan.runs[*run].replication < Precision::MIN_RUNS;
    let (mut needed, others): (Vec<usize>, Vec<usize>) = runs.into_iter().partition(is_needed);
    if needed.len() <= FEW_RUNS {
        needed.reverse();
    }
    let threads = options.threads;
    match threads.one_if_shared() {
        Threads::Own(_) => {
            needed.extend(others);
            run_each(plan, &needed, threads, options.stop, take)
        }
        one => {
            run_each(plan, &needed, threads, options.stop, take)?;
            run_each(plan, &others, one, options.stop, take)
        }
    }
}

/// Up to this many runs are made in reverse. Plans mostly end with their largest groups and highest losses: made last,
/// such a run would keep one thread busy while the others have nothing left. Of many runs each takes little, and their
/// rows are written in the order of the plan while others are made.
const FEW_RUNS: usize = 512;

/// Accepts the result of a run, by its index in the plan. Returns the first run that is still needed: those before it
/// are done, or their points are precise enough without them.
pub type TakeResult<'a> = dyn FnMut(usize, RunResult) -> Result<usize, SweepError> + Send + 'a;

/// Writes the results of the missing runs, which `execute` makes: it receives the plan and the indices of these runs,
/// and passes on each result. A sweep in which it leaves out a run is interrupted; the finished runs are kept.
pub fn run_elsewhere<E: From<SweepError>>(
    file: &ScenarioFile,
    dir: &Path,
    contents: Contents,
    existing: Existing,
    execute: impl FnOnce(&Plan, &[usize], &mut TakeResult<'_>) -> Result<(), E>,
) -> Result<Report, E> {
    let plan = Plan::new(file).map_err(SweepError::from)?;
    if existing == Existing::Resume && is_complete(dir, file) {
        return Ok(Report::default());
    }
    let mut writer = Writer::open(file, &plan, dir, contents, existing).map_err(SweepError::from)?;
    let pending = writer.pending();
    let swept = execute(&plan, &pending, &mut |run, result| Ok(writer.take(run, result)?));
    if swept.is_ok() && writer.pending().is_empty() {
        return Ok(writer.finish().map_err(SweepError::from)?);
    }
    let done = writer.interrupt().map_err(SweepError::from)?;
    swept?;
    let dir = dir.display().to_string();
    Err(SweepError::Interrupted { done, runs: plan.runs.len(), dir }.into())
}
