//! Helpers that are addressed, and the one table of who turns to whom.
//!
//! Designated receivers, local exchanges, repair servers, the inner nodes of a tree: they offer nothing, but hear the
//! group, keep messages for others, gather what others say, and speak for them. The table is the same at every node.
//! It only ever moves nodes towards the sender, so that no circle can form however late each node hears of it.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::NodeId;

/// What a protocol does with helpers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helpers {
    /// It has none.
    None,
    /// It works better with some. Without any, all turn to the sender.
    Optional,
    /// It needs at least so many.
    Required(u32),
}

impl Helpers {
    /// Whether a group may have so many.
    pub fn allow(self, count: usize) -> bool {
        match self {
            Helpers::None => count == 0,
            Helpers::Optional => true,
            Helpers::Required(least) => count >= least as usize,
        }
    }
}

/// A helper in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Helper {
    /// Where it runs.
    pub node: NodeId,
    /// The helper it turns to itself; the sender if there is none.
    pub parent: Option<NodeId>,
    /// Whether it delivers too: a designated receiver, one of the members.
    pub delivers: bool,
}

/// Who turns to whom: helpers to helpers, members to helpers, and the rest to the sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelperTable {
    edition: u32,
    helpers: Vec<Helper>,
    /// The helper that each member turns to first; who is not here turns to the sender.
    members: BTreeMap<NodeId, NodeId>,
    /// Members that are lost, and nobody's children any more.
    gone: BTreeSet<NodeId>,
    /// The places of helpers above, and the children of each: large groups have thousands of helpers.
    places: BTreeMap<NodeId, usize>,
    children: BTreeMap<NodeId, Vec<NodeId>>,
}

/// Why a table is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// A helper stands in it twice.
    #[error("helper {0} stands twice in the table")]
    DuplicateHelper(NodeId),
    /// Somebody turns to a node that is no helper.
    #[error("{0} turns to {1}, which is no helper")]
    UnknownHelper(NodeId, NodeId),
    /// A way from helper to helper does not end at the sender.
    #[error("helper {0} turns to itself by way of others")]
    Cycle(NodeId),
}

impl HelperTable {
    /// The table of these helpers, and of the members that turn to one of them.
    pub fn new(
        helpers: Vec<Helper>,
        members: impl IntoIterator<Item = (NodeId, NodeId)>,
    ) -> Result<Self, TableError> {
        let members: BTreeMap<NodeId, NodeId> = members.into_iter().collect();
        let table = HelperTable { helpers, members, ..HelperTable::default() }.indexed();
        let mut known = BTreeMap::new();
        for helper in &table.helpers {
            if known.insert(helper.node, helper.parent).is_some() {
                return Err(TableError::DuplicateHelper(helper.node));
            }
        }
        let turns = table.helpers.iter().filter_map(|helper| Some((helper.node, helper.parent?)));
        let members = table.members.iter().map(|(&member, &helper)| (member, helper));
        if let Some((node, to)) = turns.chain(members).find(|(_, to)| !known.contains_key(to)) {
            return Err(TableError::UnknownHelper(node, to));
        }
        // Helpers from which the sender is reached: each is gone by once.
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

    /// A tree in which each node has at most `fanout` children as long as there are helpers enough: the first helpers
    /// turn to the sender, the next to these, and the members to the last ones, in turn.
    pub fn balanced(helpers: &[NodeId], members: &[NodeId], fanout: usize) -> Self {
        let fanout = fanout.max(1);
        let parent = |index: usize| index.checked_sub(fanout).map(|below| helpers[below / fanout]);
        let delivering: BTreeSet<&NodeId> = members.iter().collect();
        let entry = |(index, node): (usize, &NodeId)| Helper {
            node: *node,
            parent: parent(index),
            delivers: delivering.contains(node),
        };
        let entries: Vec<Helper> = helpers.iter().enumerate().map(entry).collect();
        let inner: BTreeSet<NodeId> = entries.iter().filter_map(|entry| entry.parent).collect();
        let leaves: Vec<NodeId> = helpers.iter().filter(|helper| !inner.contains(helper)).copied().collect();
        let known: BTreeSet<&NodeId> = helpers.iter().collect();
        let others = members.iter().filter(|member| !known.contains(member));
        let members = others.zip(leaves.iter().cycle()).map(|(&member, &leaf)| (member, leaf)).collect();
        HelperTable { helpers: entries, members, ..HelperTable::default() }.indexed()
    }

    /// The same, with what is looked up in it.
    fn indexed(mut self) -> Self {
        // Of a helper that stands in it twice the first counts; such a table is refused.
        let entries = self.helpers.iter().enumerate().rev();
        self.places = entries.map(|(at, helper)| (helper.node, at)).collect();
        self.children = BTreeMap::new();
        let helpers = self.helpers.iter().filter_map(|helper| Some((helper.node, helper.parent?)));
        for (child, to) in helpers.chain(self.members.iter().map(|(&member, &to)| (member, to))) {
            self.children.entry(to).or_default().push(child);
        }
        self
    }

    /// What the table says of a helper.
    pub fn helper(&self, node: NodeId) -> Option<&Helper> {
        self.places.get(&node).map(|&at| &self.helpers[at])
    }

    /// The next edition, without a node that is lost. The children of a helper turn to its parent; a member that turned to
    /// one is nobody's child any more. `None` if it is neither: whom the sender serves itself it can be told of by
    /// [`expel`](crate::Sender::expel).
    pub fn without(&self, lost: NodeId) -> Option<Self> {
        // Most that are lost are those that the sender serves itself: of them there is no table.
        if !self.is_helper(lost) && !self.members.contains_key(&lost) {
            return None;
        }
        let mut next = self.clone();
        next.edition = self.edition.saturating_add(1);
        let Some(&Helper { parent, delivers, .. }) = self.helper(lost) else {
            next.members.remove(&lost)?;
            next.gone.insert(lost);
            return Some(next.indexed());
        };
        if delivers {
            next.gone.insert(lost);
        }
        next.helpers.retain(|helper| helper.node != lost);
        for helper in next.helpers.iter_mut().filter(|helper| helper.parent == Some(lost)) {
            helper.parent = parent;
        }
        match parent {
            Some(parent) => next.members.values_mut().filter(|to| **to == lost).for_each(|to| *to = parent),
            None => next.members.retain(|_, to| *to != lost),
        }
        Some(next.indexed())
    }

    /// The same table at a host that numbers nodes by itself.
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

    /// Which edition: a machine takes no table over that is not newer than what it has.
    pub fn edition(&self) -> u32 {
        self.edition
    }

    /// The helpers.
    pub fn helpers(&self) -> &[Helper] {
        &self.helpers
    }

    /// Whether a node is one of them.
    pub fn is_helper(&self, node: NodeId) -> bool {
        self.places.contains_key(&node)
    }

    /// The helper that a node turns to; the sender if there is none.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        match self.helper(node) {
            Some(helper) => helper.parent,
            None => self.members.get(&node).copied(),
        }
    }

    /// The helpers and members that turn to a helper. Those of the sender, who also has all members that no helper
    /// serves, are found with [`children_of_sender`](Self::children_of_sender).
    pub fn children(&self, helper: NodeId) -> Vec<NodeId> {
        self.children.get(&helper).cloned().unwrap_or_default()
    }

    /// The helpers that turn to the sender, and those of these members that do.
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
        // Whichever is lost first.
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
