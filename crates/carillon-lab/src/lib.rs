//! The laboratory: scenario -> plan -> world -> trace -> metrics -> results -> report.

pub mod statistics;
pub mod table;
pub mod trace;
