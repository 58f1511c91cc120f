//! Check for enough space on the disk.

use std::path::{Path, PathBuf};

use carillon_transfer::files::{Incoming, shown};

use super::Human;

/// Directory to check, until the size of the transfer is known.
#[derive(Debug)]
pub struct SpaceCheck(Option<PathBuf>);

impl SpaceCheck {
    /// Creates the check for this directory, if there is one.
    pub fn new(directory: Option<&Path>) -> Self {
        SpaceCheck(directory.map(Path::to_owned))
    }

    /// Returns a notice, once, if the rest of the transfer is larger than the free space. It may still fit: holes
    /// take no space, and replaced files free some.
    pub fn look(&mut self, incoming: &Incoming) -> Option<String> {
        let rest = incoming.total()?.saturating_sub(incoming.bytes());
        let directory = self.0.take_if(|_| incoming.bytes() > 0)?;
        let disk = rustix::fs::statvfs(&directory).ok()?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        (rest > free && rest >= MIN_REPORTED_BYTES).then(|| {
            format!(
                "{} will arrive, but only {} are free in {}: the disk may be too small",
                Human(rest),
                Human(free),
                shown(&directory.display().to_string())
            )
        })
    }
}

/// Minimum size of a transfer for which the notice is worth printing, in bytes.
const MIN_REPORTED_BYTES: u64 = 64 << 20;
