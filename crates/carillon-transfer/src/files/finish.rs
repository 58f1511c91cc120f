//! Last steps of a transfer at its receiver, before the sender learns that it is verified.

use std::fmt;
use std::sync::Arc;

use super::arriving::Completed;

/// Function that is called when everything has arrived and is verified. Its error fails the transfer at this receiver.
/// It runs in the thread that writes files; meanwhile the receiver remains in the session.
#[derive(Clone)]
pub struct Finish(Arc<Function>);

type Function = dyn Fn(&Arrived<'_>) -> Result<(), String> + Send + Sync;

impl Finish {
    /// Wraps a function.
    pub fn new(function: impl Fn(&Arrived<'_>) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Finish(Arc::new(function))
    }

    pub(super) fn call(&self, arrived: &Arrived<'_>) -> Result<(), String> {
        (self.0)(arrived)
    }
}

impl fmt::Debug for Finish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Finish")
    }
}

/// A transfer that has arrived.
#[derive(Debug)]
#[non_exhaustive]
pub struct Arrived<'a> {
    /// Job of the session, the same in its catch-up sessions.
    pub job: [u8; 16],
    /// Name of the sender.
    pub sender: &'a str,
    /// Number of files, with those that were here before.
    pub files: u32,
    /// Bytes of all files.
    pub bytes: u64,
    /// Files that were written now; the list ends after 64 MiB of names.
    pub written: &'a [Completed],
    /// Number of entries that were deleted on request of the sender.
    pub deleted: u64,
    /// Digest over names, attributes and digests of all entries, equal at all receivers.
    pub digest: [u8; blake3::OUT_LEN],
}

/// Files of a transfer, for [`Arrived`].
#[derive(Debug, Default)]
pub(super) struct WrittenFiles {
    files: Vec<Completed>,
    bytes: usize,
}

impl WrittenFiles {
    pub fn add(&mut self, file: &Completed) {
        self.bytes += size_of::<Completed>() + file.name.len();
        if self.bytes <= MAX_LIST_BYTES {
            self.files.push(file.clone());
        }
    }

    pub fn files(&self) -> &[Completed] {
        &self.files
    }
}

/// Maximum memory of the list of files.
const MAX_LIST_BYTES: usize = 64 << 20;
