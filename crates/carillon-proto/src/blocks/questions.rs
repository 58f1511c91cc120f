//! Questions of a polling sender under way: who was asked, when, and after what.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::Time;

use super::Mark;

/// A question that was asked and not answered yet.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Who is to answer.
    pub index: usize,
    /// The message that asked, or the last one sent.
    pub message: u64,
    /// Packets of messages that had been sent with it: an answer speaks of these and no later ones.
    pub serial: u64,
    /// One past the last message sent then.
    pub end: u64,
    /// When it was asked.
    pub at: Time,
    /// What was known of the path then.
    pub mark: Mark,
}

/// The questions, by number.
#[derive(Debug)]
pub struct Questions {
    last: u64,
    open: BTreeMap<u64, Question>,
    /// The same by whom they ask.
    by_member: BTreeSet<(usize, u64)>,
    /// Open ones before this do not count as under way any more.
    counted_from: u64,
    /// Those whose answers took too long; they are still worth having.
    late: BTreeMap<u64, Question>,
    /// Number of them that are kept.
    late_limit: usize,
}

impl Default for Questions {
    fn default() -> Self {
        Questions::to(0)
    }
}

impl Questions {
    /// None yet, to a group of so many members. A large group has more questions in flight while nothing is known of how long answers take, and
    /// it is the late ones that tell.
    pub fn to(members: usize) -> Self {
        Questions {
            last: 0,
            open: BTreeMap::new(),
            by_member: BTreeSet::new(),
            counted_from: 0,
            late: BTreeMap::new(),
            late_limit: MAX_LATE.max(members.saturating_mul(LATE_EACH)),
        }
    }

    /// Adds a question; returns its number, from 1 on.
    pub fn ask(&mut self, question: Question) -> u64 {
        self.last += 1;
        // On the wire 0 is no number.
        self.last += u64::from(self.last as u32 == 0);
        self.open.insert(self.last, question);
        self.by_member.insert((question.index, self.last));
        self.last
    }

    /// The full number of one on the wire, if it is among the last 2^32.
    pub fn expand(&self, number: u32) -> Option<u64> {
        self.last.checked_sub(u64::from((self.last as u32).wrapping_sub(number)))
    }

    /// `index` answers a question: takes it out, unless it was never asked this or has answered before.
    /// Says too whether it was open.
    pub fn answer(&mut self, number: u64, index: usize) -> Option<(Question, bool)> {
        let asked = |map: &BTreeMap<u64, Question>| map.get(&number).is_some_and(|q| q.index == index);
        if asked(&self.open) {
            self.by_member.remove(&(index, number));
            Some((self.open.remove(&number)?, true))
        } else if asked(&self.late) {
            Some((self.late.remove(&number)?, false))
        } else {
            None
        }
    }

    /// The answer to a question of this one has taken too long.
    pub fn expire(&mut self, number: u64) -> Option<Question> {
        let question = self.open.remove(&number)?;
        self.by_member.remove(&(question.index, number));
        self.late.insert(number, question);
        if self.late.len() > self.late_limit {
            self.late.pop_first();
        }
        Some(question)
    }

    /// Takes out the open questions to `index` before this one; returns their numbers.
    pub fn withdraw(&mut self, index: usize, before: u64) -> Vec<u64> {
        let earlier = self.by_member.range((index, 0)..(index, before));
        let numbers: Vec<u64> = earlier.map(|&(_, number)| number).collect();
        for &number in &numbers {
            self.by_member.remove(&(index, number));
            self.open.remove(&number);
        }
        numbers
    }

    /// The open ones of which this holds, from the oldest on, do not count as under way any more: their answers were lost.
    pub fn discount(&mut self, is_lost: impl Fn(&Question) -> bool) {
        let counts = |&(_, question): &(&u64, &Question)| !is_lost(question);
        let first = self.open.range(self.counted_from..).find(counts).map(|(&number, _)| number);
        self.counted_from = first.unwrap_or(self.last + 1);
    }

    /// The open questions that count as under way, from the oldest on.
    pub fn counted(&self) -> impl Iterator<Item = &Question> {
        self.open.range(self.counted_from..).map(|(_, question)| question)
    }

    /// The open questions from the oldest on.
    pub fn open(&self) -> impl Iterator<Item = &Question> {
        self.open.values()
    }

    /// How many are open.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.open.clear();
        self.by_member.clear();
        self.late.clear();
    }
}

/// Late questions kept of a small group, and for each member of a large one.
const MAX_LATE: usize = 256;
const LATE_EACH: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Path;

    #[test]
    fn they_agree_with_a_list_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("questions");
        let (mut questions, mut model) = (Questions::default(), Vec::<(u64, usize, bool)>::new());
        let (mark, mut lost_before) = (Path::new().mark(), 0);
        for last in 0..5_000u64 {
            let index = rng.below(4) as usize;
            let question = Question { index, message: last, serial: last, end: last, at: Time::ZERO, mark };
            let number = questions.ask(question);
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
            while model.iter().filter(|known| !known.2).count() > MAX_LATE {
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
            // Each asks with the message of its own number.
            let known = open().map(|known| known.0 - 1).filter(|&message| message >= lost_before);
            assert_eq!(counted, known.collect::<Vec<_>>());
        }
    }

    #[test]
    fn nobody_answers_for_another_or_twice() {
        let mut questions = Questions::default();
        let mark = Path::new().mark();
        let number =
            questions.ask(Question { index: 3, message: 0, serial: 0, end: 0, at: Time::ZERO, mark });
        assert!(questions.answer(number, 2).is_none());
        assert!(questions.answer(number, 3).is_some_and(|(_, open)| open));
        assert!(questions.answer(number, 3).is_none());
        assert_eq!((number, questions.expand(0)), (1, Some(0)), "0 is no number on the wire");
    }
}
