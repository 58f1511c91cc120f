//! Answers of a receiver to the questions of an update: what it has of the listed entries.
//!
//! ```text
//! | 0 | (state and length, varint) ... |
//! ```
//!
//! An answer is a zero, and runs of items with equal [`Holding`], in the order of the list. Items are the entries for
//! QUESTION 1, and the 4 MiB parts of the files that were described since for QUESTION 2. Each run is a number: its
//! length times 4, plus the state. A varint has 7 bits per byte, the lowest first, and bit 7 marks that more follow.
//! Items behind the last run are missing, so a long answer may be cut.

use crate::ParseError;

/// State of an item at a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holding {
    /// The receiver has nothing that helps.
    #[default]
    Missing,
    /// The receiver has all of it.
    Same,
    /// The receiver has another version of a file, parts of which may be equal.
    Other,
}

/// Encoder of an answer.
#[derive(Debug)]
pub struct HoldingsWriter {
    bytes: Vec<u8>,
    run: (Holding, u64),
    most: usize,
}

impl HoldingsWriter {
    /// Begins an answer of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        HoldingsWriter { bytes: vec![0], run: (Holding::Missing, 0), most }
    }

    /// Adds the next item.
    pub fn push(&mut self, holding: Holding) {
        if self.run.0 == holding {
            self.run.1 += 1;
        } else {
            self.flush();
            self.run = (holding, 1);
        }
    }

    /// Ends the answer.
    pub fn finish(mut self) -> Vec<u8> {
        if self.run.0 != Holding::Missing {
            self.flush();
        }
        self.bytes
    }

    fn flush(&mut self) {
        let (holding, count) = self.run;
        if count == 0 {
            return;
        }
        let before = self.bytes.len();
        put(&mut self.bytes, count << 2 | holding as u64);
        if self.bytes.len() > self.most {
            self.bytes.truncate(before);
            // Nothing follows an omitted run.
            self.most = 0;
        }
    }
}

/// Answer of a receiver.
#[derive(Clone, Copy, Debug)]
pub struct Holdings<'a> {
    runs: &'a [u8],
}

impl<'a> Holdings<'a> {
    /// Parses an answer.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let Some((0, runs)) = bytes.split_first() else {
            return Err(ParseError::Field { field: "holdings", value: bytes.len() as u64 });
        };
        let mut rest = runs;
        while !rest.is_empty() {
            let (run, after) = take(rest)?;
            if run & 3 > 2 || run >> 2 == 0 {
                return Err(ParseError::Field { field: "run", value: run });
            }
            rest = after;
        }
        Ok(Holdings { runs })
    }

    /// States of the first `items` items.
    pub fn states(&self, items: usize) -> impl Iterator<Item = Holding> + 'a {
        let mut rest = self.runs;
        let runs = std::iter::from_fn(move || {
            let (run, after) = take(rest).ok()?;
            rest = after;
            let holding = match run & 3 {
                1 => Holding::Same,
                2 => Holding::Other,
                _ => Holding::Missing,
            };
            Some((holding, run >> 2))
        });
        let listed = runs.flat_map(|(holding, count)| (0..count).map(move |_| holding));
        listed.chain(std::iter::repeat(Holding::Missing)).take(items)
    }
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take(bytes: &[u8]) -> Result<(u64, &[u8]), ParseError> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().enumerate().take(MAX_VARINT_LEN) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((value, &bytes[at + 1..]));
        }
    }
    Err(ParseError::Field { field: "varint", value })
}

/// Bytes of the longest varint: 63 bits.
const MAX_VARINT_LEN: usize = 9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn states_survive_the_round_trip(states in proptest::collection::vec((0u8..3, 1usize..300), 0..40)) {
            let states: Vec<Holding> = states
                .iter()
                .flat_map(|&(state, count)| std::iter::repeat_n([Holding::Missing, Holding::Same, Holding::Other][state as usize], count))
                .collect();
            let mut writer = HoldingsWriter::new(1000);
            states.iter().for_each(|state| writer.push(*state));
            let bytes = writer.finish();
            let holdings = Holdings::parse(&bytes).expect("it was written");
            prop_assert!(holdings.states(states.len()).eq(states.iter().copied()));
            prop_assert!(holdings.states(states.len() + 3).skip(states.len()).all(|state| state == Holding::Missing));
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(holdings) = Holdings::parse(&bytes) {
                prop_assert_eq!(holdings.states(1000).count(), 1000);
            }
        }
    }

    #[test]
    fn a_long_answer_is_cut_and_claims_less() {
        let mut writer = HoldingsWriter::new(10);
        (0..100).for_each(|at| writer.push(if at % 2 == 0 { Holding::Same } else { Holding::Missing }));
        let bytes = writer.finish();
        assert_eq!(bytes.len(), 10);
        let holdings = Holdings::parse(&bytes).expect("it was written");
        assert!(
            holdings
                .states(100)
                .enumerate()
                .all(|(at, state)| (state == Holding::Same) == (at < 9 && at % 2 == 0))
        );
    }
}
