//! Log of the byte ranges in a spool, so that they survive a restart of the receiver.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use carillon_core::AssociationId;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, open, unlinkat};

use super::names::part_name;
use super::resume::open_locked;

/// The log and its data files. Each is locked while open, so two receivers in one directory do not share them, and no
/// sweep removes them.
///
/// Ranges are not verified. A range without data, as after a crash of the system, is detected by the digest of its
/// file like any other damage.
#[derive(Debug)]
pub(super) struct SpoolLog {
    directory: OwnedFd,
    user: u32,
    file: File,
    /// Length of the log.
    end: u64,
    /// Records that are written with the next ones.
    waiting: Vec<u8>,
}

/// A range of bytes of a file in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub session: AssociationId,
    pub index: u32,
    pub bytes: Range<u64>,
}

impl SpoolLog {
    /// Opens the log of a directory and user, created if `make` is set. `None` if there is none or it is unavailable.
    pub fn open(directory: &Path, user: u32, make: bool) -> Option<SpoolLog> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(directory, flags, Mode::empty()).ok()?;
        let file = open_locked(directory.as_fd(), &part_name(STEM.as_bytes(), 0), user, make)?;
        let end = fstat(&file).ok()?.st_size as u64 / Run::LEN * Run::LEN;
        Some(SpoolLog { directory, user, file, end, waiting: Vec::new() })
    }

    /// Ranges in the log, as far as it can be parsed.
    pub fn runs(&self) -> io::Result<impl Iterator<Item = Run> + use<>> {
        let mut left = BufReader::new(self.file.try_clone()?).take(self.end);
        Ok(std::iter::from_fn(move || {
            let mut bytes = [0; Run::LEN as usize];
            left.read_exact(&mut bytes).ok().map(|()| Run::parse(bytes))
        }))
    }

    /// Records a range; several are written together.
    pub fn note(&mut self, run: &Run) -> io::Result<()> {
        run.emit(&mut self.waiting);
        if self.waiting.len() as u64 >= RANGES_PER_WRITE * Run::LEN { self.flush() } else { Ok(()) }
    }

    /// Writes buffered records.
    pub fn flush(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.file.write_all_at(&waiting, self.end)?;
        self.end += waiting.len() as u64;
        Ok(())
    }

    /// Opens the data file of a file in a session, created if `make` is set.
    pub fn piece(&self, session: AssociationId, index: u32, make: bool) -> Option<File> {
        open_locked(self.directory(), &name(session, index), self.user, make)
    }

    /// Removes the data file of a file in a session.
    pub fn remove_piece(&self, session: AssociationId, index: u32) {
        // If removal fails, the next sweep for leftovers reports it.
        let _ = unlinkat(&self.directory, name(session, index), AtFlags::empty());
    }

    /// Removes the log, after its data files.
    pub fn remove(mut self) {
        self.waiting.clear();
        let _ = unlinkat(&self.directory, part_name(STEM.as_bytes(), 0), AtFlags::empty());
    }

    fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Drop for SpoolLog {
    fn drop(&mut self) {
        // Unrecorded data is treated as not overheard.
        let _ = self.flush();
    }
}

impl Run {
    const LEN: u64 = 24;

    fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.session.0.to_be_bytes());
        to.extend_from_slice(&self.index.to_be_bytes());
        to.extend_from_slice(&self.bytes.start.to_be_bytes());
        to.extend_from_slice(&self.bytes.end.to_be_bytes());
    }

    fn parse(bytes: [u8; Run::LEN as usize]) -> Run {
        let (ids, bounds) = bytes.split_at(8);
        let [session, index] =
            [0, 4].map(|at| ids[at..].first_chunk().copied().map_or(0, u32::from_be_bytes));
        let [start, end] = [0, 8].map(|at| bounds[at..].first_chunk().copied().map_or(0, u64::from_be_bytes));
        Run { session: AssociationId(session), index, bytes: start..end }
    }
}

fn name(session: AssociationId, index: u32) -> String {
    part_name(format!("{STEM}-{:08x}-{index:08x}", session.0).as_bytes(), 0)
}

/// Stem of the temporary names, which are never sent and are removed as leftovers once unlocked.
const STEM: &str = "overheard";
/// Ranges written together, each up to 64 KiB; this much is lost when a receiver is killed.
const RANGES_PER_WRITE: u64 = 16;
