//! Multicast protocols and the session around them, as state machines without I/O.

pub mod blocks;
pub mod protocols;
pub mod session;

pub use protocols::{REGISTRY, find};
