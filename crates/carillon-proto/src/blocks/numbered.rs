//! Queue with consecutive sequence numbers.

use std::collections::VecDeque;

/// Items with consecutive sequence numbers, oldest first: the basis of send windows and repair buffers.
#[derive(Clone, Debug)]
pub struct Numbered<T> {
    /// Number of the oldest item, or of the next one if the queue is empty.
    start: u64,
    /// Items in order.
    items: VecDeque<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered::starting_at(0)
    }
}

impl<T> Numbered<T> {
    /// Creates an empty queue. The first item gets the number `start`.
    pub fn starting_at(start: u64) -> Self {
        Numbered { start, items: VecDeque::new() }
    }

    /// Renumbers all items, from `start` on.
    pub fn number_from(&mut self, start: u64) {
        self.start = start;
    }

    /// Appends an item. Returns its number.
    pub fn push(&mut self, item: T) -> u64 {
        self.items.push_back(item);
        // The new item is the last one, so its number precedes the end.
        self.end() - 1
    }

    /// Removes the oldest item.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let item = self.items.pop_front()?;
        self.start += 1;
        Some((self.start - 1, item))
    }

    /// Removes the oldest item if there are more than `most`.
    pub fn pop_beyond(&mut self, most: u64) -> Option<(u64, T)> {
        if self.items.len() as u64 > most { self.pop() } else { None }
    }

    /// Removes the items from this number on, and returns them.
    pub fn split_off(&mut self, number: u64) -> impl Iterator<Item = T> {
        // Numbers often come from packets. The clamp keeps the index within the queue, which `split_off` requires.
        let keep = number.clamp(self.start, self.end()) - self.start;
        self.items.split_off(keep as usize).into_iter()
    }

    /// Item with this number.
    pub fn get(&self, number: u64) -> Option<&T> {
        // A number before the first item is a normal case, such as a message that was completed.
        self.items.get(usize::try_from(number.checked_sub(self.start)?).ok()?)
    }

    /// Mutable item with this number.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.items.get_mut(usize::try_from(number.checked_sub(self.start)?).ok()?)
    }

    /// Oldest item.
    pub fn first(&self) -> Option<&T> {
        self.items.front()
    }

    /// Newest item.
    pub fn last(&self) -> Option<&T> {
        self.items.back()
    }

    /// Items in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.items.iter()
    }

    /// Mutable items in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut()
    }

    /// Number of the oldest item, or of the next one if the queue is empty.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Number of the next item.
    pub fn end(&self) -> u64 {
        self.start + self.items.len() as u64
    }

    /// Number of the first item for which `is_before` is false, where it is true for all items before that one.
    pub fn partition_point(&self, is_before: impl FnMut(&T) -> bool) -> u64 {
        self.start + self.items.partition_point(is_before) as u64
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_agrees_with_map_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("numbered");
        let (mut run, mut map) = (Numbered::starting_at(7), std::collections::BTreeMap::new());
        let mut next = 7;
        for _ in 0..20_000 {
            match rng.below(10) {
                0..=5 => {
                    assert_eq!(run.push(next), next);
                    map.insert(next, next);
                    next += 1;
                }
                6..=7 => assert_eq!(run.pop(), map.pop_first()),
                8 => {
                    let most = rng.below(100);
                    let beyond = map.len() as u64 > most;
                    assert_eq!(run.pop_beyond(most), if beyond { map.pop_first() } else { None });
                }
                _ => {
                    let from = run.start() + rng.below(20);
                    assert!(run.split_off(from).eq(map.split_off(&from).into_values()));
                    next = run.end();
                }
            }
            assert_eq!((run.len(), run.is_empty(), run.end()), (map.len(), map.is_empty(), next));
            let number = (run.start() + rng.below(30)).saturating_sub(5);
            assert_eq!(run.get(number), map.get(&number));
            assert_eq!(run.get_mut(number), map.get_mut(&number));
            assert!(run.iter().eq(map.values()));
            assert_eq!((run.first(), run.last()), (map.values().next(), map.values().last()));
        }
        assert_eq!((run.get(0), run.get(u64::MAX)), (None, None));
    }
}
