//! How far members are from helpers and from the sender, as they have told, and who turns to whom by that.
//!
//! Helpers stand in the order of their distance from the sender, and turn only to such as stand before them: so no circle can
//! form, and whoever takes the place of one that is lost (its parent) is the one towards the sender that was nearest to it,
//! and has what those below it lack.

use std::collections::{BTreeMap, VecDeque};

use carillon_core::{Duration, NodeId};

use crate::session::LOCAL_NODE;

/// What members have told of how far they are from others.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Of those who have told: from whom, and how far. The sender is [`LOCAL_NODE`].
    pub of: BTreeMap<NodeId, BTreeMap<NodeId, Duration>>,
    /// Nobody is waited for any more: the tree is made by what is known.
    pub over: bool,
    /// The members are to be asked.
    pub due: bool,
    pub echoes: VecDeque<(NodeId, u64)>,
}

impl Measured {
    /// How far it is from one to another, as far as one of them has measured it; no way is longer than an unknown one.
    fn between(&self, one: NodeId, other: NodeId) -> Duration {
        let told = |from, to| self.of.get(&from).and_then(|told| told.get(&to)).copied();
        told(one, other).or_else(|| told(other, one)).unwrap_or(Duration::MAX)
    }

    /// Where these helpers turn to: `fanout` of them at most to each other one. In the order of their distance.
    pub fn parents(&self, helpers: &[NodeId], fanout: usize) -> Vec<(NodeId, Option<NodeId>)> {
        let from_sender = |&node: &NodeId| self.between(node, LOCAL_NODE);
        let mut ordered = helpers.to_vec();
        // Among equals in the order of joining.
        ordered.sort_by_key(from_sender);
        let mut children: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut placed: Vec<(NodeId, Option<NodeId>)> = Vec::new();
        for helper in ordered {
            let nearer = placed.iter().map(|&(other, _)| (self.between(helper, other), other));
            let nearer = nearer.filter(|&(way, other)| {
                is_clearly_nearer(way, from_sender(&helper))
                    && children.get(&other).is_none_or(|&count| count < fanout)
            });
            let parent = nearer.min_by_key(|&(way, _)| way).map(|(_, other)| other);
            if let Some(parent) = parent {
                *children.entry(parent).or_default() += 1;
            }
            placed.push((helper, parent));
        }
        placed
    }

    /// The helper that a member turns to, where each has so many children: the nearest, and of those that are about as near
    /// the one with the fewest. `None` if the sender is clearly nearer, or it knows of none.
    pub fn nearest(
        &self,
        member: NodeId,
        helpers: &[NodeId],
        children: &BTreeMap<NodeId, usize>,
    ) -> Option<NodeId> {
        let ways = || helpers.iter().map(|&helper| (self.between(member, helper), helper));
        let least = ways().map(|(way, _)| way).min().filter(|&least| least < Duration::MAX)?;
        if is_clearly_nearer(self.between(member, LOCAL_NODE), least) {
            return None;
        }
        let as_near = ways().filter(|&(way, _)| way <= least + least / 4 + NOISE / 2);
        let best = as_near.min_by_key(|&(way, helper)| (children.get(&helper).copied().unwrap_or(0), way));
        best.map(|(_, helper)| helper)
    }

    /// Whether the tree is to be made by what is known.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether a member has told.
    pub fn has(&self, node: &NodeId) -> bool {
        self.of.contains_key(node)
    }
}

/// By more than what two measures of the same way differ in: less than half as far, and by a millisecond.
fn is_clearly_nearer(one: Duration, other: Duration) -> bool {
    one.saturating_mul(2).saturating_add(NOISE) <= other
}

/// What two measures of one way may differ in, however short it is.
const NOISE: Duration = Duration::from_millis(1);
