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
