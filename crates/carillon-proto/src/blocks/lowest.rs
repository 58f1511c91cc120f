//! The least of many numbers that grow one by one.

use std::collections::BTreeMap;

/// A number of each of many nodes: how far each has come. The least of them is known without a look at all, as long as
/// groups of them stand at the same number.
#[derive(Clone, Debug, Default)]
pub struct Lowest(BTreeMap<u64, usize>);

impl Lowest {
    /// One more node, at this number.
    pub fn insert(&mut self, number: u64) {
        *self.0.entry(number).or_default() += 1;
    }

    /// A node that stood at this number is gone.
    pub fn remove(&mut self, number: u64) {
        if let Some(nodes) = self.0.get_mut(&number) {
            *nodes -= 1;
            if *nodes == 0 {
                self.0.remove(&number);
            }
        }
    }

    /// A node has come from one number to another.
    pub fn change(&mut self, from: u64, to: u64) {
        if from != to {
            self.remove(from);
            self.insert(to);
        }
    }

    /// The least number, if there is a node.
    pub fn get(&self) -> Option<u64> {
        self.0.first_key_value().map(|(&number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_least_of_all_whoever_comes_goes_and_gets_on(
            steps in prop::collection::vec((0..3_u8, any::<prop::sample::Index>(), 0..20_u64), 0..200)
        ) {
            let (mut lowest, mut all) = (Lowest::default(), Vec::new());
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
}
