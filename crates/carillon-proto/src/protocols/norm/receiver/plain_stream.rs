//! Pieces of a stream that a plain source sends, its silence, and its end.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::Time;
use carillon_wire::norm::{Item, Position, StreamHeader};

use crate::plain::StreamPiece;

/// State of a plain source.
#[derive(Debug)]
pub(super) struct PlainStream {
    /// Bytes of a full symbol, as the source states them.
    segment: u16,
    /// Time without a packet after which a source of which nothing is missing has ended.
    end_wait: Duration,
    /// Time of the last packet.
    heard: Time,
    /// True after the first piece.
    begun: bool,
    /// True if the last piece may continue in the next symbol.
    continues: bool,
    /// True after the symbol that ends the stream.
    ended: bool,
    closed: bool,
    /// Acknowledgment to send: position of a FLUSH.
    acknowledgment: Option<Position>,
}

impl PlainStream {
    pub fn new(segment: u16, end_wait: Duration) -> Self {
        PlainStream {
            segment,
            end_wait,
            heard: Time::ZERO,
            begun: false,
            continues: false,
            ended: false,
            closed: false,
            acknowledgment: None,
        }
    }

    pub fn on_heard(&mut self, now: Time) {
        self.heard = now;
    }

    pub fn has_begun(&self) -> bool {
        self.begun
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    pub fn close(&mut self) {
        self.closed = true;
    }

    pub fn end_wait(&self) -> Duration {
        self.end_wait
    }

    /// Time since the last packet.
    pub fn silence(&self, now: Time) -> Duration {
        now.since(self.heard)
    }

    /// Returns true if the source has been silent for so long that it has ended. After the end of the stream any
    /// silence suffices.
    pub fn is_over(&self, now: Time) -> bool {
        self.ended || now.since(self.heard) >= self.end_wait
    }

    /// Piece in a symbol; `None` if the symbol ends the stream (RFC 5740, 4.2.1).
    pub fn piece(&mut self, header: StreamHeader, content: Bytes) -> Option<Bytes> {
        self.begun = true;
        if header.length == 0 {
            self.ended |= header.message_start == STREAM_END;
            return self.end_message();
        }
        let start = header.message_start.checked_sub(1).filter(|&start| start < header.length);
        // The sender fills symbols until its application flushes.
        let ends = header.length < self.segment;
        self.continues = !ends;
        Some(StreamPiece { start, ends, content }.into_message())
    }

    /// Empty piece that ends the message in the last one, if that is not ended.
    pub fn end_message(&mut self) -> Option<Bytes> {
        let continues = std::mem::take(&mut self.continues);
        let end = StreamPiece { start: None, ends: true, content: Bytes::new() };
        continues.then(|| end.into_message())
    }

    /// Acknowledges a FLUSH with this position in the next packet.
    pub fn on_named(&mut self, position: Position) {
        self.acknowledgment = Some(position);
    }

    /// Writes the place of the FLUSH that is to be acknowledged. Returns false if there is none.
    pub fn acknowledge(&mut self, object: u16, place: &mut Vec<u8>) -> bool {
        let position = self.acknowledgment.take();
        position.is_some_and(|position| {
            Item { object, position }.emit(place);
            true
        })
    }
}

/// Control code of the symbol that ends a stream.
const STREAM_END: u16 = 0;
