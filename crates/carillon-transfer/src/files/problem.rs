//! Failures of a transfer at a receiver.

use std::fmt;
use std::os::fd::BorrowedFd;

use carillon_wire::file::RelativePath;
use rustix::fs::fstat;
use rustix::io::Errno;

use super::names::shown_name;
use super::unstorable::Unstorable;
use crate::LocalError;

/// Reason why a transfer failed at this receiver.
#[derive(Debug)]
pub enum Problem {
    /// The sender's transfer cannot be received.
    Transfer(String),
    /// Received data differs from the sent data or is incomplete; another attempt may succeed.
    Damaged(String),
    /// A local error: disk or files.
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

/// Returns true if this error of creating an entry means that the file system cannot store its name. Some file
/// systems report a bad name as "not found" although the directory exists.
pub fn is_unfit(error: Errno, directory: BorrowedFd<'_>) -> bool {
    match error {
        Errno::INVAL | Errno::NAMETOOLONG | Errno::ILSEQ => true,
        Errno::NOENT => fstat(directory).is_ok_and(|stat| stat.st_nlink > 0),
        _ => false,
    }
}

/// Checks that the bytes of a file arrive in order.
pub fn in_order(name: &[u8], expected: u64, offset: u64) -> Result<(), Problem> {
    if offset == expected {
        return Ok(());
    }
    let what = if offset > expected { "are missing" } else { "came twice" };
    let (from, to) = (offset.min(expected), offset.max(expected));
    Err(Problem::Damaged(format!("{} is incomplete: bytes {from} to {to} {what}", shown_name(name))))
}

/// Failure: received data differs from the sent data.
pub fn damaged(reason: String) -> Problem {
    Problem::Damaged(reason)
}

/// Parses a name as a path below the directory.
pub fn relative(name: &[u8]) -> Result<RelativePath<'_>, Problem> {
    RelativePath::new(name).ok_or_else(|| refused(&format!("the path {} is too long", shown_name(name))))
}

/// Failure by a local error.
pub fn ours(error: LocalError) -> Problem {
    Problem::Local(error)
}

/// Failure by an invalid transfer.
pub fn refused(reason: &str) -> Problem {
    Problem::Transfer(reason.to_owned())
}

/// Separates local errors from entries that cannot be stored.
pub fn stored<T>(done: Result<T, LocalError>) -> Result<Result<T, Unstorable>, Problem> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(error) => error.into_unstorable().map(Err).map_err(ours),
    }
}
