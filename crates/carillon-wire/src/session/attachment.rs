//! Attachment of a receiver's application to its JOIN, for the sender's application.

use std::fmt;

use super::extension;
use crate::ParseError;

/// Up to [`Attachment::MAX_LEN`] bytes that the session carries without reading them. An empty attachment takes no
/// extension field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attachment<'a>(&'a [u8]);

impl<'a> Attachment<'a> {
    /// Maximum length in bytes.
    pub const MAX_LEN: usize = 288;

    /// Attachment of these bytes; `None` if they are too many.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() <= Self::MAX_LEN).then_some(Attachment(bytes))
    }

    /// Attached bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Parses the value of the extension field.
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

/// Number of bytes, since their contents need not be text.
impl fmt::Display for Attachment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " attached {} bytes", self.0.len()) }
    }
}
