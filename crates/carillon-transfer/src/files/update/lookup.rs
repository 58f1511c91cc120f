//! Entries that exist below the destination, found without creating or following anything.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};

use super::super::descent::{Descent, open_directory};
use super::super::names::{components, split};

/// Handles of the directories of the last entry, where they exist. Entries in the order of a list need one look-up per
/// directory.
#[derive(Debug)]
pub(in crate::files) struct Lookup {
    root: Descent,
    levels: Vec<(Vec<u8>, Option<OwnedFd>)>,
}

impl Lookup {
    /// Begins at the destination.
    pub fn new(root: &Path) -> io::Result<Lookup> {
        Ok(Lookup { root: Descent::new(root)?, levels: Vec::new() })
    }

    /// Handle of a directory, unless it does not exist or is something else.
    pub fn directory(&mut self, path: &[u8]) -> Option<BorrowedFd<'_>> {
        let names = || components(path).filter(|name| !name.is_empty());
        let same = names().zip(&self.levels).take_while(|(name, (level, _))| name == level).count();
        self.levels.truncate(same);
        for name in names().skip(same) {
            let handle = self.here().and_then(|here| open_directory(here, name).ok());
            self.levels.push((name.to_owned(), handle));
        }
        self.here()
    }

    fn here(&self) -> Option<BorrowedFd<'_>> {
        match self.levels.last() {
            None => Some(self.root.root()),
            Some((_, handle)) => handle.as_ref().map(|handle| handle.as_fd()),
        }
    }

    /// Metadata of an entry itself, and the handle of its directory.
    pub fn stat(&mut self, path: &[u8]) -> Option<(BorrowedFd<'_>, Stat)> {
        let (parents, name) = split(path);
        let directory = self.directory(parents)?;
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((directory, stat))
    }

    /// Opens a regular file.
    pub fn file(&mut self, path: &[u8]) -> Option<File> {
        let (parents, name) = split(path);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(self.directory(parents)?, name, flags, Mode::empty()).ok()?);
        file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
    }

    /// Target of a symbolic link.
    pub fn link(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let (parents, name) = split(path);
        readlinkat(self.directory(parents)?, name, Vec::new()).ok().map(|target| target.into_bytes())
    }
}

/// Returns true for a regular file.
pub(in crate::files) fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}
