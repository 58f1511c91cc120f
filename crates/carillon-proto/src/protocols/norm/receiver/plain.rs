//! Stream of a plain source: where its reception begins, its pieces, acknowledgments, and its end.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::{BuildContext, Config, SourceKey, Time};
use carillon_wire::norm::{Item, Nodes, Position, StreamHeader, Transmission};

use super::{BTreeSet, Context, Feedback, MessageId, NormReceiver, Requesting, Shape, Store, Timer, Timing};
use crate::blocks::MAX_SYMBOLS;
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
    pub fn on_heard(&mut self, now: Time) {
        self.heard = now;
    }

    pub fn has_begun(&self) -> bool {
        self.begun
    }

    pub fn is_closed(&self) -> bool {
        self.closed
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
    fn end_message(&mut self) -> Option<Bytes> {
        let continues = std::mem::take(&mut self.continues);
        let end = StreamPiece { start: None, ends: true, content: Bytes::new() };
        continues.then(|| end.into_message())
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

impl NormReceiver {
    /// Creates the receiver of the stream of a plain source. Its first packet states the object, the block and the
    /// sizes of the stream. `None` if the code has no such blocks.
    pub fn plain(
        (key, id): (SourceKey, u32),
        (object, block): (u16, u32),
        Transmission { segment, block: length, parity, .. }: Transmission,
        (build, settings): (&BuildContext, &Config),
    ) -> Option<NormReceiver> {
        if length == 0 || usize::from(length) + usize::from(parity) > MAX_SYMBOLS {
            return None;
        }
        let shape = Shape { block: length.into(), parity: parity as u8 };
        let each = usize::from(segment) + StreamHeader::LEN + SYMBOL_OVERHEAD;
        let room = (build.memory / each) as u64;
        let capacity = settings.count("receive_window").min(room);
        // A few blocks before the first one that was heard are worth a request.
        let begin = u64::from(block);
        let begin = if begin <= settings.count("backlog") { 0 } else { begin };
        let first = shape.first(begin);
        Some(NormReceiver {
            id,
            sender: (key.0 >> 16) as u32,
            instance: key.0 as u16,
            sequence: 0,
            object,
            shape,
            store: Store::new(shape, capacity, begin),
            capacity,
            end: first,
            found: first,
            missing: BTreeSet::new(),
            position: first,
            limit: first,
            requesting: Requesting::new(settings),
            timing: Timing::new(build, settings),
            feedback: Some(Feedback::default()),
            plain: Some(PlainStream {
                segment,
                end_wait: settings.span("end_wait").at(build.bit_rate),
                heard: Time::ZERO,
                begun: false,
                continues: false,
                ended: false,
                closed: false,
                acknowledgment: None,
            }),
        })
    }

    /// Handles a FLUSH of a plain source: the last message has ended, and receivers that are named acknowledge it.
    pub(super) fn on_plain_flush(&mut self, context: &mut Context, end: u64, nodes: Nodes<'_>) {
        let complete = self.store.expected() >= end;
        let Some(plain) = self.plain.as_mut().filter(|_| complete) else { return };
        if let Some(piece) = plain.end_message() {
            context.deliver_sent(self.store.expected(), piece);
        }
        if nodes.iter().any(|node| node == self.id) {
            let (block, symbol) = self.shape.place(end - 1);
            plain.acknowledgment =
                Some(Position::Rs8 { block: super::super::identity::truncate_block(block), symbol });
        }
    }

    /// Ends the reception of a plain source. What is missing is lost.
    pub(in crate::protocols::norm) fn close(&mut self, context: &mut Context) {
        self.find_losses(context, self.end);
        for number in std::mem::take(&mut self.missing) {
            context.events.loss_final(context.sender, MessageId(number));
        }
        context.timers.cancel(Timer::Request);
        context.timers.cancel(Timer::Inactivity);
        context.timers.cancel(Timer::Feedback);
        if let Some(plain) = &mut self.plain {
            plain.closed = true;
        }
    }
}

/// Control code of the symbol that ends a stream.
const STREAM_END: u16 = 0;
/// Bytes by which a symbol is counted, besides its contents.
const SYMBOL_OVERHEAD: usize = 128;
