//! Reports for people: simulated results as one HTML page or as text for a terminal.
//!
//! A report reads results and never runs anything.

mod counts;
mod document;
mod folder;
mod outcome;
mod page;
mod sources;
mod text;

pub use counts::{ChangedCounts, SourceCounts};
pub use folder::{FolderReport, ReportError};
pub use page::Page;
pub use sources::{SourceTally, Sources};
