//! Questions under way: who was asked, when, and after what.

use std::collections::BTreeMap;

use carillon_core::Time;

use crate::blocks::Mark;

/// A question that was asked and not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
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
#[derive(Debug, Default)]
pub(super) struct Questions {
    last: u64,
    open: BTreeMap<u64, Question>,
    /// Those whose answers took too long; they are still worth having.
    late: BTreeMap<u64, Question>,
}

impl Questions {
    /// Adds a question; returns its number, from 1 on.
    pub fn ask(&mut self, question: Question) -> u64 {
        self.last += 1;
        // On the wire 0 is no number.
        self.last += u64::from(self.last as u32 == 0);
        self.open.insert(self.last, question);
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
        self.late.insert(number, question);
        if self.late.len() > MAX_LATE {
            self.late.pop_first();
        }
        Some(question)
    }

    /// Takes out the open questions to `index` before this one; returns their numbers.
    pub fn withdraw(&mut self, index: usize, before: u64) -> Vec<u64> {
        let earlier = self.open.range(..before).filter(|(_, question)| question.index == index);
        let numbers: Vec<u64> = earlier.map(|(&number, _)| number).collect();
        for number in &numbers {
            self.open.remove(number);
        }
        numbers
    }

    /// The open questions from the oldest on.
    pub fn open(&self) -> impl Iterator<Item = &Question> {
        self.open.values()
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.open.clear();
        self.late.clear();
    }
}

/// Late questions kept.
const MAX_LATE: usize = 256;
