//! Answers: packets to single nodes, with bounds on those to strangers.

use std::collections::{BTreeMap, VecDeque};

use carillon_core::{NodeId, Seeds, Time};
use carillon_wire::session::OtherRelease;

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
    /// Nodes that claimed another release once, with the release; the oldest first, at most
    /// [`MAX_CLAIMS`](super::releases::MAX_CLAIMS).
    pub release_claims: VecDeque<(NodeId, OtherRelease)>,
}

impl Answering {
    pub fn new(cookies: Seeds) -> Self {
        Answering {
            replies: BTreeMap::new(),
            cookies,
            strangers: (Time::ZERO, 0),
            rivals: Vec::new(),
            release_claims: VecDeque::new(),
        }
    }
}
