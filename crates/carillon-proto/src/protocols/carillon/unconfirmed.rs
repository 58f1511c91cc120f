//! Members of a large group that have not confirmed everything.
//!
//! Their turns follow their bit-reversed indices (van der Corput order): members that follow each other are far apart
//! in the roster, and so tend to be behind different routers with short queues.

use std::collections::BTreeSet;

/// Members of a large group that have not confirmed everything before a message, and the order of their turns.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed {
    /// Message before which they have not confirmed everything; 0 while the set is not computed.
    end: u64,
    /// Bit-reversed indices of the members that can be polled.
    places: BTreeSet<u32>,
    /// Place that is next in turn.
    turn: u32,
}

impl Unconfirmed {
    /// Number of members in the set.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Takes out a member that has an outstanding poll, or is no longer in the group.
    pub fn remove(&mut self, index: usize) {
        self.places.remove(&place(index));
    }

    /// Records that a member has confirmed all messages before `below`.
    pub fn on_confirmed(&mut self, index: usize, below: u64, can_be_polled: bool) {
        // The set has only members that are missing something and have no outstanding poll.
        if below >= self.end || !can_be_polled {
            self.places.remove(&place(index));
        } else {
            self.places.insert(place(index));
        }
    }

    /// Computes the set for this message, unless it is known.
    pub fn compute(&mut self, end: u64, group: usize, is_unconfirmed: impl Fn(usize) -> bool) {
        if self.end != end {
            self.end = end;
            self.places = (0..group).filter(|&index| is_unconfirmed(index)).map(place).collect();
        }
    }

    /// Up to `most` members of the set, in turn.
    pub fn take_turns(&mut self, most: usize) -> Vec<usize> {
        // Continue behind the last member of the previous poll, and wrap around.
        let by_turns = self.places.range(self.turn..).chain(self.places.range(..self.turn));
        let members: Vec<u32> = by_turns.take(most).copied().collect();
        self.turn = members.last().map_or(self.turn, |last| last.wrapping_add(1));
        members.into_iter().map(|place| place.reverse_bits() as usize).collect()
    }

    /// Up to `most` members of a group of this size that are `wanted`, in turn, without the set. That is fast while
    /// most members are wanted.
    pub fn find_in_turn(&mut self, group: usize, most: usize, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        let bits = usize::BITS - group.saturating_sub(1).leading_zeros();
        let unit = 1u64 << (u32::BITS - bits.min(u32::BITS));
        let (mut members, first) = (Vec::new(), u64::from(self.turn).div_ceil(unit));
        for step in 0..1 << bits {
            if members.len() == most {
                break;
            }
            // Places beyond the last one wrap around, as the numbers have 32 bits.
            let at = ((first + step) * unit) as u32;
            let index = at.reverse_bits() as usize;
            if index < group && wanted(index) {
                members.push(index);
                self.turn = at.wrapping_add(1);
            }
        }
        members
    }

    /// Forgets the set.
    pub fn clear(&mut self) {
        (self.end, self.places) = (0, BTreeSet::new());
    }
}

/// Place of a member in the order of turns.
fn place(index: usize) -> u32 {
    (index as u32).reverse_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_without_the_set_are_those_with_it() {
        for group in [1, 2, 65, 1000, 1024, 1025] {
            let wanted = |index: usize| !index.is_multiple_of(3);
            let (mut with, mut without) = (Unconfirmed::default(), Unconfirmed::default());
            with.compute(1, group, wanted);
            for _ in 0..20 {
                assert_eq!(without.find_in_turn(group, 64, wanted), with.take_turns(64), "{group} members");
            }
        }
    }

    #[test]
    fn members_return_until_they_confirm() {
        let mut set = Unconfirmed::default();
        set.compute(5, 100, |_| true);
        set.remove(7);
        set.on_confirmed(7, 4, true);
        assert_eq!(set.len(), 100, "it lacks the last message");
        set.on_confirmed(7, 4, false);
        assert_eq!(set.len(), 99, "a poll is outstanding");
        set.on_confirmed(7, 5, true);
        assert_eq!(set.len(), 99);
        set.compute(5, 100, |_| true);
        assert_eq!(set.len(), 99, "it is known");
        set.clear();
        set.compute(5, 100, |_| true);
        assert_eq!(set.len(), 100);
    }
}
