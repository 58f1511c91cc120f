//! Tags of data packets.

use super::stream::Piece;

/// Message number and position in a tag. Streams with gaps need it, since receivers cannot count messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageTag {
    pub message: u64,
    pub begins: bool,
    pub is_empty: bool,
}

impl MessageTag {
    pub fn of(piece: &Piece) -> Self {
        MessageTag { message: piece.message, begins: piece.edges.0, is_empty: piece.is_empty }
    }

    pub fn tag(self) -> [u8; 8] {
        (self.message << 2 | u64::from(self.begins) << 1 | u64::from(self.is_empty)).to_be_bytes()
    }

    pub fn read(tag: [u8; 8]) -> Self {
        let number = u64::from_be_bytes(tag);
        MessageTag { message: number >> 2, begins: number & 2 != 0, is_empty: number & 1 != 0 }
    }
}

/// Tag of the byte that stands for an empty message.
pub(super) const EMPTY_TAG: [u8; 8] = *b"no bytes";
