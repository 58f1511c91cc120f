//! What a node has of the messages of one source.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::blocks::{Arrival, ReceiveWindow, Skipped};

/// The receive side for one source: `recvBuf` and the sequence number expected next.
#[derive(Debug)]
pub(super) struct Reception {
    window: ReceiveWindow,
    /// Messages to be asked for, if not only the expected one is.
    asks: Option<BTreeSet<u64>>,
}

impl Reception {
    /// From message 0 on; a node that joins late starts with what it hears first. With `ask_all` it tells of
    /// each message that is to be asked for, and not of the expected one alone.
    pub fn new(capacity: u64, joining: bool, ask_all: bool) -> Self {
        Reception { window: ReceiveWindow::new(capacity, joining), asks: ask_all.then(BTreeSet::new) }
    }

    /// A packet named this message as sent or next: a node that joins late starts here.
    pub fn join_at(&mut self, number: u64) {
        self.window.join_at(number);
    }

    /// Everything before `next` has been sent. Returns the first message missing that was not known
    /// to be, if there is one.
    pub fn announce(&mut self, next: u64) -> Option<u64> {
        let first = self.window.announce(next)?;
        self.ask_from(first);
        Some(first)
    }

    /// A message came in: also that it was sent is news.
    pub fn insert(&mut self, number: u64, payload: Bytes) -> Arrival {
        if let Some(asks) = &mut self.asks {
            asks.remove(&number);
        }
        self.window.insert(number, payload)
    }

    /// Takes the next message in order, if it is there; it counts as waiting until it is fetched.
    pub fn pop(&mut self) -> Option<(u64, Bytes)> {
        self.window.pop()
    }

    /// The application has fetched a message.
    pub fn fetched(&mut self) {
        self.window.fetched();
    }

    /// What lies before `oldest` will not come any more: goes on from there.
    pub fn give_up_before(&mut self, oldest: u64) -> Option<Skipped> {
        let skipped = self.window.skip_to(oldest)?;
        if let Some(asks) = &mut self.asks {
            *asks = asks.split_off(&oldest);
        }
        Some(skipped)
    }

    /// All that is missing is to be asked for again.
    pub fn ask_again(&mut self) {
        self.ask_from(self.window.expected());
    }

    /// What is missing from this message on is to be asked for, as far as it has room.
    fn ask_from(&mut self, first: u64) {
        if let Some(asks) = &mut self.asks {
            asks.extend(self.window.early().missing(first..self.window.wanted()));
        }
    }

    /// The next message to ask for now: each that is missing, or else the expected one if it was sent and has room.
    pub fn next_ask(&mut self) -> Option<u64> {
        match &mut self.asks {
            Some(asks) => asks.pop_first(),
            None => Some(self.window.expected()).filter(|&expected| expected < self.window.wanted()),
        }
    }

    /// Messages of the buffer in use if this one were the last.
    pub fn fill(&self, number: u64) -> u64 {
        self.window.fill(number)
    }

    /// The first message it lacks.
    pub fn expected(&self) -> u64 {
        self.window.expected()
    }
}
