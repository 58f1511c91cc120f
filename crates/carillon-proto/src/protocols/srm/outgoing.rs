//! What a member has to send: its own messages.

use std::collections::VecDeque;

use bytes::Bytes;
use carillon_core::OfferError;

/// Own messages that are not sent yet.
#[derive(Debug)]
pub(super) struct Outgoing {
    waiting: VecDeque<Bytes>,
    finished: bool,
}

impl Outgoing {
    /// Nothing. Who has forgotten the numbers of its messages cannot go on with them: it has `finished`
    /// from the beginning.
    pub fn new(finished: bool) -> Self {
        Outgoing { waiting: VecDeque::new(), finished }
    }

    /// Takes a message; returns how many waited before it.
    pub fn offer(&mut self, payload: Bytes) -> Result<u64, OfferError> {
        let waiting = self.waiting.len() as u64;
        if self.finished {
            return Err(OfferError::Finished);
        }
        if waiting >= MOST_WAITING {
            return Err(OfferError::Full);
        }
        self.waiting.push_back(payload);
        Ok(waiting)
    }

    /// No more will be offered.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Whether all has gone out.
    pub fn is_finished(&self) -> bool {
        self.finished && self.waiting.is_empty()
    }

    /// Whether there is something to send.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next message.
    pub fn pop(&mut self) -> Option<Bytes> {
        self.waiting.pop_front()
    }
}

/// Messages that wait for the interface or for their turn, at most.
const MOST_WAITING: u64 = 64;
