//! Delivery of live-stream messages to the program.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use crate::error::LocalError;
use carillon_net::Waker;
use carillon_wire::file::{ResumePoint, TransferId};

use super::message_numbers::{BEGINS, MessageNumbers};

/// A consumer of live-stream messages.
pub trait Messages: Send {
    /// Handles the next message in the order of delivery, with its sender and sequence number. That is the order of
    /// sending unless the sender chose another.
    fn message(&mut self, sender: &str, number: u64, bytes: &[u8]) -> io::Result<()>;

    /// Handles a message that was reassembled from pieces.
    fn whole(&mut self, sender: &str, number: u64, bytes: Vec<u8>) -> io::Result<()> {
        self.message(sender, number, &bytes)
    }

    /// Called when no more messages are queued: output must not wait for later ones.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns true if it never blocks while it [has room](Self::has_room): then it is called in the event loop,
    /// otherwise in a thread of its own.
    fn is_prompt(&self) -> bool {
        false
    }

    /// Returns true if it can take more without blocking; otherwise it wakes `_waker` when it can.
    fn has_room(&mut self, _waker: &Waker) -> bool {
        true
    }
}

impl<M: Messages + ?Sized> Messages for Box<M> {
    fn message(&mut self, sender: &str, number: u64, bytes: &[u8]) -> io::Result<()> {
        (**self).message(sender, number, bytes)
    }

    fn whole(&mut self, sender: &str, number: u64, bytes: Vec<u8>) -> io::Result<()> {
        (**self).whole(sender, number, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }

    fn is_prompt(&self) -> bool {
        (**self).is_prompt()
    }

    fn has_room(&mut self, waker: &Waker) -> bool {
        (**self).has_room(waker)
    }
}

/// Delivers messages in order and computes digests.
pub struct Live {
    to: Box<dyn Messages>,
    messages: u64,
    /// True if every sender's messages arrive in the order of sending.
    pub(super) in_order: bool,
    /// True if digests are computed.
    digests: bool,
    hasher: Box<blake3::Hasher>,
    /// Digests of the messages of each sender.
    senders: BTreeMap<String, blake3::Hasher>,
    /// Last stream of a single sender: its job, and the numbers of the received messages.
    last: Option<(TransferId, MessageNumbers)>,
}

impl Live {
    /// Delivers to this consumer, with digests.
    pub fn new(to: impl Messages + 'static) -> Self {
        Live { digests: true, ..Live::plain(to) }
    }

    /// Delivers to this consumer, without digests.
    pub fn plain(to: impl Messages + 'static) -> Self {
        let to = Box::new(to);
        Live {
            to,
            messages: 0,
            in_order: true,
            digests: false,
            hasher: Box::default(),
            senders: BTreeMap::new(),
            last: None,
        }
    }

    /// Point that the last stream has reached; zeros before the first.
    pub(super) fn reached(&self) -> ResumePoint {
        let (transfer, offset) =
            self.last.as_ref().map_or_else(Default::default, |(job, numbers)| (*job, numbers.next()));
        ResumePoint { transfer, entry: BEGINS, offset }
    }

    /// Takes the numbers of the messages that earlier sessions of this job have delivered.
    pub(super) fn take_numbers(&mut self, job: TransferId) -> Option<MessageNumbers> {
        self.last.take().filter(|(last, _)| *last == job).map(|(_, numbers)| numbers)
    }

    /// Keeps the numbers of the received messages of this job for a later session.
    pub(super) fn keep_numbers(&mut self, job: TransferId, numbers: MessageNumbers) {
        self.last = Some((job, numbers));
    }

    /// Number of the first message that the sessions of the last stream delivered, or could have; zero if it was
    /// received from the start.
    pub fn first(&self) -> u64 {
        self.last.as_ref().map_or(0, |(_, numbers)| numbers.first())
    }

    /// Number of messages of the last stream, up to its last received one, that no session delivered.
    pub fn missed(&self) -> u64 {
        self.last.as_ref().map_or(0, |(_, numbers)| numbers.missed())
    }

    /// Delivers the next message.
    pub(super) fn write(&mut self, sender: &str, number: u64, bytes: &[u8]) -> Result<(), LocalError> {
        self.count(sender, number, bytes);
        Ok(self.to.message(sender, number, bytes)?)
    }

    /// Delivers the next message, which was reassembled from pieces.
    pub(super) fn write_whole(
        &mut self,
        sender: &str,
        number: u64,
        bytes: Vec<u8>,
    ) -> Result<(), LocalError> {
        self.count(sender, number, &bytes);
        Ok(self.to.whole(sender, number, bytes)?)
    }

    fn count(&mut self, sender: &str, number: u64, bytes: &[u8]) {
        self.messages += 1;
        if !self.digests || !self.in_order {
            return;
        }
        if !self.senders.contains_key(sender) {
            self.senders.insert(sender.to_owned(), blake3::Hasher::new());
        }
        for hasher in self.senders.get_mut(sender).into_iter().chain([&mut *self.hasher]) {
            // Each field is preceded by its length, so different streams never hash the same bytes.
            for part in [sender.as_bytes(), &number.to_be_bytes(), bytes] {
                hasher.update(&(part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
        }
    }

    /// Flushes the consumer.
    pub(super) fn flush(&mut self) -> Result<(), LocalError> {
        Ok(self.to.flush()?)
    }

    pub(super) fn is_prompt(&self) -> bool {
        self.to.is_prompt()
    }

    pub(super) fn has_room(&mut self, waker: &Waker) -> bool {
        self.to.has_room(waker)
    }

    /// Resets count and digests. The position in an unfinished stream stays.
    pub fn again(self) -> Self {
        Live { messages: 0, in_order: true, hasher: Box::default(), senders: BTreeMap::new(), ..self }
    }

    /// Number of messages.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Digest of all messages with senders and numbers, equal at all receivers with the same messages in the same
    /// order. `None` with unordered delivery.
    pub fn digest(&self) -> Option<blake3::Hash> {
        self.in_order.then(|| self.hasher.finalize())
    }

    /// Digest of one sender's messages, equal at all receivers of them, independent of other senders.
    pub fn digest_of(&self, sender: &str) -> Option<blake3::Hash> {
        self.senders.get(sender).filter(|_| self.in_order).map(blake3::Hasher::finalize)
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("messages", &self.messages).finish_non_exhaustive()
    }
}
