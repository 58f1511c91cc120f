//! The messages of this member that are under way.

use bytes::Bytes;
use carillon_core::OfferError;

use crate::blocks::Numbered;

/// A message of this member.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    /// The message.
    pub payload: Bytes,
    /// It is to be sent to the sequencer, or to all.
    pub due: bool,
    /// How many were outstanding when it was first sent.
    pub sent: Option<u32>,
    /// It has been seen in its place.
    pub ordered: bool,
}

/// The messages of this member that it has not delivered to itself, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    messages: Numbered<Outgoing>,
    window: usize,
    max_payload: usize,
    finished: bool,
}

impl Outbox {
    /// Up to `window` messages of up to `max_payload` bytes, numbered from `first`.
    pub fn new(window: usize, max_payload: usize, first: u64) -> Self {
        Outbox { messages: Numbered::starting_at(first), window, max_payload, finished: false }
    }

    /// Takes a message.
    pub fn offer(&mut self, payload: Bytes) -> Result<u64, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if payload.len() > self.max_payload {
            return Err(OfferError::TooLarge { len: payload.len(), max: self.max_payload });
        }
        if self.messages.len() >= self.window {
            return Err(OfferError::Full);
        }
        Ok(self.messages.push(Outgoing { payload, due: true, sent: None, ordered: false }))
    }

    /// No more will be offered.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Numbers go on from here: the group knows what a member said before it lost its state.
    pub fn number_from(&mut self, first: u64) {
        self.messages.number_from(first);
    }

    /// Takes the oldest out.
    pub fn complete(&mut self) -> Option<(u64, Outgoing)> {
        self.messages.pop()
    }

    /// The message of this number, if it is under way.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut Outgoing> {
        self.messages.get_mut(number)
    }

    /// The message of this number, if it is under way.
    pub fn get(&self, number: u64) -> Option<&Outgoing> {
        self.messages.get(number)
    }

    /// The first message that is to be sent.
    pub fn first_due(&self) -> Option<u64> {
        (self.first()..).zip(self.messages.iter()).find(|(_, message)| message.due).map(|(number, _)| number)
    }

    /// After a view came into force: what the log holds is ordered, the rest is sent again.
    pub fn reorder(&mut self, ordered_below: u64) {
        for (number, message) in (self.messages.start()..).zip(self.messages.iter_mut()) {
            message.ordered = number < ordered_below;
            message.due = !message.ordered;
        }
    }

    /// No answer came: the oldest that is not in its place is sent again. Returns whether there is one.
    ///
    /// Only the oldest: the sequencer keeps later ones until it has that, and what is too much for
    /// the network is not helped by more.
    pub fn retry(&mut self) -> bool {
        let oldest = self.messages.iter_mut().find(|message| !message.ordered);
        oldest.map(|message| message.due = true).is_some()
    }

    /// A message of this member is in its place.
    pub fn set_ordered(&mut self, number: u64) {
        if let Some(message) = self.get_mut(number) {
            message.ordered = true;
            message.due = false;
        }
    }

    /// The number of the oldest message under way, or of the next one.
    pub fn first(&self) -> u64 {
        self.messages.start()
    }

    /// How many are under way.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether nothing is under way and nothing will be.
    pub fn is_finished(&self) -> bool {
        self.finished && self.messages.is_empty()
    }
}
