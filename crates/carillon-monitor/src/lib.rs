//! Metrics of a running transfer, for the program itself and for monitoring systems.
//!
//! A [`Monitor`] is given to an end of a transfer before it begins. Four times a second the end stores a complete
//! [`Snapshot`] there without waiting for readers; the last one shows the end of the transfer. Unknown values are
//! absent, never 0.
//!
//! [`Exporter`] serves the metrics over HTTP in the text format of Prometheus; [`FAMILIES`] lists them, as does
//! `docs/reference/monitoring.md`.

mod daemon_status;
mod exporter;
mod families;
mod snapshot;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use daemon_status::{DaemonStatus, SocketStatus};
pub use exporter::Exporter;
pub use families::FAMILIES;
pub use snapshot::{Amounts, Limit, PathView, ReceiverView, Router, SenderView, Snapshot, Traffic};
pub use text::{Family, Kind, Samples};

/// Storage for the latest snapshot of an end. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Monitor(Arc<Mutex<Option<Arc<Snapshot>>>>);

impl Monitor {
    /// Returns the latest snapshot, at most a quarter of a second old while the end runs; `None` before it begins.
    #[must_use]
    pub fn latest(&self) -> Option<Arc<Snapshot>> {
        self.place().clone()
    }

    /// Stores a snapshot in place of the previous one.
    pub fn put(&self, snapshot: Snapshot) {
        let snapshot = Some(Arc::new(snapshot));
        // The previous snapshot is freed after the lock is released.
        let old = std::mem::replace(&mut *self.place(), snapshot);
        drop(old);
    }

    /// Returns all metrics in the text format of Prometheus, version 0.0.4; empty before the end begins.
    #[must_use]
    pub fn text(&self) -> String {
        self.latest().map_or_else(String::new, |snapshot| text::write(FAMILIES, &snapshot))
    }

    /// Locks the storage. The lock is held only to copy or swap a pointer.
    fn place(&self) -> MutexGuard<'_, Option<Arc<Snapshot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
