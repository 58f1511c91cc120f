//! The shipped experiments.

use super::{Experiment, segovia};

/// Every shipped experiment.
pub const EXPERIMENTS: &[Experiment] = segovia::EXPERIMENTS;

/// The experiment of this name.
pub fn find(id: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.id == id)
}

/// The experiments that a name stands for: the one of this name, or all of this source.
pub fn matching(name: &str) -> Vec<&'static Experiment> {
    let of_source = |id: &str| id.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
    EXPERIMENTS.iter().filter(|experiment| experiment.id == name || of_source(experiment.id)).collect()
}
