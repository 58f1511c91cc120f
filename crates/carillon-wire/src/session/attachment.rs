//! What an application of a receiver says to the sender's when it joins.

use std::fmt;

use super::extension;
use crate::ParseError;

/// Bytes that the session carries and does not read: at most [`Attachment::MAX_LEN`] of them. None take no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attachment<'a>(&'a [u8]);

impl<'a> Attachment<'a> {
    /// Bytes that may be attached.
    pub const MAX_LEN: usize = 288;

    /// These, unless they are too many.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() <= Self::MAX_LEN).then_some(Attachment(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The value of the extension field.
    pub(super) fn parse(value: &'a [u8]) -> Result<Self, ParseError> {
        match value.len() {
            1..=Self::MAX_LEN => Ok(Attachment(value)),
            len => Err(ParseError::Field { field: "attached", value: len as u64 }),
        }
    }

    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        if !self.0.is_empty() {
            extension::put(buf, extension::ATTACHED, self.0);
        }
    }

    pub(super) fn wire_len(&self) -> usize {
        if self.0.is_empty() { 0 } else { extension::len_of(self.0.len()) }
    }
}

/// How many there are: they are nobody's text.
impl fmt::Display for Attachment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " attached {} bytes", self.0.len()) }
    }
}
