//! Numbers of a transfer while it goes on: for a program that asks, and for monitoring systems that fetch them.
//!
//! A [`Monitor`] is given to an end before it begins ([`End::monitor`](crate::End::monitor)). A few times a second the
//! end puts a [`Snapshot`] there, whole, and never waits for whoever reads; the last one is of its end. What is not
//! known, of a protocol or yet, is absent, and never 0.
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
//!     println!("{} of {:?} bytes, limited by {:?}", now.bytes, now.size, now.limit);
//! }
//! assert!(sender.wait()?.is_success() && receiver.wait()?.is_success());
//! let end = monitor.latest().ok_or("nothing was put there")?;
//! assert_eq!((end.bytes, end.receivers[0].bytes, end.receivers[0].state), (26, Some(26), "verified"));
//! # Ok(()) }
//! ```
//!
//! [`Exporter`] serves it over HTTP in the text format of Prometheus; [`FAMILIES`] is what there is.
//! `docs/reference/monitoring.md` has the table.

mod exporter;
mod families;
mod publisher;
mod snapshot;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use exporter::Exporter;
pub use families::FAMILIES;
pub(crate) use publisher::{Cause, INTERVAL, Publisher};
pub use snapshot::{Limit, PathView, ReceiverView, Router, SenderView, Snapshot, Traffic};
pub use text::{Family, Kind, Samples};

/// Where an end puts what it looks like, and where it is read. Clones are the same place.
#[derive(Clone, Debug, Default)]
pub struct Monitor(Arc<Mutex<Option<Arc<Snapshot>>>>);

impl Monitor {
    /// What the end looked like last: a quarter of a second ago at most, as long as it runs. Nothing before it begins.
    #[must_use]
    pub fn latest(&self) -> Option<Arc<Snapshot>> {
        self.place().clone()
    }

    /// Puts one there in place of the last one.
    pub fn put(&self, snapshot: Snapshot) {
        let snapshot = Some(Arc::new(snapshot));
        // The old one is taken apart when the place is free again.
        let old = std::mem::replace(&mut *self.place(), snapshot);
        drop(old);
    }

    /// All that there is in the text format of Prometheus, version 0.0.4; empty before the end begins.
    #[must_use]
    pub fn text(&self) -> String {
        self.latest().map_or_else(String::new, |snapshot| text::write(FAMILIES, &snapshot))
    }

    /// Backpressure for as long as it takes to copy or swap a pointer.
    fn place(&self) -> MutexGuard<'_, Option<Arc<Snapshot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
