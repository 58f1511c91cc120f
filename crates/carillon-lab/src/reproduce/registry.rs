//! The shipped experiments.

use super::{Experiment, open, routed, segovia};

/// Every shipped experiment: those of each source in their order.
pub const EXPERIMENTS: &[Experiment] = &ALL;

const PARTS: [&[Experiment]; 3] = [segovia::EXPERIMENTS, open::EXPERIMENTS, routed::EXPERIMENTS];

static ALL: [Experiment; PARTS[0].len() + PARTS[1].len() + PARTS[2].len()] = {
    let mut all = [PARTS[0][0]; PARTS[0].len() + PARTS[1].len() + PARTS[2].len()];
    let (first, rest) = all.split_at_mut(PARTS[0].len());
    let (second, third) = rest.split_at_mut(PARTS[1].len());
    first.copy_from_slice(PARTS[0]);
    second.copy_from_slice(PARTS[1]);
    third.copy_from_slice(PARTS[2]);
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
