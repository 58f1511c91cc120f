//! Outstanding polls of a polling sender.
//!
//! A poll has a number of its own, and each response quotes it, so that a round-trip sample is unambiguous. An
//! overdue poll is kept for a while: a late response still measures the path.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::Time;

use super::congestion::Mark;

/// A poll that was sent to one member and not answered yet.
#[derive(Clone, Copy, Debug)]
pub struct OutstandingPoll {
    /// Index of the member that is to answer.
    pub index: usize,
    /// Message that carried the poll, or the last one sent before it.
    pub message: u64,
    /// Number of packets sent before the poll. The response covers these packets and no later ones.
    pub serial: u64,
    /// Sequence number after the last message sent before the poll.
    pub end: u64,
    /// Time of the poll.
    pub at: Time,
    /// State of the path estimate at that time.
    pub mark: Mark,
}

/// Outstanding polls by number.
#[derive(Debug)]
pub struct OutstandingPolls {
    /// Number of the last poll; 0 before the first one.
    last: u64,
    /// Polls without an answer that are not overdue.
    open: BTreeMap<u64, OutstandingPoll>,
    /// Index of these polls by member and number.
    by_member: BTreeSet<(usize, u64)>,
    /// Number of the oldest poll that counts as in flight.
    counted_from: u64,
    /// Overdue polls. Their late responses still measure the path.
    late: BTreeMap<u64, OutstandingPoll>,
    /// Maximum number of overdue polls kept.
    late_limit: usize,
}

impl Default for OutstandingPolls {
    fn default() -> Self {
        OutstandingPolls::to(0)
    }
}

impl OutstandingPolls {
    /// Creates an empty set for a group of this size. A larger group has more polls in flight before the response
    /// time is known, and late responses reveal it.
    pub fn to(members: usize) -> Self {
        OutstandingPolls {
            last: 0,
            open: BTreeMap::new(),
            by_member: BTreeSet::new(),
            counted_from: 0,
            late: BTreeMap::new(),
            late_limit: MAX_OVERDUE.max(members.saturating_mul(OVERDUE_PER_MEMBER)),
        }
    }

    /// Adds a poll. Returns its number, from 1 on.
    pub fn insert(&mut self, question: OutstandingPoll) -> u64 {
        self.last += 1;
        // Number 0 on the wire means "no poll".
        self.last += u64::from(self.last as u32 == 0);
        self.open.insert(self.last, question);
        self.by_member.insert((question.index, self.last));
        self.last
    }

    /// Full number of a poll from its 32 bits on the wire, if it is among the last 2^32.
    pub fn expand(&self, number: u32) -> Option<u64> {
        // The distance is counted back from the last poll. A number that was not used yet thus belongs to a poll that
        // is too old to be kept.
        self.last.checked_sub(u64::from((self.last as u32).wrapping_sub(number)))
    }

    /// Takes out the poll that member `index` answers. Returns it, and true if it was not overdue; none if the member
    /// was not polled with this number or has answered it.
    pub fn answer(&mut self, number: u64, index: usize) -> Option<(OutstandingPoll, bool)> {
        // The index must match too, as a member must not answer a poll to another one.
        let asked = |map: &BTreeMap<u64, OutstandingPoll>| map.get(&number).is_some_and(|q| q.index == index);
        if asked(&self.open) {
            self.by_member.remove(&(index, number));
            Some((self.open.remove(&number)?, true))
        } else if asked(&self.late) {
            Some((self.late.remove(&number)?, false))
        } else {
            None
        }
    }

    /// Marks a poll as overdue.
    pub fn expire(&mut self, number: u64) -> Option<OutstandingPoll> {
        let question = self.open.remove(&number)?;
        self.by_member.remove(&(question.index, number));
        self.late.insert(number, question);
        // The oldest overdue poll is forgotten, so that silent members cannot fill the memory.
        if self.late.len() > self.late_limit {
            self.late.pop_first();
        }
        Some(question)
    }

    /// Removes the outstanding polls to a member before this number. Returns their numbers.
    pub fn withdraw(&mut self, index: usize, before: u64) -> Vec<u64> {
        // Overdue polls stay, as a late answer to them still measures the path.
        let earlier = self.by_member.range((index, 0)..(index, before));
        let numbers: Vec<u64> = earlier.map(|&(_, number)| number).collect();
        for &number in &numbers {
            self.by_member.remove(&(index, number));
            self.open.remove(&number);
        }
        numbers
    }

