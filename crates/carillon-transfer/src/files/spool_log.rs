//! Which bytes of which files a spool has, noted in the directory as they come, so that a receiver that is killed has them when it comes back.

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

/// The list, and the files that it tells of. Each is locked as long as it is open: two receivers that share a directory do not share
/// it, and nobody takes it for something that was left over.
///
/// Nothing of it is verified: a run that is noted and is not there, after the whole system has stopped, is found out by the digest of its file as any
/// damage is.
#[derive(Debug)]
pub(super) struct SpoolLog {
    directory: OwnedFd,
    user: u32,
    file: File,
    /// How long it is.
    end: u64,
    /// What is to be noted with what comes next.
    waiting: Vec<u8>,
}

/// Bytes of a file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub session: AssociationId,
    pub index: u32,
    pub bytes: Range<u64>,
}

impl SpoolLog {
    /// Opens that of a directory and this user, made if there is none and `make` says so. `None` if there is none, or it cannot be had.
    pub fn open(directory: &Path, user: u32, make: bool) -> Option<SpoolLog> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(directory, flags, Mode::empty()).ok()?;
        let file = open_locked(directory.as_fd(), &part_name(STEM.as_bytes(), 0), user, make)?;
        let end = fstat(&file).ok()?.st_size as u64 / Run::LEN * Run::LEN;
        Some(SpoolLog { directory, user, file, end, waiting: Vec::new() })
    }

    /// What it says, as far as it can be read.
    pub fn runs(&self) -> io::Result<impl Iterator<Item = Run> + use<>> {
        let mut left = BufReader::new(self.file.try_clone()?).take(self.end);
        Ok(std::iter::from_fn(move || {
            let mut bytes = [0; Run::LEN as usize];
            left.read_exact(&mut bytes).ok().map(|()| Run::parse(bytes))
        }))
    }

    /// Notes that these bytes are there, some at a time.
    pub fn note(&mut self, run: &Run) -> io::Result<()> {
        run.emit(&mut self.waiting);
        if self.waiting.len() as u64 >= TOGETHER * Run::LEN { self.flush() } else { Ok(()) }
    }

    /// Notes what waits for more.
    pub fn flush(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.file.write_all_at(&waiting, self.end)?;
        self.end += waiting.len() as u64;
        Ok(())
    }

    /// The file for what there is of one of a session, made if there is none and `make` says so.
    pub fn piece(&self, session: AssociationId, index: u32, make: bool) -> Option<File> {
        open_locked(self.directory(), &name(session, index), self.user, make)
    }

    /// Takes the file of one of a session away.
    pub fn remove_piece(&self, session: AssociationId, index: u32) {
        // If it cannot be, the next one who looks for what was left over names it.
        let _ = unlinkat(&self.directory, name(session, index), AtFlags::empty());
    }

    /// Takes the list away; the files that it tells of have been taken away before.
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
        // What is not noted was not overheard.
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

/// They have names of files that are not complete: they are never sent, and taken away once nobody has them any more.
const STEM: &str = "overheard";
/// Runs noted at once: each is up to 64 KiB, and that is lost with a receiver that is killed.
const TOGETHER: u64 = 16;
