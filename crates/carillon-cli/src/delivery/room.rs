//! Whether what is to come has room on the disk.

use std::path::{Path, PathBuf};

use carillon_transfer::files::{Incoming, shown};

use super::Human;

/// A directory that files go to, until it is known whether they fit.
#[derive(Debug)]
pub struct Room(Option<PathBuf>);

impl Room {
    /// In this directory, if it is one.
    pub fn new(directory: Option<&Path>) -> Self {
        Room(directory.map(Path::to_owned))
    }

    /// Says once, when the first of it has come, if the rest is more than is free. It may fit all the same: zeros take no room, and what is replaced
    /// gives some back. Nothing of what fails before it could be read.
    pub fn look(&mut self, incoming: &Incoming) -> Option<String> {
        let rest = incoming.total()?.saturating_sub(incoming.bytes());
        let directory = self.0.take_if(|_| incoming.bytes() > 0)?;
        let disk = rustix::fs::statvfs(&directory).ok()?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        (rest > free && rest >= LONG).then(|| {
            format!(
                "{} are to come, and {} are free in {}: they will hardly fit",
                Human(rest),
                Human(free),
                shown(&directory.display().to_string())
            )
        })
    }
}

/// Bytes that take a while.
const LONG: u64 = 64 << 20;
