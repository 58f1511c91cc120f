//! What each protocol promises.
pub mod chang_maxemchuk;
