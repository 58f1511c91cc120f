//! Directories below the destination, entered through handles so that no link can lead outside.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fchmod, fstat, mkdirat, openat};
use rustix::io::Errno;

use super::names::{below, components, shown_path};
use super::problem::is_unfit;
use super::times::{self, Attributes};
use super::unstorable::Unstorable;
use crate::error::{Context as _, LocalError, stated};

/// The path from the destination down to the directory of the last file.
///
/// Each component is opened by name, relative to the handle of its parent, and must be a directory. Existing links,
/// and links that another user places there meanwhile, are therefore never followed. Handles stay open while files go
/// there, so that each directory is looked up once; at most one handle per component of a path is open.
#[derive(Debug)]
pub struct Descent {
    root: PathBuf,
    handle: OwnedFd,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    name: Vec<u8>,
    handle: OwnedFd,
    /// Permission bits to set when the directory is complete, if it was made here.
    mode: Option<u32>,
    /// Modification time to set when the directory is complete.
    modified: Option<i64>,
}

/// A directory that was entered.
pub struct Entered<'a> {
    /// Handle of the parent directory.
    pub above: BorrowedFd<'a>,
    /// Path below the destination.
    pub name: &'a [u8],
    pub handle: BorrowedFd<'a>,
    /// Path for messages.
    pub path: &'a Path,
    /// True if the directory was created now.
    pub is_made: bool,
}

/// Result of entering a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Existing,
    Made,
}

impl Descent {
    /// Starts at this directory and creates it if necessary. Only here links are followed.
    pub fn new(root: &Path) -> io::Result<Descent> {
        fs::create_dir_all(root)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = openat(rustix::fs::CWD, root, flags, Mode::empty())?;
        Ok(Descent { root: root.to_owned(), handle, levels: Vec::new() })
    }

    /// Handle of the destination.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Enters the directory of this `/`-separated path and creates missing components; permission bits and
    /// modification time apply to the last one. `check` is called for each entered directory and may refuse it.
    pub fn enter(
        &mut self,
        names: &[u8],
        attributes: Option<Attributes>,
        check: &mut dyn FnMut(&Entered<'_>) -> Result<(), LocalError>,
    ) -> Result<BorrowedFd<'_>, LocalError> {
        // Keep the handles of the common prefix, and leave the other directories.
        let same =
            components(names).zip(&self.levels).take_while(|(name, level)| *name == level.name).count();
        self.leave(same)?;
        let mut end = components(names).take(same).map(|name| name.len() + 1).sum::<usize>();
        let mut rest = components(names).filter(|name| !name.is_empty()).skip(same).peekable();
        while let Some(name) = rest.next() {
            end += name.len() + 1;
            let path = below(&self.path(), name);
            let attributes = attributes.filter(|_| rest.peek().is_none());
            let mode = attributes.map(|attributes| attributes.mode);
            let (handle, found) = open_or_make(self.here(), name, mode, &path)?;
            let is_made = found == Found::Made;
            check(&Entered {
                above: self.here(),
                name: &names[..end - 1],
                handle: handle.as_fd(),
                path: &path,
                is_made,
            })?;
            // Existing directories keep their permissions.
            let mode = mode.filter(|_| found == Found::Made);
            let modified = attributes.and_then(|attributes| attributes.modified);
            self.levels.push(Level { name: name.to_owned(), handle, mode, modified });
        }
        Ok(self.here())
    }

    /// Path of the current directory, for messages.
    pub fn path(&self) -> PathBuf {
        let mut path = self.root.clone();
        path.extend(self.levels.iter().map(|level| OsStr::from_bytes(&level.name)));
        path
    }

    /// Leaves all directories, and sets their times and the permission bits of created ones.
    pub fn finish(&mut self) -> Result<(), LocalError> {
        self.leave(0)
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.levels.last().map_or(self.handle.as_fd(), |level| level.handle.as_fd())
    }

    fn leave(&mut self, depth: usize) -> Result<(), LocalError> {
        while self.levels.len() > depth {
            let path = self.path();
            let Some(Level { handle, mode, modified, .. }) = self.levels.pop() else { continue };
            times::set(handle.as_fd(), modified);
            let Some(mode) = mode else { continue };
            restrict(&handle, mode)
                .with_context(|| format!("cannot set the permissions of {}", shown_path(&path)))?;
        }
        Ok(())
    }
}

impl Drop for Descent {
    fn drop(&mut self) {
        // The first error is reported.
        let _ = self.finish();
    }
}

fn open_or_make(
    above: BorrowedFd<'_>,
    name: &[u8],
    mode: Option<u32>,
    path: &Path,
) -> Result<(OwnedFd, Found), LocalError> {
    let mut found = Found::Existing;
    // Another process that keeps removing or creating the directory is unlikely to win this often.
    for _ in 0..MAX_OPEN_ATTEMPTS {
        match open_directory(above, name) {
            Ok(handle) => return Ok((handle, found)),
            Err(Errno::NOENT) => {}
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(stated!(
                    "{} is not a directory: nothing is written through it",
                    shown_path(path)
                ));
            }
            Err(error) if is_unfit(error, above) => return Err(Unstorable::unfit(error).into()),
            Err(error) => {
                return Err(io::Error::from(error))
                    .with_context(|| format!("cannot open directory {}", shown_path(path)));
            }
        }
        // The owner keeps all rights until the directory is complete.
        let mode = Mode::from_raw_mode((mode.unwrap_or(0o777) | 0o700) as _);
        match mkdirat(above, name, mode) {
            Ok(()) => found = Found::Made,
            Err(Errno::EXIST) => found = Found::Existing,
            Err(error) if is_unfit(error, above) => return Err(Unstorable::unfit(error).into()),
            Err(error) => {
                return Err(io::Error::from(error))
                    .with_context(|| format!("cannot create directory {}", shown_path(path)));
            }
        }
    }
    Err(stated!("{} is removed repeatedly by another program", shown_path(path)))
}

/// Opens an existing directory by name, without following links.
pub fn open_directory(above: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(above, name, flags, Mode::empty())
}

/// Removes all permissions outside this mode. Permissions are never added, because the directory may have been
/// replaced meanwhile.
fn restrict(handle: &OwnedFd, mode: u32) -> io::Result<()> {
    let now = Mode::from_raw_mode(fstat(handle)?.st_mode);
    let all = Mode::RWXU | Mode::RWXG | Mode::RWXO;
    let too_much = all.difference(Mode::from_raw_mode(mode as _));
    if now.intersects(too_much) {
        match fchmod(handle, now.difference(too_much)) {
            // The file system has no permissions, such as FAT.
            Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => {}
            changed => changed?,
        }
    }
    Ok(())
}

const MAX_OPEN_ATTEMPTS: usize = 16;
