//! Bit map of the messages beyond the first missing one, for selective acknowledgments.

use std::fmt;

use crate::ParseError;
use crate::reader::Reader;

/// Maximum number of words in a map: 8192 messages, 1 KiB.
pub const MAX_WORDS: usize = 128;

/// Bit map of messages beyond the first missing one, in words of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map<'a>(&'a [u8]);

impl<'a> Map<'a> {
    /// Map of these bytes: words of eight bytes, big-endian, as [`Map::push`] makes them. An incomplete word at the
    /// end and words beyond [`MAX_WORDS`] are ignored.
    pub fn new(bytes: &'a [u8]) -> Self {
        let words = (bytes.len() / 8).min(MAX_WORDS);
        Map(&bytes[..words * 8])
    }

    /// Appends a word to the bytes of a map.
    pub fn push(word: u64, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&word.to_be_bytes());
    }

    /// Words, beginning with the one next to the first missing message.
    pub fn words(self) -> impl Iterator<Item = u64> + 'a {
        self.0.chunks_exact(8).map(|word| word.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// Number of words.
    pub fn count(self) -> usize {
        self.0.len() / 8
    }

    /// Number of messages that the map covers.
    pub fn span(self) -> u64 {
        self.0.len() as u64 * 8
    }

    /// Appends the map to a datagram; the number of words is a field elsewhere.
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
    /// Reads a map of this number of words.
    pub(crate) fn map(&mut self, words: usize) -> Result<Map<'a>, ParseError> {
        if words > MAX_WORDS {
            return Err(ParseError::Field { field: "words", value: words as u64 });
        }
        Ok(Map(self.bytes(words * 8)?))
    }
}
