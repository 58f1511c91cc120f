//! Modification times of entries: nanoseconds since 1970 without leap seconds.

use crate::ParseError;
use crate::reader::Reader;

/// Value of an unknown time.
const NO_TIME: i64 = i64::MIN;

/// Bytes of a time.
pub(super) fn time_to_bytes(modified: Option<i64>) -> [u8; 8] {
    modified.unwrap_or(NO_TIME).to_be_bytes()
}

impl Reader<'_> {
    /// Reads a time; `None` if it is unknown.
    pub(super) fn modified(&mut self) -> Result<Option<i64>, ParseError> {
        let time = i64::from_be_bytes(self.array()?);
        Ok((time != NO_TIME).then_some(time))
    }
}
