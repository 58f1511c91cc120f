//! What each protocol promises.

pub mod chang_maxemchuk;
pub mod erramilli_singh;
pub mod sequencer;
