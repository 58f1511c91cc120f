//! What an application of a receiver says to the sender's when it joins.

use std::fmt;

use crate::ParseError;
use crate::reader::Reader;

/// Bytes that the session carries and does not read: at most [`Attached::MAX_LEN`] of them. None take no place at
/// all, so that a JOIN without them is as it was before there were any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attached<'a>(&'a [u8]);

impl<'a> Attached<'a> {
    /// Bytes that may be attached.
    pub const MAX_LEN: usize = 288;

    /// These, unless they are too many.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() <= Self::MAX_LEN).then_some(Attached(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        if reader.rest().is_empty() {
            return Ok(Attached::default());
        }
        let len = usize::from(reader.u16()?);
        if len == 0 || len > Self::MAX_LEN {
            return Err(ParseError::Field { field: "attached", value: len as u64 });
        }
        Ok(Attached(reader.bytes(len)?))
    }

    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        if !self.0.is_empty() {
            buf.extend_from_slice(&(self.0.len() as u16).to_be_bytes());
            buf.extend_from_slice(self.0);
        }
    }

    pub(super) fn wire_len(&self) -> usize {
        if self.0.is_empty() { 0 } else { 2 + self.0.len() }
    }
}

/// How many there are: they are nobody's text.
impl fmt::Display for Attached<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " attached {} bytes", self.0.len()) }
    }
}
