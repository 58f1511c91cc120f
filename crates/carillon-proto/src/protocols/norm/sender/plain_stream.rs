//! Pieces of a stream that is sent in a plain session, and whether its end was sent.

use bytes::Bytes;

use crate::plain::StreamPiece;

/// State of the sender of a plain session.
#[derive(Debug)]
pub(super) struct PlainStream {
    /// Bytes of the stream that are kept for repairs, and that receivers keep while they await them.
    buffer: u64,
    /// True once the symbol that ends the stream is among those to send.
    is_ended: bool,
}

impl PlainStream {
    pub fn new(buffer: u64) -> Self {
        PlainStream { buffer, is_ended: false }
    }

    pub fn buffer(&self) -> u64 {
        self.buffer
    }

    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    pub fn end(&mut self) {
        self.is_ended = true;
    }
}

/// Start of a message in a piece as packets have it, and the bytes of the piece.
pub(super) fn piece(message: Bytes) -> (u16, Bytes) {
    match StreamPiece::parse(message.clone()) {
        Some(StreamPiece { start, content, .. }) => (start.map_or(0, |start| start + 1), content),
        None => (1, message),
    }
}
