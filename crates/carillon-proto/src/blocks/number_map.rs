//! Map by number for few items, most of which are added at the end and removed at the beginning.

use std::collections::VecDeque;

/// Items by number, in ascending order. A large group has many maps with an item or none, which a tree would give a
/// node with places for eleven. An item that is added in the middle moves the pointers of the items on one side.
#[derive(Debug)]
pub struct NumberMap<T>(VecDeque<(u64, Box<T>)>);

impl<T> Default for NumberMap<T> {
    fn default() -> Self {
        NumberMap(VecDeque::new())
    }
}

impl<T> NumberMap<T> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no items.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if an item has this number.
    pub fn contains(&self, number: u64) -> bool {
        self.place(number).is_ok()
    }

    /// Item with this number.
    pub fn get(&self, number: u64) -> Option<&T> {
        Some(&self.0[self.place(number).ok()?].1)
    }

    /// Item with this number, which is added if there is none.
    pub fn get_or_default(&mut self, number: u64) -> &mut T
    where
        T: Default,
    {
        let at = self.place(number).unwrap_or_else(|at| {
            self.0.insert(at, (number, Box::default()));
            at
        });
        &mut self.0[at].1
    }

    /// Removes the item with this number.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let (_, item) = self.0.remove(self.place(number).ok()?)?;
        Some(*item)
    }

    /// Item with the smallest number.
    pub fn first(&self) -> Option<(u64, &T)> {
        self.iter().next()
    }

    /// Items in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        self.0.iter().map(|(number, item)| (*number, &**item))
    }

    /// Items below this number, in order.
    pub fn below(&self, number: u64) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        let end = self.0.partition_point(|&(at, _)| at < number);
        self.0.range(..end).map(|(number, item)| (*number, &**item))
    }

    /// Mutable items in order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, item)| &mut **item)
    }

    fn place(&self, number: u64) -> Result<usize, usize> {
        // Mostly the last item is wanted, or a new one behind it.
        match self.0.back() {
            Some(&(last, _)) if last < number => Err(self.0.len()),
            Some(&(last, _)) if last == number => Ok(self.0.len() - 1),
            _ => self.0.binary_search_by_key(&number, |&(at, _)| at),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn map_agrees_with_a_tree_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("numbers");
        let (mut map, mut tree) = (NumberMap::<u64>::default(), BTreeMap::<u64, u64>::new());
        for step in 0..20_000 {
            let number = rng.below(40);
            match rng.below(5) {
                0 | 1 => {
                    *map.get_or_default(number) += step;
                    *tree.entry(number).or_default() += step;
                }
                2 => assert_eq!(map.remove(number), tree.remove(&number)),
                3 => {
                    map.values_mut().for_each(|item| *item += 1);
                    tree.values_mut().for_each(|item| *item += 1);
                }
                _ => assert!(
                    map.below(number).rev().eq(tree.range(..number).rev().map(|(&at, item)| (at, item)))
                ),
            }
            assert_eq!((map.len(), map.contains(number)), (tree.len(), tree.contains_key(&number)));
            assert_eq!((map.get(number), map.is_empty()), (tree.get(&number), tree.is_empty()));
            assert_eq!(map.first(), tree.first_key_value().map(|(&at, item)| (at, item)));
            assert!(map.iter().eq(tree.iter().map(|(&at, item)| (at, item))));
        }
    }
}
