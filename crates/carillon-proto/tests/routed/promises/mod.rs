//! What each protocol promises, and how it is set up for that.

pub mod lms;
pub mod pgm;
pub mod srm;
