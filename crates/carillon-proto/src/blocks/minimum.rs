//! Minimum of many numbers that change one by one.
//!
//! A polling sender needs the smallest window, room or progress of a large group after each response. Ordered sets
//! give it in logarithmic time.

use std::collections::{BTreeMap, BTreeSet};

/// Multiset of numbers with their minimum. Nodes at the same number share an entry.
#[derive(Clone, Debug, Default)]
pub struct Minimum(BTreeMap<u64, usize>);

impl Minimum {
    /// Adds a node at this number.
    pub fn insert(&mut self, number: u64) {
        *self.0.entry(number).or_default() += 1;
    }

    /// Removes a node at this number.
    pub fn remove(&mut self, number: u64) {
        if let Some(nodes) = self.0.get_mut(&number) {
            *nodes -= 1;
            // An entry without nodes would remain the minimum.
            if *nodes == 0 {
                self.0.remove(&number);
            }
        }
    }

    /// Moves a node from one number to another.
    pub fn change(&mut self, from: u64, to: u64) {
        // Most responses change nothing, and then need no search.
        if from != to {
            self.remove(from);
            self.insert(to);
        }
    }

    /// Minimum of all numbers.
    pub fn get(&self) -> Option<u64> {
        self.0.first_key_value().map(|(&number, _)| number)
    }
}

/// Numbers with their nodes, where it matters which node has the minimum.
#[derive(Clone, Debug, Default)]
pub struct NodeMinimum(BTreeSet<(u64, usize)>);

impl NodeMinimum {
    /// Adds a node at this number.
    pub fn insert(&mut self, node: usize, number: u64) {
        self.0.insert((number, node));
    }

    /// Removes a node at this number.
    pub fn remove(&mut self, node: usize, number: u64) {
        self.0.remove(&(number, node));
    }

    /// Moves a node from one number to another.
    pub fn change(&mut self, node: usize, from: u64, to: u64) {
        if from != to {
            self.0.remove(&(from, node));
            self.0.insert((to, node));
        }
    }

    /// Minimum of all numbers, and the first node that has it.
    pub fn get(&self) -> Option<(u64, usize)> {
        self.0.first().copied()
    }

    /// Minimum of all other nodes.
    pub fn next(&self) -> Option<u64> {
        self.0.iter().nth(1).map(|&(number, _)| number)
    }

    /// Nodes at or below this number, lowest first.
    pub fn up_to(&self, number: u64) -> impl Iterator<Item = usize> + '_ {
        // The largest index includes all nodes at exactly this number.
        self.0.range(..=(number, usize::MAX)).map(|&(_, node)| node)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn minimum_agrees_with_list_under_changes(
            steps in prop::collection::vec((0..3_u8, any::<prop::sample::Index>(), 0..20_u64), 0..200)
        ) {
            let (mut lowest, mut all) = (Minimum::default(), Vec::new());
            for (step, index, number) in steps {
                match (step, all.len()) {
                    (0, _) | (_, 0) => {
                        lowest.insert(number);
                        all.push(number);
                    }
                    (1, len) => lowest.remove(all.swap_remove(index.index(len))),
                    (_, len) => {
                        let old = &mut all[index.index(len)];
                        lowest.change(*old, number);
                        *old = number;
                    }
                }
                prop_assert_eq!(lowest.get(), all.iter().min().copied());
            }
        }
    }
    proptest! {
        #[test]
        fn minimum_node_agrees_with_list_under_changes(
            steps in prop::collection::vec((0..3_u8, 0..8_usize, 0..6_u64), 0..200)
        ) {
            let (mut lowest, mut all) = (NodeMinimum::default(), [None; 8]);
            for (step, node, number) in steps {
                match (step, all[node]) {
                    (_, None) => lowest.insert(node, number),
                    (0, Some(old)) => lowest.remove(node, old),
                    (_, Some(old)) => lowest.change(node, old, number),
                }
                all[node] = if step == 0 && all[node].is_some() { None } else { Some(number) };
                let mut sorted: Vec<(u64, usize)> =
                    all.iter().enumerate().filter_map(|(node, number)| Some(((*number)?, node))).collect();
                sorted.sort_unstable();
                prop_assert_eq!(lowest.get(), sorted.first().copied());
                prop_assert_eq!(lowest.next(), sorted.get(1).map(|&(number, _)| number));
                let below = sorted.iter().filter(|(other, _)| *other <= number).map(|&(_, node)| node);
                prop_assert!(lowest.up_to(number).eq(below));
            }
        }
    }
}
