//! Multicast protocols as state machines without I/O.

pub mod blocks;
mod many_sources;
pub mod plain;
pub mod protocols;

pub use many_sources::ManySources;
pub use protocols::{PLAIN_ONLY, REGISTRY, find, find_plain};
