//! A single output for the contents of all files.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{LocalError, stated};
use rustix::fs::{FileType, fstat, fsync};

/// Writes the contents of all files, one after the other, to a pipe, a buffer or the standard output.
#[derive(Clone)]
pub struct Output {
    name: &'static str,
    to: Arc<Mutex<dyn Write + Send>>,
    /// True if a file at the standard output is on the disk before a transfer ends; a block device always is.
    syncs: bool,
}

impl Output {
    /// Creates an output for this writer, with its name for errors.
    pub fn new(name: &'static str, to: impl Write + Send + 'static) -> Self {
        Output { name, to: Arc::new(Mutex::new(to)), syncs: false }
    }

    /// The standard output.
    pub fn stdout() -> Self {
        Output::new(STDOUT, io::stdout())
    }

    /// Returns true for the standard output.
    pub(super) fn is_stdout(&self) -> bool {
        self.name == STDOUT
    }

    pub(super) fn sync_at_end(&mut self, syncs: bool) {
        self.syncs = syncs;
    }

    /// Writes a file or block device at the standard output to its disk.
    pub(super) fn sync(&self) -> Result<(), LocalError> {
        let kind = fstat(io::stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let syncs = match kind {
            Ok(FileType::BlockDevice) => true,
            Ok(FileType::RegularFile) => self.syncs,
            _ => false,
        };
        match syncs && self.is_stdout() {
            true => fsync(io::stdout())
                .map_err(|error| stated!("cannot write {} to the disk: {error}", self.name)),
            false => Ok(()),
        }
    }

    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), LocalError> {
        self.with(|to| to.write_all(bytes))
    }

    pub(super) fn flush(&self) -> Result<(), LocalError> {
        self.with(|to| to.flush())
    }

    /// Writes or flushes. A closed pipe is an error here, because its reader misses data.
    fn with(&self, act: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>) -> Result<(), LocalError> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut *to).map_err(|error| stated!("cannot write to {}: {error}", self.name))
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Output").field(&self.name).finish()
    }
}

/// Name of the standard output in errors.
const STDOUT: &str = "the standard output";
