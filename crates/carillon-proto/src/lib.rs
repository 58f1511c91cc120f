//! The protocols, each a state machine that does no I/O.

pub mod blocks;
pub mod protocols;
pub mod session;

pub use protocols::{REGISTRY, find};
