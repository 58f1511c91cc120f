//! Extension fields at the end of an opening packet: a type, a length and a value each.
//!
//! ```text
//! +---------------+-------------------------------+---------------+
//! |     type      |          value len            |  value ...
//! +---------------+-------------------------------+---------------+
//! ```
//!
//! Types with [`CRITICAL`] set have to be understood: a packet with an unknown one is refused. Other unknown types are
//! skipped, so that a later release of the same wire version can add fields. A type stands once, in ascending order.

use crate::ParseError;
use crate::reader::Reader;

/// The bit of a type that forbids skipping the field.
pub(super) const CRITICAL: u8 = 0x80;

/// The job of an INVITE: 16 bytes.
pub(super) const JOB: u8 = 1;

/// What the application of a receiver attaches to its JOIN: 1 to 288 bytes.
pub(super) const ATTACHED: u8 = 2;

/// The cookie of the CHALLENGE that a JOIN answers: 8 bytes.
pub(super) const COOKIE: u8 = 3;

/// Whom a JOIN speaks for: 17 bytes.
pub(super) const ORIGIN: u8 = 4;

/// Extension fields of a packet, read one by one.
#[derive(Debug)]
pub(super) struct Extensions<'r, 'a> {
    reader: &'r mut Reader<'a>,
    last: Option<u8>,
}

impl<'r, 'a> Extensions<'r, 'a> {
    /// The fields that are left of a packet.
    pub fn of(reader: &'r mut Reader<'a>) -> Self {
        Extensions { reader, last: None }
    }

    /// The next field, known or not: its type and value.
    pub fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, ParseError> {
        if self.reader.rest().is_empty() {
            return Ok(None);
        }
        let kind = self.reader.u8()?;
        if self.last.is_some_and(|last| last >= kind) {
            return Err(ParseError::Field { field: "extension order", value: kind.into() });
        }
        self.last = Some(kind);
        let len = self.reader.u16()?;
        Ok(Some((kind, self.reader.bytes(len.into())?)))
    }

    /// Skips all fields of a packet that knows none; refuses critical ones.
    pub fn skip_all(&mut self) -> Result<(), ParseError> {
        while let Some((kind, _)) = self.next()? {
            skip(kind)?;
        }
        Ok(())
    }
}

/// Accepts that an unknown field is skipped, unless it is critical.
pub(super) fn skip(kind: u8) -> Result<(), ParseError> {
    match kind & CRITICAL {
        0 => Ok(()),
        _ => Err(ParseError::Field { field: "critical extension", value: kind.into() }),
    }
}

/// Appends a field; its value is shorter than 65 536 bytes.
pub(super) fn put(buf: &mut Vec<u8>, kind: u8, value: &[u8]) {
    buf.push(kind);
    buf.extend_from_slice(&(value.len() as u16).to_be_bytes());
    buf.extend_from_slice(value);
}

/// Bytes of a field with a value of this length.
pub(super) const fn len_of(value: usize) -> usize {
    3 + value
}
