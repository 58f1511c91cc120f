//! Distances that members reported, and the helper tree derived from them.
//!
//! Helpers are ordered by their distance from the sender, and turn only to helpers before them, so that no cycle can
//! form. If a helper is lost, its parent takes its place: the nearest helper in the direction of the sender, which
//! has the data that the members below need.

use std::collections::{BTreeMap, VecDeque};

use carillon_core::{Duration, NodeId, States};

use crate::LOCAL_NODE;

/// Declared states.
pub(super) const STATES: States = States {
    of: "sender, distances",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Measuring", "the roster has helpers, and members turn to the nearest: MEASURE"),
        ("Measuring", "Over", "DISTANCES of all members, or the member timeout: ROSTER by distance"),
        ("Measuring", "Idle", "no helper is left"),
    ],
};

/// Distances reported by the members.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Distances by reporting node and target. The sender is [`LOCAL_NODE`].
    pub of: BTreeMap<NodeId, BTreeMap<NodeId, Duration>>,
    /// True if no more reports are awaited, and the tree is made from the present ones.
    pub over: bool,
    pub echoes: VecDeque<(NodeId, u64)>,
}

impl Measured {
    /// Distance between two nodes, as either has measured it; the maximum if neither has.
    fn between(&self, one: NodeId, other: NodeId) -> Duration {
        let told = |from, to| self.of.get(&from).and_then(|told| told.get(&to)).copied();
        told(one, other).or_else(|| told(other, one)).unwrap_or(Duration::MAX)
    }

    /// Parents of these helpers, in the order of their distance from the sender. Each helper has at most `fanout`
    /// others below it.
    pub fn parents(&self, helpers: &[NodeId], fanout: usize) -> Vec<(NodeId, Option<NodeId>)> {
        let from_sender = |&node: &NodeId| self.between(node, LOCAL_NODE);
        let mut ordered = helpers.to_vec();
        // Equal distances keep the order of joining.
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

    /// Helper of a member: the nearest one, or among nearly equal ones that with the fewest children. `None` if the
    /// sender is clearly nearer or no distance is known.
    pub fn nearest(
        &self,
        member: NodeId,
        helpers: &[NodeId],
        children: &BTreeMap<NodeId, usize>,
    ) -> Option<NodeId> {
        let ways = || helpers.iter().map(|&helper| (self.between(member, helper), helper));
        // `Duration::MAX` stands for an unknown distance.
        let least = ways().map(|(way, _)| way).min().filter(|&least| least < Duration::MAX)?;
        if is_clearly_nearer(self.between(member, LOCAL_NODE), least) {
            return None;
        }
        // Measurements vary, so nearly equal distances count as equal.
        let as_near = ways().filter(|&(way, _)| way <= least + least / 4 + NOISE / 2);
        let best = as_near.min_by_key(|&(way, helper)| (children.get(&helper).copied().unwrap_or(0), way));
        best.map(|(_, helper)| helper)
    }

    /// Name of the state.
    pub fn state(&self, is_measuring: bool) -> &'static str {
        match (self.over, is_measuring) {
            (true, _) => "Over",
            (false, true) => "Measuring",
            (false, false) => "Idle",
        }
    }

    /// Returns true if the tree is made from the present reports.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Returns true if a member has reported.
    pub fn has(&self, node: &NodeId) -> bool {
        self.of.contains_key(node)
    }
}

/// Returns true if a distance is less than half of another one and shorter by more than the noise.
fn is_clearly_nearer(one: Duration, other: Duration) -> bool {
    one.saturating_mul(2).saturating_add(NOISE) <= other
}

/// Difference that two measurements of the same path may have.
const NOISE: Duration = Duration::from_millis(1);
