//! Why a transfer fails here.

use std::fmt;

use carillon_wire::file::RelativePath;

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
