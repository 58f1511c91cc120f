//! The messages of live streams, handed over as they come.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use carillon_net::Waker;

/// Who takes the messages of live streams.
pub trait Messages: Send {
    /// The next message in the order of delivery, which is that in which they were sent unless the sender chose otherwise: the sender's name,
    /// and the message's number among its messages.
    fn message(&mut self, sender: &str, number: u64, bytes: &[u8]) -> io::Result<()>;

    /// The same with one that came in pieces, whose bytes were put together for whoever takes it.
    fn whole(&mut self, sender: &str, number: u64, bytes: Vec<u8>) -> io::Result<()> {
        self.message(sender, number, &bytes)
    }

    /// No more of them have come: what was taken is not to wait for later ones.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether it never waits as long as it [has room](Self::has_room): then it is called where the messages come, and otherwise in a
    /// thread of its own.
    fn is_prompt(&self) -> bool {
        false
    }

    /// Whether it can take more without waiting; if not, it is to wake this when it can.
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

/// Hands messages over in the order of delivery, and adds that order up.
pub struct Live {
    to: Box<dyn Messages>,
    messages: u64,
    /// Whether their order means something: all of them come in the order in which they were sent.
    pub(super) in_order: bool,
    /// Whether digests are wanted.
    digests: bool,
    hasher: Box<blake3::Hasher>,
    /// The same for the messages of each sender.
    senders: BTreeMap<String, blake3::Hasher>,
}

impl Live {
    /// To whom they are handed.
    pub fn new(to: impl Messages + 'static) -> Self {
        Live { digests: true, ..Live::plain(to) }
    }

    /// The same without digests.
    pub fn plain(to: impl Messages + 'static) -> Self {
        let to = Box::new(to);
        Live {
            to,
            messages: 0,
            in_order: true,
            digests: false,
            hasher: Box::default(),
            senders: BTreeMap::new(),
        }
    }

    /// Takes the next message in the order.
    pub(super) fn write(&mut self, sender: &str, number: u64, bytes: &[u8]) -> anyhow::Result<()> {
        self.count(sender, number, bytes);
        Ok(self.to.message(sender, number, bytes)?)
    }

    /// The same with one that came in pieces.
    pub(super) fn write_whole(&mut self, sender: &str, number: u64, bytes: Vec<u8>) -> anyhow::Result<()> {
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
            // Every length before what it is the length of: no two streams have the same bytes here.
            for part in [sender.as_bytes(), &number.to_be_bytes(), bytes] {
                hasher.update(&(part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
        }
    }

    /// What has come is not to wait for later messages.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.to.flush()?)
    }

    pub(super) fn is_prompt(&self) -> bool {
        self.to.is_prompt()
    }

    pub(super) fn has_room(&mut self, waker: &Waker) -> bool {
        self.to.has_room(waker)
    }

    /// With the count and the digests from the start.
    pub fn again(self) -> Self {
        Live { messages: 0, in_order: true, hasher: Box::default(), senders: BTreeMap::new(), ..self }
    }

    /// How many messages there were.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// A digest of the messages in their order, each with its sender and number: the same at all
    /// receivers that got the same in the same order. None where each came as it would.
    pub fn digest(&self) -> Option<blake3::Hash> {
        self.in_order.then(|| self.hasher.finalize())
    }

    /// The same for the messages of one sender alone: the same at all receivers that got them, in
    /// whatever order with those of others.
    pub fn digest_of(&self, sender: &str) -> Option<blake3::Hash> {
        self.senders.get(sender).filter(|_| self.in_order).map(blake3::Hasher::finalize)
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("messages", &self.messages).finish_non_exhaustive()
    }
}
