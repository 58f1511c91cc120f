//! Errors of creating entries, and the reasons behind them.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;

use super::super::names::{shown_path, split};
use super::super::problem::is_unfit;
use super::super::unstorable::Unstorable;
use super::super::written::Written;
use crate::error::{LocalError, stated};

/// Reason why an entry could not be given its name.
pub(super) fn unnamed_because(
    error: io::Error,
    directory: BorrowedFd<'_>,
    name: &[u8],
    written: &Written,
    path: &dyn Fn() -> PathBuf,
) -> LocalError {
    let found = statat(directory, split(name).1, AtFlags::SYMLINK_NOFOLLOW);
    if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory)
        && let Ok(found) = &found
    {
        if let Some(other) = written.alias(directory, name, found) {
            return Unstorable::alias(&other).into();
        }
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            return is_a_directory(&path());
        }
    }
    match error.kind() {
        io::ErrorKind::AlreadyExists => exists(&path()),
        _ if is_unfit_io(&error, directory) => Unstorable::unfit(error).into(),
        _ => LocalError::from(error).context(cannot_create(&path())),
    }
}

pub(super) fn is_unfit_io(error: &io::Error, directory: BorrowedFd<'_>) -> bool {
    Errno::from_io_error(error).is_some_and(|error| is_unfit(error, directory))
}

/// Returns true if the error means that the file system has no symbolic links.
pub(super) fn has_no_links(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::NOSYS | Errno::NOTSUP))
}

pub(super) fn is_a_directory(path: &Path) -> LocalError {
    stated!("{} is a directory: choose another --out", shown_path(path))
}

pub(super) fn exists(path: &Path) -> LocalError {
    stated!("{} exists: give --overwrite to replace it, or another --out", shown_path(path))
}

pub(super) fn cannot_create(path: &Path) -> String {
    format!("cannot create {}", shown_path(path))
}

pub(super) fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", shown_path(path))
}
