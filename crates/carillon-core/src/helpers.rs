//! Addressed helpers and the table of parents.
//!
//! Helpers are designated receivers, local exchanges, repair servers and inner nodes of a tree. They offer nothing:
//! they receive the group's messages, keep them for their children, aggregate feedback, and repair. The table is the
//! same at every node, and an update only moves nodes towards the sender, so no cycle can form however late a node
//! learns of it.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::NodeId;

/// Use of helpers by a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helpers {
    /// No helpers.
    None,
    /// Any number of helpers; without any, every member is a child of the sender.
    Optional,
    /// At least this many helpers.
    Required(u32),
}

impl Helpers {
    /// Returns true if a group may have this number of helpers.
    pub fn allow(self, count: usize) -> bool {
        match self {
            Helpers::None => count == 0,
            Helpers::Optional => true,
            Helpers::Required(least) => count >= least as usize,
        }
    }
}

/// Entry of a helper in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Helper {
    /// Node of the helper.
    pub node: NodeId,
    /// Parent helper; `None` for a child of the sender.
    pub parent: Option<NodeId>,
    /// True if the helper also delivers: a designated receiver, which is a member.
    pub delivers: bool,
}

/// Parent of every node: members and helpers below helpers, all others below the sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelperTable {
    edition: u32,
    helpers: Vec<Helper>,
    /// Helper above each member; a member without entry is a child of the sender.
    members: BTreeMap<NodeId, NodeId>,
    /// Lost members, which are children of no node.
    gone: BTreeSet<NodeId>,
    /// Index of each helper in `helpers`, and children of each: large groups have thousands of helpers.
    places: BTreeMap<NodeId, usize>,
    children: BTreeMap<NodeId, Vec<NodeId>>,
}

/// Reason why a table is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// A helper is listed twice.
    #[error("helper {0} stands twice in the table")]
    DuplicateHelper(NodeId),
    /// A node has a parent that is no helper.
    #[error("{0} turns to {1}, which is no helper")]
    UnknownHelper(NodeId, NodeId),
    /// A chain of helpers does not end at the sender.
    #[error("helper {0} turns to itself by way of others")]
    Cycle(NodeId),
}

impl HelperTable {
    /// Builds the table from helpers and from pairs of member and parent; fails if it is not a tree.
    pub fn new(
        helpers: Vec<Helper>,
        members: impl IntoIterator<Item = (NodeId, NodeId)>,
    ) -> Result<Self, TableError> {
        let members: BTreeMap<NodeId, NodeId> = members.into_iter().collect();
        let table = HelperTable { helpers, members, ..HelperTable::default() }.indexed();
        // No helper may be listed twice.
        let mut known = BTreeMap::new();
        for helper in &table.helpers {
            if known.insert(helper.node, helper.parent).is_some() {
                return Err(TableError::DuplicateHelper(helper.node));
            }
        }
        // Every parent must be a helper.
        let turns = table.helpers.iter().filter_map(|helper| Some((helper.node, helper.parent?)));
        let members = table.members.iter().map(|(&member, &helper)| (member, helper));
        if let Some((node, to)) = turns.chain(members).find(|(_, to)| !known.contains_key(to)) {
            return Err(TableError::UnknownHelper(node, to));
        }
        // No cycle: the parents of each helper must lead to the sender. Helpers known to reach it end the walk, so
        // that each is visited once.
        let mut reaching = BTreeSet::new();
        for helper in &table.helpers {
            let (mut way, mut at) = (BTreeSet::new(), Some(helper.node));
            while let Some(node) = at.filter(|node| !reaching.contains(node)) {
                if !way.insert(node) {
                    return Err(TableError::Cycle(helper.node));
                }
                at = known.get(&node).copied().flatten();
            }
            reaching.append(&mut way);
        }
        Ok(table)
    }

