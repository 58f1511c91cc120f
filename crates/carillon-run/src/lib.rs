//! Simulation of scenarios: scenario -> plan -> world -> trace -> metrics.
//!
//! This part of the laboratory needs no files, threads or clock, so that it also runs inside a web page. Its hosts read
//! the files that a scenario names ([`scenario::Inputs`]) and supervise runs ([`run::Supervisor`]).

pub mod drops;
pub mod metrics;
pub mod plan;
pub mod run;
pub mod scenario;
pub mod topologies;
pub mod trace;
