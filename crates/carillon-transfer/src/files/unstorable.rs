//! Entries that a directory cannot store.

use std::fmt;
use std::io;

use super::names::shown_name;

/// An entry that this directory cannot store, while others may be stored.
#[derive(Debug)]
pub struct Unstorable(String);

impl Unstorable {
    /// The file system treats it as another entry of the same transfer.
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

    /// The existing file cannot be changed.
    pub fn not_in_place(error: io::Error) -> Self {
        Unstorable(format!("cannot be changed in place: {error}"))
    }

    /// The system refuses to create it.
    pub fn special(what: &str, error: impl Into<io::Error>) -> Self {
        Unstorable(format!("is a {what}, which this receiver cannot store: {}", error.into()))
    }

    /// This receiver accepts no devices.
    pub fn unwanted_device() -> Self {
        Unstorable("is a device, which needs recv --allow-archive=privileged".to_owned())
    }

    /// Something in its place is kept.
    pub fn blocked() -> Self {
        Unstorable("is not stored, because entries that --exclude keeps are in its place".to_owned())
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
