//! Errors of result folders.

use std::io;
use std::path::Path;

use thiserror::Error;

use crate::table::TableError;

/// A folder that could not be written.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// A table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The folder or the manifest.
    #[error("cannot write {path}: {error}")]
    Io {
        /// Path of the file that could not be written.
        path: String,
        /// Why it was not.
        error: io::Error,
    },
    /// The folder has results, and the caller did not choose how to handle them.
    #[error("{0}")]
    There(String),
}

/// Error of reading or writing a file.
pub(super) fn io_at(path: &Path) -> impl Fn(io::Error) -> ResultsError {
    let path = path.display().to_string();
    move |error| ResultsError::Io { path: path.clone(), error }
}
