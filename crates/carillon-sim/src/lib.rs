//! The deterministic network simulator.

pub mod queue;
