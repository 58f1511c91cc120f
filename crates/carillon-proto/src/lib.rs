//! The protocols, each a state machine that does no I/O.

pub mod session;
