//! Sizes of the SIZE datagrams, for path MTU discovery.

use std::fmt;

use crate::ParseError;
use crate::reader::Reader;

/// Sizes of the datagrams that a sender shows while it gathers (SIZE).
///
/// Each receiver learns from them which size reaches it, as a probe of RFC 8899 (section 4.1) tells for one path.
/// Both sizes are 0 if the sender shows none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramSizes {
    /// Bytes of the longest datagram, the size of the session's data packets.
    pub longest: u16,
    /// Bytes of the shortest datagram; a receiver that gets not even this size cannot take part.
    pub least: u16,
}

impl DatagramSizes {
    /// Returns true if the sender shows any datagrams.
    pub fn are_shown(self) -> bool {
        self.longest > 0
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (longest, least) = (reader.u16()?, reader.u16()?);
        // Both sizes are zero, or the range is not empty.
        if least > longest || (least == 0) != (longest == 0) {
            return Err(ParseError::Field { field: "least", value: least.into() });
        }
        Ok(DatagramSizes { longest, least })
    }

    pub(super) fn emit(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.longest.to_be_bytes());
        buf.extend_from_slice(&self.least.to_be_bytes());
    }
}

impl fmt::Display for DatagramSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.are_shown() {
            true => write!(f, " datagrams {} to {}", self.least, self.longest),
            false => Ok(()),
        }
    }
}

/// Zeros that extend a datagram to its size; the number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding(pub usize);

impl Padding {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let rest = reader.bytes(reader.rest().len())?;
        match rest.iter().find(|&&byte| byte != 0) {
            Some(&byte) => Err(ParseError::Field { field: "padding", value: byte.into() }),
            None => Ok(Padding(rest.len())),
        }
    }

    pub(super) fn emit(self, buf: &mut Vec<u8>) {
        buf.resize(buf.len() + self.0, 0);
    }
}
