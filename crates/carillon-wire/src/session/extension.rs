//! Extension fields at the end of an opening packet: type, length and value each.
//!
//! ```text
//! +---------------+-------------------------------+---------------+
//! |     type      |          value len            |  value ...
//! +---------------+-------------------------------+---------------+
//! ```
//!
//! A packet with an unknown type that has [`CRITICAL`] set is refused. Other unknown types are skipped, so that a
//! later release of the same wire version can add fields. Each type occurs at most once, and types ascend.

use crate::ParseError;
use crate::reader::Reader;

/// Bit of a type that forbids skipping the field.
pub(super) const CRITICAL: u8 = 0x80;

/// Job of an INVITE: 16 bytes.
pub(super) const JOB: u8 = 1;

/// Application's attachment of a JOIN: 1 to 288 bytes.
pub(super) const ATTACHED: u8 = 2;

/// Cookie of the CHALLENGE that a JOIN answers: 8 bytes.
pub(super) const COOKIE: u8 = 3;

/// Receiver behind a JOIN: 17 bytes.
pub(super) const ORIGIN: u8 = 4;

/// Holdings: of an INVITE without bytes, of a JOIN with 16 bytes.
pub(super) const HOLDINGS: u8 = 5;

/// Name of an INVITE's job: 1 to 64 bytes.
pub(super) const JOB_NAME: u8 = 6;

/// Reader of the extension fields of a packet.
#[derive(Debug)]
pub(super) struct Extensions<'r, 'a> {
    reader: &'r mut Reader<'a>,
    last: Option<u8>,
}

impl<'r, 'a> Extensions<'r, 'a> {
    /// Reader of the extension fields in the unread bytes of a packet.
    pub fn of(reader: &'r mut Reader<'a>) -> Self {
        Extensions { reader, last: None }
    }

    /// Reads the next field, known or not: type and value. Types must ascend.
    pub fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, ParseError> {
        if self.reader.rest().is_empty() {
            return Ok(None);
        }
        let kind = self.reader.u8()?;
        // Ascending types allow one encoding only and exclude duplicates.
        if self.last.is_some_and(|last| last >= kind) {
            return Err(ParseError::Field { field: "extension order", value: kind.into() });
        }
        self.last = Some(kind);
        let len = self.reader.u16()?;
        Ok(Some((kind, self.reader.bytes(len.into())?)))
    }

    /// Skips all fields of a packet that defines none; refuses critical ones.
    pub fn skip_all(&mut self) -> Result<(), ParseError> {
        while let Some((kind, _)) = self.next()? {
            skip(kind)?;
        }
        Ok(())
    }
}

/// Accepts an unknown field unless its type is critical.
pub(super) fn skip(kind: u8) -> Result<(), ParseError> {
    match kind & CRITICAL {
        0 => Ok(()),
        _ => Err(ParseError::Field { field: "critical extension", value: kind.into() }),
    }
}

/// Appends a field; the value must be shorter than 65 536 bytes.
pub(super) fn put(buf: &mut Vec<u8>, kind: u8, value: &[u8]) {
    buf.push(kind);
    buf.extend_from_slice(&(value.len() as u16).to_be_bytes());
    buf.extend_from_slice(value);
}

/// Bytes of a field with a value of this length.
pub(super) const fn len_of(value: usize) -> usize {
    3 + value
}
