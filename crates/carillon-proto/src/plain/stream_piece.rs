//! Pieces of a stream as messages of plain sessions.

use bytes::Bytes;

/// Consecutive bytes of a stream in which messages begin.
///
/// A sender puts each piece into one packet. A receiver delivers the pieces in order; the number of a delivery is one
/// more than that of the piece before, unless pieces between them are lost. An empty piece only tells the end of a
/// message, and takes no number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamPiece {
    /// Index of the first byte that begins a message.
    pub start: Option<u16>,
    /// True if the sender had no more bytes for the packet, so that a message probably ends with this piece.
    pub ends: bool,
    /// The bytes.
    pub content: Bytes,
}

impl StreamPiece {
    /// Message for the machine of a sender, and from that of a receiver: a mark, the end, the start in two bytes, and
    /// the contents.
    pub fn into_message(self) -> Bytes {
        let mut message = Vec::with_capacity(HEAD_LEN + self.content.len());
        message.extend_from_slice(&[MARK, self.ends.into()]);
        message.extend_from_slice(&self.start.unwrap_or(NO_START).to_be_bytes());
        message.extend_from_slice(&self.content);
        message.into()
    }

    /// Returns true if the message is a piece, and not a named file.
    pub fn is_piece(message: &[u8]) -> bool {
        // No name is so long that its length begins with this byte.
        message.first() == Some(&MARK)
    }

    /// Reads a message; `None` if it is none.
    pub fn parse(message: Bytes) -> Option<StreamPiece> {
        let &[MARK, ends, high, low] = message.first_chunk()? else { return None };
        let start = Some(u16::from_be_bytes([high, low])).filter(|&start| start != NO_START);
        Some(StreamPiece { start, ends: ends != 0, content: message.slice(HEAD_LEN..) })
    }
}

/// First byte of a piece.
const MARK: u8 = 0xff;
/// Bytes before the contents.
const HEAD_LEN: usize = 4;
/// Start of a piece in which no message begins.
const NO_START: u16 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::NamedFile;

    #[test]
    fn pieces_are_read_back_and_are_no_files() {
        for (start, ends) in [(None, true), (Some(0), false), (Some(700), true)] {
            let piece = StreamPiece { start, ends, content: Bytes::from_static(b"content") };
            let message = piece.clone().into_message();
            assert!(StreamPiece::is_piece(&message) && NamedFile::parse(message.clone()).is_none());
            assert_eq!(StreamPiece::parse(message), Some(piece));
        }
        let file = NamedFile { name: "name".to_owned(), content: Bytes::new() }.into_message();
        assert!(!StreamPiece::is_piece(&file) && StreamPiece::parse(file).is_none());
        assert_eq!(StreamPiece::parse(Bytes::from_static(&[MARK, 0, 0])), None);
    }
}
