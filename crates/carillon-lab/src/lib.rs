//! The laboratory: scenario -> plan -> world -> trace -> metrics -> results -> report.
//!
//! [`carillon_run`] simulates a scenario without files, threads or clock. This crate adds them: it reads the files that
//! a scenario names, makes runs on several threads, and writes traces, results and reports.

pub mod check;
pub mod command_file;
pub mod compare;
pub mod inputs;
pub mod log;
pub mod plot;
pub mod report;
pub mod reproduce;
pub mod results;
pub mod run;
pub mod sheet;
pub mod shipped;
pub mod statistics;
pub mod statistics_file;
pub mod summary_file;
pub mod table;
pub mod trace;
pub mod view;

pub use carillon_run::{drops, metrics, plan, scenario, topologies};
