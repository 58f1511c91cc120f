//! Stream of a plain session: pieces in which messages begin, and the symbol that ends it.

use bytes::Bytes;
use carillon_core::{BuildContext, Config, ConfigError};

use super::super::confirmations::Confirmations;
use super::{Context, NormSender, Shape, Timer};
use crate::blocks::{MAX_SYMBOLS, Part, Player};
use crate::plain::StreamPiece;

/// State of a plain session.
#[derive(Debug)]
pub(super) struct PlainStream {
    /// Bytes of the stream that are kept for repairs, and that receivers keep while they await them.
    buffer: u64,
    /// True once the symbol that ends the stream is among those to send.
    is_ended: bool,
}

impl PlainStream {
    pub fn buffer(&self) -> u64 {
        self.buffer
    }
}

/// Start of a message in a piece as packets have it, and the bytes of the piece.
pub(super) fn piece(message: Bytes) -> (u16, Bytes) {
    match StreamPiece::parse(message.clone()) {
        Some(StreamPiece { start, content, .. }) => (start.map_or(0, |start| start + 1), content),
        None => (1, message),
    }
}

impl NormSender {
    /// Creates the sender of the stream of a plain session.
    pub fn plain(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let block = settings.count("stream_block");
        // Short blocks need less parity.
        let parity = settings.count("parity").min(block).min(MAX_SYMBOLS as u64 - block) as u8;
        let shape = Shape { block, parity };
        let segment = u64::from(build.max_payload.max(1));
        // Whole blocks, at least two: receivers keep the block that is sent and the one that is repaired.
        let blocks = (settings.size("stream_buffer").0 / segment / block).max(2);
        // Members are identifiers of receivers, and no nodes of the network.
        let confirmations = Confirmations::of(&build.members);
        let build = &BuildContext { members: [].into(), ..build.clone() };
        let mut sender = Self::with_shape(shape, blocks * block, build, settings)?;
        sender.confirmations = confirmations;
        sender.plain = Some(PlainStream { buffer: blocks * block * segment, is_ended: false });
        Ok(sender.play(build))
    }

    /// Ends the stream of a plain session that is finished with a symbol without bytes (RFC 5740, 4.2.1), as soon as
    /// there is room for it.
    pub(super) fn end_stream(&mut self, context: &mut Context) {
        let Some(plain) = self.plain.as_mut().filter(|plain| !plain.is_ended) else { return };
        if !self.finished {
            return;
        }
        plain.is_ended = true;
        if self.window.next() == 0 && self.window.is_sent() {
            // Nothing was sent, so there is no stream.
            self.closed = true;
        } else if self.push(context, 0, &[]).is_err() {
            if let Some(plain) = &mut self.plain {
                plain.is_ended = false;
            }
            if context.timers.armed(Timer::Advance).is_none() {
                // Messages are still to be sent.
                context.timers.arm(Timer::Advance, context.now + self.grtt.value());
            }
        }
    }
}
