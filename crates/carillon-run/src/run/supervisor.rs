//! Supervision of a run by its host.

use std::time::Duration;

use carillon_core::DataSize;

/// Host of a run. It may stop the run before its end, and it may know the real time. It never changes a result.
pub trait Supervisor: Send {
    /// Returns true if the run must stop now.
    fn stops(&mut self) -> bool {
        false
    }

    /// Resident memory of the process and its limit, if the run was stopped because of them.
    fn exceeded_memory(&self) -> Option<(DataSize, DataSize)> {
        None
    }

    /// Real time since the run began.
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// Supervisor of a run that nothing stops and nothing times.
#[derive(Clone, Copy, Debug)]
pub struct Unsupervised;

impl Supervisor for Unsupervised {}

/// Piece of work that runs beside others.
pub type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Threads of the host on which a run may be simulated in parts.
pub trait Workers: Sync {
    /// Number of threads.
    fn number(&self) -> usize;

    /// Number of nodes from which on a network is divided. Below it, parts are not worth their overhead.
    fn least_nodes(&self) -> usize {
        20_000
    }

    /// Number of steps after which a part of a network pauses.
    fn most_steps(&self) -> usize {
        1 << 17
    }

    /// Completes all tasks, in any order.
    fn complete(&self, tasks: Vec<Task<'_>>);
}

/// No thread but the caller's.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneThread;

impl Workers for OneThread {
    fn number(&self) -> usize {
        1
    }

    fn complete(&self, tasks: Vec<Task<'_>>) {
        tasks.into_iter().for_each(|task| task());
    }
}
