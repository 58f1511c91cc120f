//! Runs on this machine: with a limit of memory and the real time, and all runs of a plan on several threads.

mod memory;
mod pool;
mod threads;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use carillon_core::{DataSize, Observer};

pub use carillon_run::run::{
    Numbering, RunError, RunResult, SettledCount, SimulatedWorld, Supervisor, Task, Unsupervised, Workers,
    build_node, build_world, is_over, payload_bytes, simulate_on,
};

use crate::plan::{Plan, Run};
use memory::MemoryWatch;
use pool::Pool;

pub use threads::{Permits, Rank, Threads};

/// Runs one scenario; `observer` watches too.
pub fn run_one(run: &Run, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
    run_while(run, observer, &|| false).map(|result| result.expect("the run cannot be stopped"))
}

/// Runs one run of a plan, unless it is stopped before its end, by `stop` or by the observer.
pub fn run_while(
    run: &Run,
    observer: &mut dyn Observer,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<RunResult>, RunError> {
    run_on(run, observer, stop, 1)
}

/// Runs one run of a plan as [`run_while`] does, on several threads if its scenario allows it.
pub fn run_on(
    run: &Run,
    observer: &mut dyn Observer,
    stop: &(dyn Fn() -> bool + Sync),
    threads: usize,
) -> Result<Option<RunResult>, RunError> {
    let begin = Instant::now();
    let memory = MemoryWatch::new(run.scenario.memory_limit);
    simulate_on(run, observer, &mut Process { begin, memory, stop }, &Pool::new(threads))
}

/// Runs these runs of a plan on several threads, more than one for each if the runs are fewer. Passes each result to
/// `take` as it ends, with its index in the plan. `take` returns the first run that is still needed: earlier ones do
/// not start, and those in progress are abandoned. The first error of a run or of `take` ends it. So does `stop`: no
/// further run starts, and runs in progress are abandoned.
pub fn run_each<E: From<RunError> + Send>(
    plan: &Plan,
    runs: &[usize],
    threads: Threads<'_>,
    stop: &(dyn Fn() -> bool + Sync),
    take: &mut (dyn FnMut(usize, RunResult) -> Result<usize, E> + Send),
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let first_needed = AtomicUsize::new(0);
    let taken = Mutex::new((take, Ok(())));
    let failed = AtomicBool::new(false);
    let of_each = threads.of_each(runs.len());
    let work = || {
        let over = || stop() || failed.load(Ordering::Relaxed);
        let mut permit = threads.permit();
        while !over()
            && let Some(&run) = runs.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let is_needless = || run < first_needed.load(Ordering::Relaxed);
            if is_needless() {
                continue;
            }
            let stops = || over() || is_needless();
            let result = run_on(&plan.runs[run], &mut carillon_core::NoObserver, &stops, of_each);
            // A thread that died with the lock has failed with a panic of its own.
            let Ok(mut taken) = taken.lock() else { return };
            let (take, outcome) = &mut *taken;
            let done = match result {
                Ok(None) => continue,
                Ok(Some(result)) => take(run, result),
                Err(error) => Err(error.into()),
            };
            match done {
                Ok(first) => first_needed.store(first, Ordering::Relaxed),
                Err(error) if outcome.is_ok() => {
                    *outcome = Err(error);
                    failed.store(true, Ordering::Relaxed);
                }
                Err(_) => {}
            }
            drop(taken);
            if let Some(permit) = &mut permit {
                permit.give_way();
            }
        }
    };
    // Not more threads than runs. This one works too, so that the runs are done if the system refuses the others.
    std::thread::scope(|scope| {
        for _ in 1..threads.number().min(runs.len()) {
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    taken.into_inner().map_or_else(|_| panic!("a thread of the laboratory died"), |(_, outcome)| outcome)
}

/// Runs a whole plan on `jobs` threads and returns all results in the order of the plan, independent of the number of
/// threads.
pub fn run_plan(plan: &Plan, jobs: usize) -> Result<Vec<RunResult>, RunError> {
    let mut results: Vec<Option<RunResult>> = plan.runs.iter().map(|_| None).collect();
    let all: Vec<usize> = (0..plan.runs.len()).collect();
    run_each::<RunError>(plan, &all, jobs.into(), &|| false, &mut |run, result| {
        results[run] = Some(result);
        Ok(0)
    })?;
    Ok(results.into_iter().flatten().collect())
}

/// This process as the supervisor of a run.
struct Process<'a> {
    begin: Instant,
    memory: MemoryWatch,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Supervisor for Process<'_> {
    fn stops(&mut self) -> bool {
        (self.stop)() || self.memory.is_exceeded()
    }

    fn exceeded_memory(&self) -> Option<(DataSize, DataSize)> {
        self.memory.exceeded()
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}
