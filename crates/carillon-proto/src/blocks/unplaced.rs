//! Received messages without a place in the total order.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Messages of each member that wait for a place, and the member that is next in turn. The protocol bounds their
/// number.
#[derive(Clone, Debug)]
pub struct Unplaced<M = Bytes> {
    /// Messages of each member, by number.
    waiting: Vec<BTreeMap<u64, M>>,
    /// Member that got the last place: all others come first.
    turn: usize,
}

impl<M: Clone> Unplaced<M> {
    /// Creates an empty set for a group of this size.
    pub fn new(members: usize) -> Self {
        Unplaced { waiting: vec![BTreeMap::new(); members], turn: 0 }
    }

    /// Stores a message. Returns true if it is new.
    pub fn keep(&mut self, source: usize, number: u64, message: M) -> bool {
        self.waiting[source].insert(number, message).is_none()
    }

    /// Removes a message that got its place.
    pub fn take(&mut self, source: usize, number: u64) -> Option<M> {
        self.waiting[source].remove(&number)
    }

    /// Keeps only the last `most` messages of a member, which has no more in flight.
    pub fn keep_last(&mut self, source: usize, most: usize) {
        // The numbers come from packets, so a faulty member could otherwise fill the memory.
        while self.waiting[source].len() > most {
            self.waiting[source].pop_first();
        }
    }

    /// Drops all messages that `keeps` rejects, by member and number.
    pub fn retain(&mut self, mut keeps: impl FnMut(usize, u64) -> bool) {
        for (source, waiting) in self.waiting.iter_mut().enumerate() {
            waiting.retain(|&number, _| keeps(source, number));
        }
    }

    /// Records that a message of this member got a place.
    pub fn set_turn(&mut self, source: usize) {
        self.turn = source;
    }

    /// First member in turn for which `is_ready` holds.
    pub fn in_turn(&self, mut is_ready: impl FnMut(usize) -> bool) -> Option<usize> {
        self.turns().find(|&source| is_ready(source))
    }

    /// Members in turn.
    pub fn turns(&self) -> impl Iterator<Item = usize> + use<M> {
        let (members, turn) = (self.waiting.len(), self.turn);
        // The member with the last place comes last, so that no busy member starves the others.
        (1..=members).map(move |step| (turn + step) % members)
    }

    /// Message that waits for a place.
    pub fn get(&self, source: usize, number: u64) -> Option<&M> {
        self.waiting[source].get(&number)
    }

    /// Number of waiting messages.
    pub fn len(&self) -> usize {
        self.waiting.iter().map(BTreeMap::len).sum()
    }

    /// Returns true if no message waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_take_turns_without_loss() {
        for seed in 0..50 {
            let mut rng = carillon_core::Seeds::new(seed).stream("unplaced");
            let members = 1 + rng.below(5) as usize;
            let (mut unplaced, mut next) = (Unplaced::new(members), vec![0; members]);
            let (mut kept, mut passed) = (std::collections::BTreeSet::new(), vec![0; members]);
            for _ in 0..500 {
                let (source, ahead) = (rng.below(members as u64) as usize, rng.below(4));
                if rng.below(2) == 0 {
                    let number = next[source] + ahead;
                    assert_eq!(unplaced.keep(source, number, Bytes::new()), kept.insert((source, number)));
                } else if let Some(source) =
                    unplaced.in_turn(|source| unplaced.get(source, next[source]).is_some())
                {
                    assert!(
                        unplaced.take(source, next[source]).is_some() && kept.remove(&(source, next[source]))
                    );
                    unplaced.set_turn(source);
                    next[source] += 1;
                    for other in 0..members {
                        let waits = other != source && unplaced.get(other, next[other]).is_some();
                        passed[other] = if waits { passed[other] + 1 } else { 0 };
                        assert!(passed[other] < members, "it is its turn");
                    }
                } else {
                    assert!((0..members).all(|source| !kept.contains(&(source, next[source]))));
                }
                assert_eq!((unplaced.len(), unplaced.is_empty()), (kept.len(), kept.is_empty()));
            }
            unplaced.keep_last(0, 1);
            assert!(unplaced.waiting[0].len() <= 1);
            unplaced.retain(|_, number| number % 2 == 0);
            assert!(unplaced.waiting.iter().flat_map(BTreeMap::keys).all(|number| number % 2 == 0));
        }
    }
}
