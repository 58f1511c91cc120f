//! Identifiers of session and object in the LCT header (RFC 5651, section 5.1).

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::reader::Reader;

/// Transport session and object identifiers, with the widths that they have in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identifiers {
    tsi: u64,
    toi: u128,
    /// Full words of the session identifier: 0 or 1.
    tsi_words: u8,
    /// Full words of the object identifier: 0 to 3.
    toi_words: u8,
    /// True if both have a further half of a word.
    half: bool,
}

impl Identifiers {
    /// Shortest encoding of a session and an object, or of the session alone. Higher bits than 48 of the session and
    /// 112 of the object are not encoded.
    pub fn new(tsi: u64, toi: Option<u128>) -> Self {
        let tsi_words = u8::from(tsi >> 16 != 0);
        let Some(toi) = toi else {
            // Half a word of the session would make half a word of an object.
            let half = tsi >> 32 != 0;
            return Identifiers { tsi, toi: 0, tsi_words: 1, toi_words: 0, half };
        };
        let bits = 128 - toi.leading_zeros();
        let (full, rest) = (bits / 32, bits % 32);
        let (toi_words, toi_half) = match rest {
            0 => (full, false),
            1..=16 => (full, true),
            _ => (full + 1, false),
        };
        let half = toi_half || tsi >> 16 == 0 || tsi >> 32 != 0;
        let toi_words = if toi_words == 0 && !half { 1 } else { toi_words.min(3) as u8 };
        Identifiers { tsi, toi, tsi_words, toi_words, half }
    }

    /// Session identifier that stands for an association: the shortest that there are, and not 0.
    pub fn session_of(association: AssociationId) -> u64 {
        1 + u64::from(association.0 % 0xffff)
    }

    /// Session; `None` if the packet has none.
    pub fn tsi(&self) -> Option<u64> {
        (self.tsi_words > 0 || self.half).then_some(self.tsi)
    }

    /// Object; `None` if the packet has none.
    pub fn toi(&self) -> Option<u128> {
        (self.toi_words > 0 || self.half).then_some(self.toi)
    }

    pub(super) fn read(flags: u8, fields: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (tsi_words, toi_words, half) = (flags >> 7, flags >> 5 & 3, flags & HALF != 0);
        let mut number = |words: u8| {
            let bytes = fields.bytes(4 * usize::from(words) + 2 * usize::from(half))?;
            Ok::<_, ParseError>(bytes.iter().fold(0, |sum: u128, &byte| sum << 8 | u128::from(byte)))
        };
        let tsi = number(tsi_words)? as u64;
        Ok(Identifiers { tsi, toi: number(toi_words)?, tsi_words, toi_words, half })
    }

    pub(super) fn flags(&self) -> u8 {
        self.tsi_words << 7 | self.toi_words << 5 | if self.half { HALF } else { 0 }
    }

    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        let half = 2 * usize::from(self.half);
        let (tsi, toi) = (self.tsi.to_be_bytes(), self.toi.to_be_bytes());
        buf.extend_from_slice(&tsi[tsi.len() - 4 * usize::from(self.tsi_words) - half..]);
        buf.extend_from_slice(&toi[toi.len() - 4 * usize::from(self.toi_words) - half..]);
    }

    pub(super) fn wire_len(&self) -> usize {
        4 * usize::from(self.tsi_words + self.toi_words + u8::from(self.half))
    }
}

impl fmt::Display for Identifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tsi) = self.tsi() {
            write!(f, " tsi {tsi}")?;
        }
        if let Some(toi) = self.toi() {
            write!(f, " toi {toi}")?;
        }
        Ok(())
    }
}

/// Flag: both identifiers have half a word more.
const HALF: u8 = 0x10;
