//! The laboratory: scenario -> plan -> world -> trace -> metrics -> results -> report.

pub mod check;
pub mod command_file;
pub mod compare;
pub mod drops;
pub mod log;
pub mod metrics;
pub mod plan;
pub mod plot;
pub mod report;
pub mod reproduce;
pub mod results;
pub mod run;
pub mod scenario;
pub mod sheet;
pub mod shipped;
pub mod statistics;
pub mod statistics_file;
pub mod summary_file;
pub mod table;
pub mod topologies;
pub mod trace;
