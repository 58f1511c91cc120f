//! Flags of a LIST.
//!
//! ```text
//! 1: FILE, DIRECTORY and LINK records follow; otherwise every receiver knows the list
//! 2: the digest of each file follows it, and decides whether a receiver has the file
//! ```

use std::fmt;

use crate::ParseError;

/// Contents of an update after LIST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListFlags {
    /// The entries follow.
    pub entries: bool,
    /// Files are compared by digest, not by size and time.
    pub checksum: bool,
}

impl ListFlags {
    /// Parses the flags; refuses unknown ones.
    pub(super) fn parse(code: u8) -> Result<Self, ParseError> {
        match code & !(ENTRIES | CHECKSUM) {
            0 => Ok(ListFlags { entries: code & ENTRIES != 0, checksum: code & CHECKSUM != 0 }),
            _ => Err(ParseError::Field { field: "flags", value: code.into() }),
        }
    }

    pub(super) fn code(self) -> u8 {
        let flags = [(self.entries, ENTRIES), (self.checksum, CHECKSUM)];
        flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum()
    }
}

impl fmt::Display for ListFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [(self.entries, " entries"), (self.checksum, " digests")];
        words.iter().filter(|(set, _)| *set).try_for_each(|(_, word)| f.write_str(word))
    }
}

/// Bytes of a LIST.
pub const LIST_LEN: usize = 1 + 16 + 1;

const ENTRIES: u8 = 1;
const CHECKSUM: u8 = 2;
