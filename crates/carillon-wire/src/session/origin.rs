//! Receiver behind a JOIN, by which a job recognises it in another session.

use std::fmt;

use crate::ParseError;

/// Receiver behind a JOIN. The same receiver may have another address, port or process in another session of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Number of the running process in this job; it differs in every other job and for every other sender.
    pub process: u64,
    /// Number of the destination, such as a directory, in this job.
    pub place: u64,
    /// True if the receiver has part of an earlier transfer.
    pub resumes: bool,
    /// True if the receiver was verified in this job but has no acknowledgment of its report.
    pub is_done: bool,
}

impl Origin {
    /// Bytes of the field.
    pub const LEN: usize = 8 + 8 + 1;

    /// Value of the extension field.
    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.process.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.place.to_be_bytes());
        bytes[16] = u8::from(self.resumes) * RESUMES + u8::from(self.is_done) * IS_DONE;
        bytes
    }

    /// Parses the value of the extension field.
    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let wrong = |_| ParseError::Field { field: "origin", value: value.len() as u64 };
        let bytes: &[u8; Self::LEN] = value.try_into().map_err(wrong)?;
        let number = |at: usize| bytes[at..].iter().take(8).fold(0, |all, &byte| all << 8 | u64::from(byte));
        let flags = bytes[16];
        // Unknown flags are refused, so that an accepted packet is emitted unchanged.
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
