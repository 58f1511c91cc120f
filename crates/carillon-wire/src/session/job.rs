//! Identity of a job.

use std::fmt;

use crate::ParseError;
use crate::hex::Hex;

/// Identity of a job in all of its sessions: 16 bytes that the sender draws at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub [u8; JobId::LEN]);

impl JobId {
    /// Bytes of an identity.
    pub const LEN: usize = 16;

    /// Parses the value of the extension field.
    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let wrong = |_| ParseError::Field { field: "job", value: value.len() as u64 };
        value.try_into().map(JobId).map_err(wrong)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(f)
    }
}
