//! Flow control by the slowest member: a source stays within the room of all members.

use super::{FixedWindow, FlowControl};

/// Progress of the members with this member's messages, and their room.
#[derive(Debug)]
pub struct SlowestMember {
    room: FixedWindow,
    /// First missing message of each member, by rank.
    lacks: Vec<u64>,
    /// Minimum of these: the first message that some member may still need.
    start: u64,
}

/// Entry of a member that is not waited for; also the start if there is none.
const NOT_AWAITED: u64 = u64::MAX;

impl SlowestMember {
    /// Creates the state of a group in which each member has nothing and has room for `room` messages.
    pub fn new(own: u32, members: usize, room: u64) -> Self {
        let lacks = vec![0; members];
        let mut flow = SlowestMember { room: FixedWindow(room), lacks, start: 0 };
        // The source has all of its own messages and never waits for itself.
        flow.remove(own);
        flow
    }

    /// Records the first missing message that a member reports. It never moves back.
    pub fn on_report(&mut self, rank: u32, lacks: u64) {
        // Reports can overtake each other, so an older one is ignored. A removed member has the largest value, which
        // no report exceeds.
        if let Some(old) = self.lacks.get_mut(rank as usize).filter(|old| **old < lacks) {
            let was = std::mem::replace(old, lacks);
            self.update_start(was);
        }
    }

    /// Removes a member that is no longer waited for.
    pub fn remove(&mut self, rank: u32) {
        if let Some(old) = self.lacks.get_mut(rank as usize) {
            let was = std::mem::replace(old, NOT_AWAITED);
            self.update_start(was);
        }
    }

    /// First message that some member misses; `u64::MAX` if no member is waited for.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Number of messages that this member has.
    pub fn has(&self, rank: u32) -> u64 {
        self.lacks.get(rank as usize).copied().unwrap_or_default()
    }

    /// Returns true if this member is waited for and is among the slowest.
    pub fn awaits(&self, rank: u32) -> bool {
        let lacks = self.lacks.get(rank as usize).filter(|lacks| **lacks != NOT_AWAITED);
        lacks.is_some_and(|lacks| *lacks <= self.start)
    }

    fn update_start(&mut self, was: u64) {
        // Only a change of a slowest member can move the minimum, so most reports need no search.
        if was <= self.start {
            self.start = self.lacks.iter().copied().min().unwrap_or(NOT_AWAITED);
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
        fn slowest_awaited_member_bounds_window(
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
                    flow.on_report(rank, number);
                    // A report never moves back, and a removed member does not count.
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
