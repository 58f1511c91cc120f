//! Holdings: what a receiver has of the sender's list before anything is sent.
//!
//! The meaning of the bytes is that of the application (`carillon_wire::holdings`). The session carries them from one
//! receiver to the sender, in parts that the sender acknowledges.

use crate::ParseError;
use crate::hex::Hex;

/// Part of a receiver's answer to a question about its holdings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldingsPart<'a> {
    /// Number of the question, from 1.
    pub question: u32,
    /// Bytes of the whole answer, 1 to [`HoldingsPart::MAX_TOTAL`].
    pub total: u32,
    /// Offset of this part.
    pub offset: u32,
    /// Bytes of this part, 1 to [`HoldingsPart::MAX_LEN`].
    pub bytes: &'a [u8],
}

impl<'a> HoldingsPart<'a> {
    /// Maximum length of a part in bytes.
    pub const MAX_LEN: usize = 1100;
    /// Maximum length of an answer in bytes.
    pub const MAX_TOTAL: u32 = 64 << 10;

    /// Bytes of the fields before the part.
    pub(super) const HEADER_LEN: usize = 4 + 4 + 4;

    /// Checks the fields: the part is not empty, not too long, and lies within the answer.
    pub fn new(question: u32, total: u32, offset: u32, bytes: &'a [u8]) -> Result<Self, ParseError> {
        if !(1..=Self::MAX_TOTAL).contains(&total) {
            return Err(ParseError::Field { field: "total", value: total.into() });
        }
        let fits = (1..=Self::MAX_LEN).contains(&bytes.len())
            && u64::from(offset) + bytes.len() as u64 <= total.into();
        match fits {
            true => Ok(HoldingsPart { question, total, offset, bytes }),
            false => Err(ParseError::Field { field: "offset", value: offset.into() }),
        }
    }

    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        for number in [self.question, self.total, self.offset] {
            buf.extend_from_slice(&number.to_be_bytes());
        }
        buf.extend_from_slice(self.bytes);
    }
}

/// Identity of a list of entries: equal lists have equal identities. Zero stands for no list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListId(pub [u8; ListId::LEN]);

impl ListId {
    /// Bytes of an identity.
    pub const LEN: usize = 16;

    /// Parses the value of the extension field.
    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let wrong = |_| ParseError::Field { field: "list", value: value.len() as u64 };
        value.try_into().map(ListId).map_err(wrong)
    }
}

impl std::fmt::Display for ListId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Hex(&self.0).fmt(f)
    }
}
