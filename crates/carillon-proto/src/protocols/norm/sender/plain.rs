//! Begin and end of the stream of a plain session.

use carillon_core::{BuildContext, Config, ConfigError};

use super::super::confirmations::Confirmations;
use super::plain_stream::PlainStream;
use super::{Context, NormSender, Shape, Timer};
use crate::blocks::{MAX_SYMBOLS, Part, Player};

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
        sender.plain = Some(PlainStream::new(blocks * block * segment));
        Ok(sender.play(build))
    }

    /// Ends the stream of a plain session that is finished with a symbol without bytes (RFC 5740, 4.2.1), as soon as
    /// there is room for it.
    pub(super) fn end_stream(&mut self, context: &mut Context) {
        let is_open = self.plain.as_ref().is_some_and(|plain| !plain.is_ended());
        if !is_open || !self.finished {
            return;
        }
        // Without anything sent there is no stream.
        let is_empty = self.window.next() == 0 && self.window.is_sent();
        if is_empty || self.push(context, 0, &[]).is_ok() {
            self.closed |= is_empty;
            if let Some(plain) = &mut self.plain {
                plain.end();
            }
        } else if context.timers.armed(Timer::Advance).is_none() {
            // Messages are still to be sent.
            context.timers.arm(Timer::Advance, context.now + self.grtt.value());
        }
    }
}
