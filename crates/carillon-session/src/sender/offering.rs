//! Messages of the application: the session accepts them for the protocol's machine.

use bytes::Bytes;
use carillon_core::{MessageId, OfferError, Sender, Time};

use super::SenderSession;
use super::state::SenderPhase;

impl SenderSession {
    /// Offers a message with this call of the machine.
    fn offer_by(
        &mut self,
        now: Time,
        payload: Bytes,
        call: fn(&mut dyn Sender, Time, Bytes) -> Result<MessageId, OfferError>,
    ) -> Result<MessageId, OfferError> {
        let (len, max) = (payload.len(), self.sending.max_payload as usize);
        if self.sending.finishing || self.is_over() || self.phase > SenderPhase::Running {
            return Err(OfferError::Finished);
        }
        if len > max {
            return Err(OfferError::TooLarge { len, max });
        }
        let offered = self.with_inner(|inner| match inner.as_sender() {
            Some(sender) => call(sender, now, payload),
            None => Err(OfferError::Finished),
        });
        // A refused offer shows `watch` that the application has more to send.
        self.watching.pulse.blocked = !matches!(offered, Some(Ok(_)));
        // A blocked peer may wait for a lost member, so progress is checked from now on.
        if self.watching.pulse.blocked && self.config.has_peers() && self.phase == SenderPhase::Running {
            self.await_progress(now);
        }
        match offered {
            Some(Ok(message)) => {
                self.watching.pulse.offered += 1;
                self.sending.offered_bytes = self.sending.offered_bytes.saturating_add(len as u64);
                Ok(message)
            }
            Some(Err(error)) => Err(error),
            None => Err(OfferError::Full),
        }
    }
}

impl Sender for SenderSession {
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        self.offer_by(now, payload, |sender, now, payload| sender.offer(now, payload))
    }

    fn withhold(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        let message = self.offer_by(now, payload, |sender, now, payload| sender.withhold(now, payload))?;
        // The message counts as sent, although it is not transmitted.
        self.watching.pulse.sent += u64::from(self.config.protocol.session.overheard_with.is_some());
        Ok(message)
    }

    fn finish(&mut self, now: Time) {
        self.sending.finishing = true;
        self.finish_inner(now);
        self.advance(now);
    }

    fn is_finished(&self) -> bool {
        matches!(self.phase, SenderPhase::Finished | SenderPhase::Aborted)
    }
}
