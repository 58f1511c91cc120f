//! Metrics of a running transfer, for the program itself and for monitoring systems.
//!
//! A [`Monitor`] is attached to an end before it begins ([`End::monitor`](crate::End::monitor)). Four times a second
//! the end stores a complete [`Snapshot`] there without waiting for readers; the last one shows the end of the
//! transfer. Unknown values are absent, never 0.
//!
//! ```
//! use carillon_transfer::monitor::Monitor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
//! let monitor = Monitor::default();
//! # let directory = tempfile::tempdir()?;
//! # let receiver = carillon_transfer::receive(directory.path()).group(group).interface("lo").name("alice").start();
//! let text = std::io::Cursor::new("looked at while it is sent");
//! let sender = carillon_transfer::send_reader("text", text)
//!     .group(group)
//!     .interface("lo")
//!     .expect(["alice"])
//!     .monitor(monitor.clone())
//!     .start();
//! # while monitor.latest().is_none() { std::thread::yield_now() }
//! if let Some(now) = monitor.latest() {
//!     println!("{} of {:?} bytes, limited by {:?}", now.amounts.bytes, now.amounts.size, now.limit);
//! }
//! assert!(sender.wait()?.is_success() && receiver.wait()?.is_success());
//! let end = monitor.latest().ok_or("nothing was put there")?;
//! assert_eq!((end.amounts.bytes, end.receivers[0].bytes, end.receivers[0].state), (26, Some(26), "verified"));
//! # Ok(()) }
//! ```
//!
//! [`Exporter`] serves the metrics over HTTP in the text format of Prometheus; [`FAMILIES`] lists them, as does
//! `docs/reference/monitoring.md`.

mod exporter;
mod families;
mod publisher;
mod snapshot;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use exporter::Exporter;
pub use families::FAMILIES;
pub(crate) use publisher::{Cause, INTERVAL, Publisher};
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
