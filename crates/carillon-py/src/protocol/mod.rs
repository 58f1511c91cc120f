//! Protocols: the registry, and protocols that are written in Python.

mod entry;
mod failure;
mod list;
mod machine;
mod words;

pub use entry::{check_protocol, entries, register};
pub use failure::{Guard, note_failure, take_failure};
pub use list::protocols;
pub use words::word;
