//! File that is viewed: its title, and the reasons why it cannot be viewed.

use std::io;
use std::path::{Path, PathBuf};

use carillon_run::trace::recording::{ImportError, RecordingError};
use thiserror::Error;

use crate::run::RunError;
use crate::scenario::ScenarioError;

/// Reason why a file cannot be viewed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ViewError {
    /// File that cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Cause.
        cause: io::Error,
    },
    /// JSON trace with a line that is no event.
    #[error("{}, {cause}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line and problem.
        cause: ImportError,
    },
    /// File that is no recording.
    #[error("{} {cause}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// Cause.
        cause: RecordingError,
    },
    /// File with other contents than its extension says.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Problem.
        problem: String,
    },
    /// Scenario with an error.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Scenario that cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Sweep, of which the page shows one point.
    #[error(
        "{origin} has {points} sweep points, and the page shows one run: choose a point with --set, such as --set {key}"
    )]
    Sweep {
        /// File of the scenario.
        origin: String,
        /// Number of points.
        points: usize,
        /// Swept key with its first value.
        key: String,
    },
    /// Run that was stopped.
    #[error("interrupted")]
    Stopped,
}

/// Name of a file, as the title of its recording.
pub(super) fn title(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Error of reading a file.
pub(super) fn in_file(path: &Path) -> impl Fn(io::Error) -> ViewError {
    move |cause| ViewError::Io { path: path.into(), cause }
}
