//! Traces of runs: events with the frames that they are about, as JSON.

pub mod frame;
pub mod jsonl;

pub use jsonl::JsonLines;