    /// Builds a tree in which each node has at most `fanout` children, as far as helpers suffice.
    ///
    /// The first helpers are children of the sender and the next ones their children; the members are distributed
    /// over the last helpers in turn.
    pub fn balanced(helpers: &[NodeId], members: &[NodeId], fanout: usize) -> Self {
        let fanout = fanout.max(1);
        // Level order: the first `fanout` helpers are below the sender, helper `i` is below helper `(i - fanout) /
        // fanout`.
        let parent = |index: usize| index.checked_sub(fanout).map(|below| helpers[below / fanout]);
        let delivering: BTreeSet<&NodeId> = members.iter().collect();
        let entry = |(index, node): (usize, &NodeId)| Helper {
            node: *node,
            parent: parent(index),
            delivers: delivering.contains(node),
        };
        let entries: Vec<Helper> = helpers.iter().enumerate().map(entry).collect();
        // Members are distributed over the leaves only, so that inner helpers keep at most `fanout` children.
        let inner: BTreeSet<NodeId> = entries.iter().filter_map(|entry| entry.parent).collect();
        let leaves: Vec<NodeId> = helpers.iter().filter(|helper| !inner.contains(helper)).copied().collect();
        let known: BTreeSet<&NodeId> = helpers.iter().collect();
        let others = members.iter().filter(|member| !known.contains(member));
        let members = others.zip(leaves.iter().cycle()).map(|(&member, &leaf)| (member, leaf)).collect();
        HelperTable { helpers: entries, members, ..HelperTable::default() }.indexed()
    }

    /// Rebuilds both indexes.
    fn indexed(mut self) -> Self {
        // The first entry of a duplicate counts; `new` refuses such a table.
        let entries = self.helpers.iter().enumerate().rev();
        self.places = entries.map(|(at, helper)| (helper.node, at)).collect();
        self.children = BTreeMap::new();
        let helpers = self.helpers.iter().filter_map(|helper| Some((helper.node, helper.parent?)));
        for (child, to) in helpers.chain(self.members.iter().map(|(&member, &to)| (member, to))) {
            self.children.entry(to).or_default().push(child);
        }
        self
    }

    /// Entry of a helper.
    pub fn helper(&self, node: NodeId) -> Option<&Helper> {
        self.places.get(&node).map(|&at| &self.helpers[at])
    }

    /// Returns the next edition of the table without a lost node.
    ///
    /// The children of a lost helper move to its parent, and a lost member becomes a child of no node. `None` if the
    /// node is neither: the sender learns of the loss of its own children through [`expel`](crate::Sender::expel).
    pub fn without(&self, lost: NodeId) -> Option<Self> {
        // Most lost nodes are direct children of the sender and change no table.
        if !self.is_helper(lost) && !self.members.contains_key(&lost) {
            return None;
        }
        let mut next = self.clone();
        next.edition = self.edition.saturating_add(1);
        // A lost member loses its own entry only.
        let Some(&Helper { parent, delivers, .. }) = self.helper(lost) else {
            next.members.remove(&lost)?;
            next.gone.insert(lost);
            return Some(next.indexed());
        };
        if delivers {
            next.gone.insert(lost);
        }
        next.helpers.retain(|helper| helper.node != lost);
        // The children of a lost helper move to its parent, or to the sender if it had none.
        for helper in next.helpers.iter_mut().filter(|helper| helper.parent == Some(lost)) {
            helper.parent = parent;
        }
        match parent {
            Some(parent) => next.members.values_mut().filter(|to| **to == lost).for_each(|to| *to = parent),
            None => next.members.retain(|_, to| *to != lost),
        }
        Some(next.indexed())
    }

    /// Returns the same table in the numbering of another host.
    pub fn renumbered(&self, local: impl Fn(NodeId) -> NodeId) -> Self {
        let helper = |helper: &Helper| Helper {
            node: local(helper.node),
            parent: helper.parent.map(&local),
            delivers: helper.delivers,
        };
        HelperTable {
            edition: self.edition,
            helpers: self.helpers.iter().map(helper).collect(),
            members: self.members.iter().map(|(&member, &to)| (local(member), local(to))).collect(),
            gone: self.gone.iter().map(|&member| local(member)).collect(),
            ..HelperTable::default()
        }
        .indexed()
    }

    /// Edition of the table, counted from 0. A machine ignores a table that is not newer than its own.
    pub fn edition(&self) -> u32 {
        self.edition
    }

    /// List of all helpers.
    pub fn helpers(&self) -> &[Helper] {
        &self.helpers
    }

    /// Returns true if a node is a helper.
    pub fn is_helper(&self, node: NodeId) -> bool {
        self.places.contains_key(&node)
    }

