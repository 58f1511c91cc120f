//! Queue of repairs that requests ask for, at the source or a helper.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use carillon_core::DropReason;

/// Recent requests, identified by a key `K`, and the answers due with their destinations `T`.
#[derive(Debug)]
pub struct DueAnswers<K, T> {
    /// Keys of recent requests, newest last.
    heard: VecDeque<K>,
    /// Answers in order of their requests: messages to retransmit, and the destination.
    due: VecDeque<(RangeInclusive<u64>, T)>,
    /// Number of requests remembered.
    remembered: usize,
    /// Maximum number of answers due.
    most: usize,
}

impl<K: PartialEq, T: Clone> DueAnswers<K, T> {
    /// Creates an empty queue with these capacities.
    pub fn new(remembered: usize, most: usize) -> Self {
        DueAnswers { heard: VecDeque::new(), due: VecDeque::new(), remembered, most }
    }

    /// Accepts a request for these messages. Drops it if it is a duplicate or if too many answers are due.
    pub fn request(&mut self, key: K, numbers: RangeInclusive<u64>, to: T) -> Result<(), DropReason> {
        if self.heard.contains(&key) {
            return Err(DropReason::Redundant);
        }
        // A dropped request is not remembered, so that its repetition can be answered.
        if self.due.len() >= self.most {
            return Err(DropReason::BufferFull);
        }
        // An older request may come again. It is then answered again, as its repair may be lost.
        if self.heard.len() >= self.remembered {
            self.heard.pop_front();
        }
        self.heard.push_back(key);
        // A request for messages that are not held needs no answer, but its duplicates are still recognized.
        if !numbers.is_empty() {
            self.due.push_back((numbers, to));
        }
        Ok(())
    }

    /// First message of the next answer.
    pub fn next(&self) -> Option<u64> {
        self.due.front().map(|(numbers, _)| *numbers.start())
    }

    /// Takes the next message to retransmit, and its destination.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let (numbers, to) = self.due.front_mut()?;
        // Each call takes one message off the front of the range.
        let (number, to) = (numbers.next(), to.clone());
        if numbers.is_empty() {
            self.due.pop_front();
        }
        number.map(|number| (number, to))
    }

    /// Skips the part of the next answer before `held`, the first message present; skips the whole answer if it is
    /// `None`.
    pub fn skip_to(&mut self, held: Option<u64>) {
        let Some((numbers, _)) = self.due.front_mut() else { return };
        // The first message present may lie behind this answer, or there may be none.
        match held.filter(|held| numbers.contains(held)) {
            Some(held) => *numbers = held..=*numbers.end(),
            None => _ = self.due.pop_front(),
        }
    }

    /// Returns true if no answer is due.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_agrees_with_model_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("due-answers");
        let mut answers = DueAnswers::new(10, 6);
        // Model: all accepted requests, newest last, and the remaining messages of each answer.
        let (mut heard, mut due) = (Vec::<u64>::new(), VecDeque::<Vec<u64>>::new());
        for _ in 0..20_000 {
            match rng.below(4) {
                0 => {
                    let (key, first) = (rng.below(30), rng.below(100));
                    let numbers = first..=(first + rng.below(5)).saturating_sub(1);
                    let expected = match heard.iter().rev().take(10).any(|&other| other == key) {
                        true => Err(DropReason::Redundant),
                        false if due.len() >= 6 => Err(DropReason::BufferFull),
                        false => Ok(()),
                    };
                    assert_eq!(answers.request(key, numbers.clone(), key), expected);
                    if expected.is_ok() {
                        heard.push(key);
                        due.extend(Some(numbers.collect::<Vec<u64>>()).filter(|numbers| !numbers.is_empty()));
                    }
                }
                1 => {
                    let held = (rng.below(3) > 0).then(|| rng.below(100));
                    answers.skip_to(held);
                    if let Some(first) = due.front_mut() {
                        match held.filter(|held| first.contains(held)) {
                            Some(held) => first.retain(|&number| number >= held),
                            None => _ = due.pop_front(),
                        }
                    }
                }
                _ => {
                    let expected = due.front_mut().map(|numbers| numbers.remove(0));
                    due.retain(|numbers| !numbers.is_empty());
                    assert_eq!(answers.pop().map(|(number, _)| number), expected);
                }
            }
            assert_eq!(answers.next(), due.front().map(|numbers| numbers[0]));
            assert_eq!(answers.is_empty(), due.is_empty());
        }
    }
}
