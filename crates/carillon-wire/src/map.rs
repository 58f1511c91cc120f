//! Which messages beyond the first missing one are there: what selective acknowledgments carry.

use std::fmt;

use crate::ParseError;
use crate::reader::Reader;

/// The most words a map has: 8192 messages, 1 KiB.
pub const MAX_WORDS: usize = 128;

/// Which messages beyond the first missing one are there: words of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map<'a>(&'a [u8]);

impl<'a> Map<'a> {
    /// A map of these bytes: words of eight, big-endian, as [`Map::push`] makes them. What is left over at
    /// the end, or beyond [`MAX_WORDS`], is ignored.
    pub fn new(bytes: &'a [u8]) -> Self {
        let words = (bytes.len() / 8).min(MAX_WORDS);
        Map(&bytes[..words * 8])
    }

    /// Appends a word to the bytes of a map.
    pub fn push(word: u64, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&word.to_be_bytes());
    }

    /// The words, from the one nearest to the first missing message on.
    pub fn words(self) -> impl Iterator<Item = u64> + 'a {
        self.0.chunks_exact(8).map(|word| word.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// How many words.
    pub fn count(self) -> usize {
        self.0.len() / 8
    }

    /// How many messages it tells of.
    pub fn span(self) -> u64 {
        self.0.len() as u64 * 8
    }

    /// Appends it to a datagram; how many words there are is said elsewhere.
    pub(crate) fn emit(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(self.0);
    }
}

impl fmt::Display for Map<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words().try_for_each(|word| write!(f, " {word:#x}"))
    }
}

impl<'a> Reader<'a> {
    /// A map of so many words.
    pub(crate) fn map(&mut self, words: usize) -> Result<Map<'a>, ParseError> {
        if words > MAX_WORDS {
            return Err(ParseError::Field { field: "words", value: words as u64 });
        }
        Ok(Map(self.bytes(words * 8)?))
    }
}
