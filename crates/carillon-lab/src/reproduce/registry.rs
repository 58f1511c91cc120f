//! The shipped experiments.

use super::{Experiment, open, segovia};

/// Every shipped experiment: those of each source in their order.
pub const EXPERIMENTS: &[Experiment] = &ALL;

const ALL: [Experiment; segovia::EXPERIMENTS.len() + open::EXPERIMENTS.len()] = {
    let mut all = [segovia::EXPERIMENTS[0]; segovia::EXPERIMENTS.len() + open::EXPERIMENTS.len()];
    let (first, second) = all.split_at_mut(segovia::EXPERIMENTS.len());
    first.copy_from_slice(segovia::EXPERIMENTS);
    second.copy_from_slice(open::EXPERIMENTS);
    all
};

/// The experiment of this name.
pub fn find(id: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.id == id)
}

/// The experiments that a name stands for: the one of this name, or all of this source.
pub fn matching(name: &str) -> Vec<&'static Experiment> {
    let of_source = |id: &str| id.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
    EXPERIMENTS.iter().filter(|experiment| experiment.id == name || of_source(experiment.id)).collect()
}