    /// Parent helper of a node; `None` for a child of the sender.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        match self.helper(node) {
            Some(helper) => helper.parent,
            None => self.members.get(&node).copied(),
        }
    }

    /// Children of a helper, helpers and members alike. [`children_of_sender`](Self::children_of_sender) returns
    /// those of the sender, which also serves members without an entry.
    pub fn children(&self, helper: NodeId) -> Vec<NodeId> {
        self.children.get(&helper).cloned().unwrap_or_default()
    }

    /// Helpers and those of the given members that are children of the sender.
    pub fn children_of_sender(&self, members: &[NodeId]) -> Vec<NodeId> {
        let helpers = self.helpers.iter().filter(|child| child.parent.is_none()).map(|child| child.node);
        let turns_to_none = |member: &&NodeId| {
            !self.is_helper(**member) && !self.members.contains_key(member) && !self.gone.contains(member)
        };
        helpers.chain(members.iter().filter(turns_to_none).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(range: std::ops::RangeInclusive<u32>) -> Vec<NodeId> {
        range.map(NodeId).collect()
    }

    fn helper(node: u32, parent: Option<u32>) -> Helper {
        Helper { node: NodeId(node), parent: parent.map(NodeId), delivers: false }
    }

    #[test]
    fn balanced_tree_assigns_children_in_turn() {
        let table = HelperTable::balanced(&nodes(10..=13), &nodes(1..=5), 2);
        let parents: Vec<_> =
            (10..=13).map(|node| table.parent(NodeId(node)).map(|parent| parent.0)).collect();
        assert_eq!(parents, [None, None, Some(10), Some(10)]);
        assert_eq!(table.children(NodeId(11)), [NodeId(1), NodeId(4)], "it has no helper below it");
        assert_eq!(table.children(NodeId(10)), [NodeId(12), NodeId(13)]);
        assert_eq!(table.children_of_sender(&nodes(1..=5)), [NodeId(10), NodeId(11)]);
    }

    #[test]
    fn member_among_helpers_delivers() {
        let table = HelperTable::balanced(&nodes(1..=1), &nodes(1..=3), 2);
        assert!(table.helpers()[0].delivers);
        assert_eq!(table.parent(NodeId(1)), None);
        assert_eq!(table.children_of_sender(&nodes(1..=3)), [NodeId(1)]);
    }

    #[test]
    fn children_of_a_lost_helper_move_to_its_parent_or_the_sender() {
        let table =
            HelperTable::new(vec![helper(8, None), helper(9, Some(8))], [(NodeId(1), NodeId(9))]).unwrap();
        let next = table.without(NodeId(9)).unwrap();
        assert_eq!((next.edition(), next.parent(NodeId(1))), (1, Some(NodeId(8))));
        let last = next.without(NodeId(8)).unwrap();
        assert_eq!((last.edition(), last.parent(NodeId(1))), (2, None));
        assert_eq!(last.children_of_sender(&nodes(1..=1)), [NodeId(1)]);
        assert_eq!(last.without(NodeId(8)), None, "it is lost already");
    }

    #[test]
    fn lost_member_has_no_parent() {
        let members = [(NodeId(1), NodeId(8)), (NodeId(2), NodeId(8))];
        let table = HelperTable::new(vec![helper(8, None)], members).unwrap();
        let next = table.without(NodeId(1)).unwrap();
        assert_eq!((next.edition(), next.children(NodeId(8))), (1, vec![NodeId(2)]));
        assert_eq!(next.without(NodeId(1)), None, "it is lost already");
        assert_eq!(table.without(NodeId(3)), None, "the sender serves it itself");
        // The result does not depend on which node is lost first.
        let (one, other) = (next.without(NodeId(8)), table.without(NodeId(8)).unwrap());
        assert_eq!(one.map(|table| table.children_of_sender(&nodes(1..=2))), Some(vec![NodeId(2)]));
        assert_eq!(other.children_of_sender(&nodes(1..=2)), nodes(1..=2));
    }

    #[test]
    fn invalid_tables_are_refused() {
        let table =
            |helpers, members: &[(NodeId, NodeId)]| HelperTable::new(helpers, members.iter().copied());
        let twice = vec![helper(8, None), helper(8, None)];
        assert_eq!(table(twice, &[]), Err(TableError::DuplicateHelper(NodeId(8))));
        let strange = vec![helper(8, Some(3))];
        assert_eq!(table(strange, &[]), Err(TableError::UnknownHelper(NodeId(8), NodeId(3))));
        let circle = vec![helper(8, Some(9)), helper(9, Some(8))];
        assert_eq!(table(circle, &[]), Err(TableError::Cycle(NodeId(8))));
        assert_eq!(
            table(vec![], &[(NodeId(1), NodeId(2))]),
            Err(TableError::UnknownHelper(NodeId(1), NodeId(2)))
        );
    }
}