    /// Stops counting the oldest polls as in flight while `is_lost` holds, since their responses were lost.
    pub fn discount(&mut self, is_lost: impl Fn(&OutstandingPoll) -> bool) {
        let counts = |&(_, question): &(&u64, &OutstandingPoll)| !is_lost(question);
        // Numbers ascend with time, so that the search ends at the first poll that still counts.
        let first = self.open.range(self.counted_from..).find(counts).map(|(&number, _)| number);
        // If all are lost, count from the next poll on.
        self.counted_from = first.unwrap_or(self.last + 1);
    }

    /// Outstanding polls that count as in flight, oldest first.
    pub fn counted(&self) -> impl Iterator<Item = &OutstandingPoll> {
        self.open.range(self.counted_from..).map(|(_, question)| question)
    }

    /// Outstanding polls, oldest first.
    pub fn open(&self) -> impl Iterator<Item = &OutstandingPoll> {
        self.open.values()
    }

    /// Number of outstanding polls.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Removes all polls.
    pub fn clear(&mut self) {
        // The numbers continue, so that a late answer to a removed poll matches no new one.
        self.open.clear();
        self.by_member.clear();
        self.late.clear();
    }
}

/// Maximum number of overdue polls kept for a small group.
const MAX_OVERDUE: usize = 256;
/// Number of overdue polls kept per member of a large group.
const OVERDUE_PER_MEMBER: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::congestion::PathRecord;

    #[test]
    fn polls_agree_with_model_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("questions");
        let (mut questions, mut model) = (OutstandingPolls::default(), Vec::<(u64, usize, bool)>::new());
        let (mark, mut lost_before) = (PathRecord::default().mark(), 0);
        for last in 0..5_000u64 {
            let index = rng.below(4) as usize;
            let question =
                OutstandingPoll { index, message: last, serial: last, end: last, at: Time::ZERO, mark };
            let number = questions.insert(question);
            model.push((number, index, true));
            assert_eq!(questions.expand(number as u32), Some(number));
            let any = number.saturating_sub(rng.below(30));
            match rng.below(4) {
                0 => {
                    let late = model.iter_mut().find(|known| known.0 == any && known.2);
                    let expired = late.map(|known| (known.2 = false, known.1).1);
                    assert_eq!(questions.expire(any).map(|question| question.index), expired);
                }
                1 => {
                    let gone = |known: &&(u64, usize, bool)| known.2 && known.1 == index && known.0 < any;
                    let numbers: Vec<u64> = model.iter().filter(gone).map(|known| known.0).collect();
                    assert_eq!(questions.withdraw(index, any), numbers);
                    model.retain(|known| !numbers.contains(&known.0));
                }
                _ => {
                    let at = model.iter().position(|known| (known.0, known.1) == (any, index));
                    let answered = at.map(|at| model.remove(at).2);
                    assert_eq!(questions.answer(any, index).map(|(_, open)| open), answered);
                }
            }
            while model.iter().filter(|known| !known.2).count() > MAX_OVERDUE {
                let oldest = model.iter().position(|known| !known.2).expect("there are late ones");
                model.remove(oldest);
            }
            let open = || model.iter().filter(|known| known.2);
            assert_eq!(questions.open_count(), open().count());
            if rng.below(20) == 0 {
                let before = last.saturating_sub(rng.below(20));
                lost_before = lost_before.max(before);
                questions.discount(|question| question.message < before);
            }
            let counted: Vec<u64> = questions.counted().map(|question| question.message).collect();
            // Each poll has the message of its own number.
            let known = open().map(|known| known.0 - 1).filter(|&message| message >= lost_before);
            assert_eq!(counted, known.collect::<Vec<_>>());
        }
    }

    #[test]
    fn member_answers_only_own_poll_and_only_once() {
        let mut questions = OutstandingPolls::default();
        let mark = PathRecord::default().mark();
        let number = questions.insert(OutstandingPoll {
            index: 3,
            message: 0,
            serial: 0,
            end: 0,
            at: Time::ZERO,
            mark,
        });
        assert!(questions.answer(number, 2).is_none());
        assert!(questions.answer(number, 3).is_some_and(|(_, open)| open));
        assert!(questions.answer(number, 3).is_none());
        assert_eq!((number, questions.expand(0)), (1, Some(0)), "0 is no number on the wire");
    }
}
