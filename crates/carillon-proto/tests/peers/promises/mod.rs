//! What each protocol promises.

pub mod erramilli_singh;
pub mod sequencer;
