//! Answers: packets to single nodes, with bounds on those to strangers.

use std::collections::BTreeMap;

use carillon_core::{NodeId, Seeds, Time};

use super::super::release_claims::ReleaseClaims;
use super::state::{Reply, Rival};

/// Pending answers, and the strangers that the sender remembers.
#[derive(Debug)]
pub(super) struct Answering {
    /// Pending answers, at most one per node.
    pub replies: BTreeMap<NodeId, Reply>,
    /// Key of the cookies.
    pub cookies: Seeds,
    /// Start of the present second, and the number of answers to strangers in it.
    pub strangers: (Time, u32),
    /// Other senders heard on the group.
    pub rivals: Vec<Rival>,
    /// Receivers that claimed another release once.
    pub release_claims: ReleaseClaims,
}

impl Answering {
    pub fn new(cookies: Seeds) -> Self {
        Answering {
            replies: BTreeMap::new(),
            cookies,
            strangers: (Time::ZERO, 0),
            rivals: Vec::new(),
            release_claims: ReleaseClaims::default(),
        }
    }
}
