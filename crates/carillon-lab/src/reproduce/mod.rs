//! Shipped experiments: a table or figure of a source, run and compared with its published numbers, or a
//! study of a question that the source left open.
//!
//! An [`Experiment`] names the scenario, or scenarios, it is made from and what it shows: a table, a
//! figure, or a study. A [`Laboratory`] runs each scenario once, however many experiments are made from it.

mod ack_wait;
mod agents;
mod claims;
mod comparison;
mod error;
mod experiment;
mod figures;
mod files;
mod findings;
mod folder;
mod kept;
mod laboratory;
mod law;
mod mean;
mod means;
mod options;
mod paired;
mod published;
mod published_values;
mod quantities;
mod quotient;
mod recovery;
mod simulation;
mod simulations;
mod status_analysis;
mod study;
mod summary;
mod table;
mod task;

pub use crate::check::{Check, CheckVerdict, HEADINGS, table as check_table};
pub use crate::sheet::{Heading, Number, Sheet};
pub use ack_wait::{AckWaitSpec, Condition};
pub use comparison::{Bound, ComparedCell, ComparedRow, Comparison, PublishedCell, Verdict};
pub use error::ReproduceError;
pub use experiment::{Experiment, ExperimentKind};
pub use figures::{Curve, EachBound, FigureSpec};
pub use files::{EXPERIMENTS, find, matching, read};
pub use findings::StudyPlan;
pub use folder::FolderExperiment;
pub use kept::{List, Settings, Source, Static, Text};
pub use laboratory::{Laboratory, Outcome};
pub use means::MeansSpec;
pub use options::Options;
pub use paired::PairedSpec;
pub use published::Published;
pub use published_values::PublishedValues;
pub use quantities::{Key, Quantity};
pub use quotient::Quotient;
pub use recovery::{Pooled, RecoverySpec};
pub use simulation::{SimulatedPoint, Simulation};
pub use study::{Analysis, Study, StudySpec};
pub use table::{ExpectedDeviation, PublishedSamples, TableSpec, TestbedSpec};
