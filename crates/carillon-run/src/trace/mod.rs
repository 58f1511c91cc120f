//! Traces of runs: events with the frames that they are about, as JSON or in columns.

pub mod frame;
pub mod jsonl;
pub mod nam;
mod parsed;
pub mod recording;

pub use jsonl::JsonLines;
pub use nam::Nam;
pub use recording::Recording;
