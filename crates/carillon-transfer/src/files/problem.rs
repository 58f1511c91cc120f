//! Why a transfer fails here.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use carillon_wire::file::RelativePath;
use rustix::fs::fstat;
use rustix::io::Errno;

use super::names::shown_name;
use crate::LocalError;

/// Why a transfer failed here.
#[derive(Debug)]
pub enum Problem {
    /// It cannot be had as it is sent.
    Transfer(String),
    /// What arrived is not what was sent, or not all: it may do better another time.
    Damaged(String),
    /// The receiver's own trouble: its disk, its files.
    Local(LocalError),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Transfer(reason) | Problem::Damaged(reason) => f.write_str(reason),
            Problem::Local(error) => write!(f, "{error}"),
        }
    }
}

/// An entry that this directory cannot store; all others may be stored.
#[derive(Debug)]
pub struct Unstorable(String);

impl Unstorable {
    /// The file system takes it for another entry of the same transfer.
    pub fn alias(other: &[u8]) -> Self {
        Unstorable(format!("is the same file as {} to the file system of this receiver", shown_name(other)))
    }

    /// The file system refuses its name.
    pub fn unfit(error: impl Into<io::Error>) -> Self {
        Unstorable(format!("has a name that the file system of this receiver cannot store: {}", error.into()))
    }

    /// The file system has no symbolic links.
    pub fn link(error: impl Into<io::Error>) -> Self {
        Unstorable(format!(
            "is a symbolic link, which the file system of this receiver cannot store: {}",
            error.into()
        ))
    }

    /// The file system stores it under another name.
    pub fn renamed() -> Self {
        Unstorable("has a name that the file system of this receiver changes".to_owned())
    }
}

impl fmt::Display for Unstorable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unstorable {}

/// Whether this error of making an entry says that the file system cannot store its name. Some say of a bad name that
/// there is no such file, although the directory is there.
pub fn is_unfit(error: Errno, directory: BorrowedFd<'_>) -> bool {
    match error {
        Errno::INVAL | Errno::NAMETOOLONG | Errno::ILSEQ => true,
        Errno::NOENT => fstat(directory).is_ok_and(|stat| stat.st_nlink > 0),
        _ => false,
    }
}

/// Each byte of a file comes once, and in its turn.
pub fn in_order(name: &[u8], expected: u64, offset: u64) -> Result<(), Problem> {
    if offset == expected {
        return Ok(());
    }
    let what = if offset > expected { "are missing" } else { "came twice" };
    let (from, to) = (offset.min(expected), offset.max(expected));
    Err(Problem::Damaged(format!("{} is incomplete: bytes {from} to {to} {what}", shown_name(name))))
}

/// What came is not what was sent.
pub fn damaged(reason: String) -> Problem {
    Problem::Damaged(reason)
}

/// A name as one that goes below the directory.
pub fn relative(name: &[u8]) -> Result<RelativePath<'_>, Problem> {
    RelativePath::new(name).ok_or_else(|| refused(&format!("the path {} is too long", shown_name(name))))
}

/// This receiver's own trouble.
pub fn ours(error: anyhow::Error) -> Problem {
    Problem::Local(LocalError(error))
}

/// What is wrong with what is sent.
pub fn refused(reason: &str) -> Problem {
    Problem::Transfer(reason.to_owned())
}

/// This receiver's own trouble, or why this entry alone cannot be stored.
pub fn stored<T>(done: anyhow::Result<T>) -> Result<Result<T, Unstorable>, Problem> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(error) => error.downcast::<Unstorable>().map(Err).map_err(ours),
    }
}
