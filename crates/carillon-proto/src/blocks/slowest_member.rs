//! Flow control by the slowest: a source goes no further beyond what all members have than they have room for.

use super::{FixedWindow, FlowControl};

/// What the members have said they have of this member's messages, and how much further each has room.
#[derive(Debug)]
pub struct SlowestMember {
    room: FixedWindow,
    /// By rank: the first message that it lacks.
    lacks: Vec<u64>,
    /// The least of them: the first message that is still to be kept for somebody.
    start: u64,
}

/// A member that is not waited for, and the start if all are such.
const NOBODY: u64 = u64::MAX;

impl SlowestMember {
    /// Nobody has anything, and each has room for so many.
    pub fn new(own: u32, members: usize, room: u64) -> Self {
        let lacks = vec![0; members];
        let mut flow = SlowestMember { room: FixedWindow(room), lacks, start: 0 };
        flow.remove(own);
        flow
    }

    /// A member says which message it lacks first; it does not take back what it said.
    pub fn on_word(&mut self, rank: u32, lacks: u64) {
        if let Some(old) = self.lacks.get_mut(rank as usize).filter(|old| **old < lacks) {
            let was = std::mem::replace(old, lacks);
            self.weigh(was);
        }
    }

    /// Nobody waits for this member any more.
    pub fn remove(&mut self, rank: u32) {
        if let Some(old) = self.lacks.get_mut(rank as usize) {
            let was = std::mem::replace(old, NOBODY);
            self.weigh(was);
        }
    }

    /// The first message that a member lacks, or no number if none is waited for.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Messages that this member has.
    pub fn has(&self, rank: u32) -> u64 {
        self.lacks.get(rank as usize).copied().unwrap_or_default()
    }

    /// Whether this member is waited for, and the or among the furthest behind.
    pub fn awaits(&self, rank: u32) -> bool {
        let lacks = self.lacks.get(rank as usize).filter(|lacks| **lacks != NOBODY);
        lacks.is_some_and(|lacks| *lacks <= self.start)
    }

    fn weigh(&mut self, was: u64) {
        if was <= self.start {
            self.start = self.lacks.iter().copied().min().unwrap_or(NOBODY);
        }
    }
}

impl FlowControl for SlowestMember {
    fn limit(&self, start: u64) -> u64 {
        self.room.limit(start.max(self.start))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_slowest_who_is_waited_for_bounds_it(
            own in 0..5_u32,
            room in 0..9_u64,
            steps in prop::collection::vec((0..8_u8, 0..6_u32, 0..30_u64), 0..100)
        ) {
            let mut flow = SlowestMember::new(own, 5, room);
            let mut lacks: Vec<Option<u64>> = (0..5).map(|rank| (rank != own).then_some(0)).collect();
            for (step, rank, number) in steps {
                let waited = lacks.get_mut(rank as usize);
                if step == 0 {
                    flow.remove(rank);
                    waited.into_iter().for_each(|waited| *waited = None);
                } else {
                    flow.on_word(rank, number);
                    // Nobody takes back what it has said, and who is not waited for says nothing that counts.
                    waited.into_iter().flatten().for_each(|had| *had = number.max(*had));
                }
                let slowest = lacks.iter().flatten().min().copied();
                prop_assert_eq!(flow.start(), slowest.unwrap_or(u64::MAX));
                for start in [0, number, u64::MAX] {
                    prop_assert_eq!(flow.limit(start), start.max(flow.start()).saturating_add(room));
                }
                for (rank, waited) in (0..).zip(&lacks) {
                    prop_assert_eq!(flow.awaits(rank), waited.is_some() && *waited == slowest);
                    if let Some(has) = *waited {
                        prop_assert_eq!(flow.has(rank), has);
                    }
                }
                prop_assert!(!flow.awaits(5));
            }
        }
    }
}
