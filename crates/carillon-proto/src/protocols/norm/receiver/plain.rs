//! Stream of a plain source: where its reception begins, acknowledgments, and its end.

use carillon_core::{BuildContext, Config, SourceKey};
use carillon_wire::norm::{Nodes, Position, StreamHeader, Transmission};

use super::super::identity::truncate_block;
use super::plain_stream::PlainStream;
use super::{BTreeSet, Context, Feedback, MessageId, NormReceiver, Requesting, Shape, Store, Timer, Timing};
use crate::blocks::MAX_SYMBOLS;

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
            plain: Some(PlainStream::new(segment, settings.span("end_wait").at(build.bit_rate))),
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
            plain.on_named(Position::Rs8 { block: truncate_block(block), symbol });
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
            plain.close();
        }
    }
}

/// Bytes by which a symbol is counted, besides its contents.
const SYMBOL_OVERHEAD: usize = 128;
