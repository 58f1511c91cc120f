//! Receivers of a group, numbered from zero.

use std::sync::Arc;

use carillon_core::{BuildContext, Dest, NodeId};

/// Fixed list of receivers in ascending order. The index of a member is its rank.
#[derive(Clone, Debug)]
pub struct Members {
    /// Nodes in ascending order, shared without a copy.
    nodes: Arc<[NodeId]>,
    /// True if node numbers have no gaps, as in the simulator. An index is then a subtraction.
    contiguous: bool,
}

impl Members {
    /// Creates the list of these nodes.
    ///
    /// # Panics
    ///
    /// Panics if the nodes are not in strictly ascending order.
    pub fn new(nodes: Arc<[NodeId]>) -> Self {
        assert!(nodes.windows(2).all(|pair| pair[0] < pair[1]), "members are listed in ascending order");
        // In ascending order without repetitions, the ends alone show whether there are gaps.
        let contiguous = match (nodes.first(), nodes.last()) {
            (Some(first), Some(last)) => last.index() - first.index() + 1 == nodes.len(),
            _ => true,
        };
        Members { nodes, contiguous }
    }

    /// Index of a node, if it is a member.
    pub fn index_of(&self, node: NodeId) -> Option<usize> {
        if self.contiguous {
            // A node before the first one has no index, and the subtraction must not wrap around.
            let index = node.0.checked_sub(self.nodes.first()?.0)? as usize;
            (index < self.nodes.len()).then_some(index)
        } else {
            self.nodes.binary_search(&node).ok()
        }
    }

    /// Node of the member with this index.
    pub fn node(&self, index: usize) -> NodeId {
        self.nodes[index]
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// Receivers of a sender, with the destination of their packets.
#[derive(Clone, Debug)]
pub struct Recipients {
    /// Receivers that must get the messages.
    pub members: Members,
    /// Destination of the packets.
    pub dest: Dest,
}

impl Recipients {
    /// Recipients of a multicast to all members of a group.
    pub fn group(context: &BuildContext) -> Self {
        Recipients { members: Members::new(context.members.clone()), dest: Dest::group(context.group) }
    }

    /// Recipients of a unicast to one receiver.
    pub fn one(receiver: NodeId) -> Self {
        Recipients { members: Members::new([receiver].into()), dest: Dest::Node(receiver) }
    }
}

/// Set of members, one bit each.
#[derive(Clone, Debug)]
pub struct MemberSet {
    /// Bits of the members, 64 in a word.
    words: Vec<u64>,
    /// Number of members in the set, which `len` need not count.
    len: usize,
}

impl MemberSet {
    /// Creates the empty set for a group of this size.
    pub fn empty(group: usize) -> Self {
        MemberSet { words: vec![0; group.div_ceil(64)], len: 0 }
    }

    /// Adds a member. Returns true if it was new.
    pub fn insert(&mut self, index: usize) -> bool {
        let (word, bit) = (index / 64, 1u64 << (index % 64));
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.len += usize::from(new);
        new
    }

    /// Removes a member. Returns true if it was present.
    pub fn remove(&mut self, index: usize) -> bool {
        let (word, bit) = (index / 64, 1u64 << (index % 64));
        let had = self.words[word] & bit != 0;
        self.words[word] &= !bit;
        self.len -= usize::from(had);
        had
    }

    /// Returns true if the member is in the set.
    pub fn contains(&self, index: usize) -> bool {
        self.words[index / 64] & (1 << (index % 64)) != 0
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.len = 0;
    }

    /// Number of members in the set.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_found_with_and_without_gaps() {
        for nodes in [vec![3, 4, 5, 6], vec![1, 5, 9], vec![7], vec![]] {
            let nodes: Vec<NodeId> = nodes.into_iter().map(NodeId).collect();
            let members = Members::new(nodes.clone().into());
            for node in (0..12).map(NodeId) {
                assert_eq!(members.index_of(node), nodes.iter().position(|n| *n == node));
            }
        }
    }
}
