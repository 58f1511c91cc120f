//! What is under way or kept, by number: a run of consecutive ones.

use std::collections::VecDeque;

/// Things with consecutive numbers, the oldest first: what a send window and a repair buffer are made of.
#[derive(Clone, Debug)]
pub struct Numbered<T> {
    start: u64,
    items: VecDeque<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered::starting_at(0)
    }
}

impl<T> Numbered<T> {
    /// None yet; this will be the number of the first.
    pub fn starting_at(start: u64) -> Self {
        Numbered { start, items: VecDeque::new() }
    }

    /// Numbers go on from here: all of them have others.
    pub fn number_from(&mut self, start: u64) {
        self.start = start;
    }

    /// Adds one at the end; returns its number.
    pub fn push(&mut self, item: T) -> u64 {
        self.items.push_back(item);
        self.end() - 1
    }

    /// Takes the oldest out.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let item = self.items.pop_front()?;
        self.start += 1;
        Some((self.start - 1, item))
    }

    /// Takes the oldest out if there are more than so many.
    pub fn pop_beyond(&mut self, most: u64) -> Option<(u64, T)> {
        if self.items.len() as u64 > most { self.pop() } else { None }
    }

    /// Forgets those from this number on, and returns them; none before the oldest.
    pub fn split_off(&mut self, number: u64) -> impl Iterator<Item = T> {
        let keep = number.clamp(self.start, self.end()) - self.start;
        self.items.split_off(keep as usize).into_iter()
    }

    /// The one of this number, if it is there.
    pub fn get(&self, number: u64) -> Option<&T> {
        self.items.get(usize::try_from(number.checked_sub(self.start)?).ok()?)
    }

    /// The one of this number, if it is there.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.items.get_mut(usize::try_from(number.checked_sub(self.start)?).ok()?)
    }

    /// The oldest.
    pub fn first(&self) -> Option<&T> {
        self.items.front()
    }

    /// The newest.
    pub fn last(&self) -> Option<&T> {
        self.items.back()
    }

    /// All of them in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.items.iter()
    }

    /// All of them in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut()
    }

    /// The number of the oldest, or of the next if there is none.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The number of the next.
    pub fn end(&self) -> u64 {
        self.start + self.items.len() as u64
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_map_under_random_operations() {
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
