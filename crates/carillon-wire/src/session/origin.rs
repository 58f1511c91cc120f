//! What a receiver says of itself when it joins, by which a job knows it again.

use std::fmt;

use crate::ParseError;

/// Whom a JOIN speaks for: the same receiver in another session of a job may have another address, port or process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Number of the running process, as this job sees it: no other job, and no other sender, sees the same.
    pub process: u64,
    /// Number of the place where the data goes, as a directory, as this job sees it.
    pub place: u64,
    /// The receiver has a part of a transfer from before.
    pub resumes: bool,
    /// The receiver was verified in this job and has no acknowledgment of that.
    pub is_done: bool,
}

impl Origin {
    /// Bytes of the field.
    pub const LEN: usize = 8 + 8 + 1;

    /// The value of the extension field as it is sent.
    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.process.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.place.to_be_bytes());
        bytes[16] = u8::from(self.resumes) * RESUMES + u8::from(self.is_done) * IS_DONE;
        bytes
    }

    /// The value of the extension field as it was received.
    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let wrong = |_| ParseError::Field { field: "origin", value: value.len() as u64 };
        let bytes: &[u8; Self::LEN] = value.try_into().map_err(wrong)?;
        let number = |at: usize| bytes[at..].iter().take(8).fold(0, |all, &byte| all << 8 | u64::from(byte));
        let flags = bytes[16];
        if flags & !(RESUMES | IS_DONE) != 0 {
            return Err(ParseError::Field { field: "origin flags", value: flags.into() });
        }
        Ok(Origin {
            process: number(0),
            place: number(8),
            resumes: flags & RESUMES != 0,
            is_done: flags & IS_DONE != 0,
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " process {:016x} place {:016x}", self.process, self.place)?;
        f.write_str(if self.resumes { " resumes" } else { "" })?;
        f.write_str(if self.is_done { " done" } else { "" })
    }
}

const RESUMES: u8 = 1;
const IS_DONE: u8 = 2;
