//! Long work on a thread of its own, while the calling thread serves Python's signals and reports progress.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::run_error;

/// Interval at which signals are served and progress is reported.
const TICK: Duration = Duration::from_millis(50);

/// Connection of the work with the thread that waits for it.
#[derive(Default)]
pub struct Work {
    stop: AtomicBool,
    done: AtomicUsize,
    all: AtomicUsize,
}

impl Work {
    /// Returns true if the work is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Notes that one of `all` runs has ended.
    pub fn run_done(&self, all: usize) {
        self.all.store(all, Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `work` without the interpreter lock. `progress` is called with the numbers of finished runs and of all runs. An
/// exception of a signal handler or of `progress` stops the work and is returned in place of its result.
pub fn run<R: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Work) -> R + Send,
) -> PyResult<R> {
    let state = Work::default();
    let mut outcome = Ok(());
    let result = std::thread::scope(|scope| {
        let (ended, end) = channel::<()>();
        let (end, state) = (Mutex::new(end), &state);
        let worker = scope.spawn(move || {
            // Its drop wakes the waiting thread at the end of the work, also after a panic.
            let _ended = ended;
            work(state)
        });
        let mut shown = 0;
        let mut report = || -> PyResult<()> {
            py.check_signals()?;
            let done = state.done.load(Ordering::Relaxed);
            if let Some(progress) = progress.filter(|_| done > shown) {
                shown = done;
                progress.call1(py, (done, state.all.load(Ordering::Relaxed)))?;
            }
            Ok(())
        };
        let wait = || end.lock().map_or(Ok(()), |end| end.recv_timeout(TICK));
        while py.detach(wait) == Err(RecvTimeoutError::Timeout) {
            if outcome.is_ok() {
                outcome = report();
                state.stop.store(outcome.is_err(), Ordering::Relaxed);
            }
        }
        if outcome.is_ok() {
            outcome = report();
        }
        py.detach(|| worker.join())
    });
    outcome?;
    result.map_err(|_| run_error("a thread of the laboratory died"))
}

/// Number of threads from an argument: `None` is one for each processor.
pub fn jobs(given: Option<usize>) -> PyResult<usize> {
    match given {
        Some(0) => Err(pyo3::exceptions::PyValueError::new_err("jobs=0: give 1 or more")),
        Some(jobs) => Ok(jobs),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}
