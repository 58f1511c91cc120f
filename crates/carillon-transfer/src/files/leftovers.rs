//! Removal of files that a killed receiver left behind.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, statat, unlinkat,
};
use rustix::io::Errno;

use super::descent::open_directory;
use super::names::{below as below_path, is_part_name, shown_path};
use super::resume::is_journal;
use super::target::{Marked, marked_file};
use super::update::is_list;

/// Finds partial files without a writer and removes those that certainly belong to this program.
#[derive(Debug)]
pub struct Sweep {
    /// Only files of this user are removed.
    user: u32,
    /// Number of entries that may still be inspected.
    left: usize,
    /// Partial file of a journal, which stays.
    spared: Option<PathBuf>,
    lines: Vec<String>,
    more: usize,
    /// Files that a killed receiver was changing in place.
    partly_changed: Vec<PathBuf>,
}

impl Sweep {
    /// Creates a sweep for the files of this user; `spared`, journals and lists stay.
    pub fn new(user: u32, spared: Option<PathBuf>) -> Self {
        Sweep { user, left: MAX_ENTRIES, spared, lines: Vec::new(), more: 0, partly_changed: Vec::new() }
    }

    /// Sweeps a directory with its subdirectories on the same file system, up to a limit. Returns true if all was
    /// inspected.
    pub fn tree(&mut self, directory: BorrowedFd<'_>, path: &Path) -> bool {
        let Ok(device) = fstat(directory).map(|stat| stat.st_dev) else { return false };
        self.walk(directory, path, 0, device);
        self.left > 0
    }

    /// Sweeps one directory.
    pub fn directory(&mut self, directory: BorrowedFd<'_>, path: &Path) {
        self.left = MAX_ENTRIES;
        self.entries(directory, path);
    }

    /// Files that a killed receiver was changing in place.
    pub fn partly_changed(&self) -> &[PathBuf] {
        &self.partly_changed
    }

    /// Returns messages about the files found since the last call, a line each.
    pub fn take_lines(&mut self) -> Vec<String> {
        let more = std::mem::take(&mut self.more);
        let mut lines = std::mem::take(&mut self.lines);
        lines.extend((more > 0).then(|| format!("and {more} more leftover files")));
        lines
    }

    fn walk(&mut self, directory: BorrowedFd<'_>, path: &Path, depth: usize, device: rustix::fs::Dev) {
        for name in self.entries(directory, path) {
            if self.left == 0 || depth == MAX_DEPTH {
                return;
            }
            let Ok(below) = open_directory(directory, name.as_c_str()) else { continue };
            if fstat(&below).is_ok_and(|stat| stat.st_dev == device) {
                let path = below_path(path, name.to_bytes());
                self.walk(below.as_fd(), &path, depth + 1, device);
            }
        }
    }

    /// Inspects each entry and returns the directories.
    fn entries(&mut self, directory: BorrowedFd<'_>, path: &Path) -> Vec<CString> {
        let mut below = Vec::new();
        let Ok(entries) = Dir::read_from(directory) else { return below };
        for entry in entries {
            let Ok(entry) = entry else { return below };
            if self.left == 0 {
                return below;
            }
            self.left -= 1;
            let name = entry.file_name();
            match entry.file_type() {
                FileType::Directory if !matches!(name.to_bytes(), b"." | b"..") => {
                    below.push(name.to_owned())
                }
                FileType::Directory | FileType::Socket => {}
                _ => {
                    let (name, path) = (name.to_bytes(), below_path(path, name.to_bytes()));
                    if is_part_name(name)
                        && !is_journal(name)
                        && !is_list(name)
                        && self.spared.as_ref() != Some(&path)
                    {
                        self.found(directory, name, &path);
                    }
                }
            }
        }
        below
    }

    fn found(&mut self, directory: BorrowedFd<'_>, name: &[u8], path: &Path) {
        match marked_file(directory, name) {
            Some(Marked::Partly(name)) => {
                let path = path.with_file_name(OsStr::from_bytes(&name));
                let line = format!(
                    "{} is partly changed, neither its old nor its new version: send it again, best with --update",
                    shown_path(&path)
                );
                self.add_line(line);
                if !self.partly_changed.contains(&path) {
                    self.partly_changed.push(path);
                }
                return;
            }
            Some(Marked::Changing) => return,
            Some(Marked::Replaced) | None => {}
        }
        let path = shown_path(path);
        let line = match self.remove(directory, name) {
            Ok(true) => format!("{path} was left over from an interrupted transfer: removed"),
            Ok(false) | Err(Errno::NOENT) => return,
            Err(_) => format!("{path} seems to be left over from an interrupted transfer: remove it"),
        };
        self.add_line(line);
    }

    fn add_line(&mut self, line: String) {
        if self.lines.len() < MAX_LINES { self.lines.push(line) } else { self.more += 1 }
    }

    /// Removes the file unless it is locked by its writer. The lock taken here keeps others from beginning to write
    /// it.
    fn remove(&self, directory: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        // To open a device can start it.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Errno::PERM);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(directory, name, flags, Mode::empty())?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(false),
            locked => locked?,
        }
        let (opened, named) = (fstat(&file)?, statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?);
        let same = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino);
        let plain = FileType::from_raw_mode(opened.st_mode) == FileType::RegularFile;
        if !same || !plain || opened.st_uid != self.user || opened.st_nlink != 1 {
            return Err(Errno::PERM);
        }
        unlinkat(directory, name, AtFlags::empty())?;
        Ok(true)
    }
}

/// Maximum number of inspected entries: a fraction of a second.
const MAX_ENTRIES: usize = 100_000;
/// Maximum depth, equal to that of transfers.
const MAX_DEPTH: usize = 128;
/// Maximum number of messages about single files.
const MAX_LINES: usize = 16;
