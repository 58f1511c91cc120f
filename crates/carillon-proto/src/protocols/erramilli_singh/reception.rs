//! What a node has of the messages of one source.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

/// The receive side for one source: `recvBuf` and the sequence number expected next.
///
/// The buffer holds what the application has not fetched yet, and beyond it what came early. A
/// message has room if it lies less than a buffer after the first that was not fetched, so that
/// early messages never keep the expected one out.
#[derive(Debug)]
pub(super) struct Reception {
    capacity: u64,
    /// The first message it lacks.
    expected: u64,
    /// One past the last message known to have been sent.
    announced: u64,
    /// Messages beyond the expected one.
    early: BTreeMap<u64, Bytes>,
    /// Messages in order that the application has not fetched.
    waiting: u64,
    /// Messages to be asked for, if not only the expected one is.
    asks: Option<BTreeSet<u64>>,
    /// Nothing is known of the source yet: the first packet says where to start.
    joining: bool,
}

/// What became of a message that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Kept,
    Duplicate,
    NoRoom,
}

/// Messages that will not come any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// The first of them.
    pub first: u64,
    /// How many; those in between that did come are not counted.
    pub count: u64,
    /// The messages that did come before what is expected now.
    pub survivors: Vec<(u64, Bytes)>,
}

impl Reception {
    /// From message 0 on; a node that joins late starts with what it hears first. With `ask_all` it tells of
    /// each message that is to be asked for, and not of the expected one alone.
    pub fn new(capacity: u64, joining: bool, ask_all: bool) -> Self {
        let (early, asks) = (BTreeMap::new(), ask_all.then(BTreeSet::new));
        Reception { capacity, expected: 0, announced: 0, early, waiting: 0, asks, joining }
    }

    /// A packet named this message as sent or next: a node that joins late starts here.
    pub fn join_at(&mut self, number: u64) {
        if std::mem::take(&mut self.joining) {
            self.expected = number;
            self.announced = number;
        }
    }

    /// Everything before `next` has been sent. Returns the first message missing that was not known
    /// to be, if there is one.
    pub fn announce(&mut self, next: u64) -> Option<u64> {
        let first = self.announced;
        self.announced = first.max(next);
        self.ask_from(first);
        (next > first).then_some(first)
    }

    /// A message came in: also that it was sent is news.
    pub fn insert(&mut self, number: u64, payload: Bytes) -> Arrival {
        self.announced = self.announced.max(number + 1);
        if let Some(asks) = &mut self.asks {
            asks.remove(&number);
        }
        if number < self.expected || self.early.contains_key(&number) {
            return Arrival::Duplicate;
        }
        if self.place(number) >= self.capacity {
            return Arrival::NoRoom;
        }
        self.early.insert(number, payload);
        Arrival::Kept
    }

    /// Takes the next message in order, if it is there; it counts as waiting until it is fetched.
    pub fn pop(&mut self) -> Option<(u64, Bytes)> {
        let payload = self.early.remove(&self.expected)?;
        self.expected += 1;
        self.waiting += 1;
        Some((self.expected - 1, payload))
    }

    /// The application has fetched a message.
    pub fn fetched(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// What lies before `oldest` will not come any more: goes on from there.
    pub fn give_up_before(&mut self, oldest: u64) -> Option<Lost> {
        if oldest <= self.expected {
            return None;
        }
        if let Some(asks) = &mut self.asks {
            *asks = asks.split_off(&oldest);
        }
        let rest = self.early.split_off(&oldest);
        let survivors: Vec<_> = std::mem::replace(&mut self.early, rest).into_iter().collect();
        let first = self.expected;
        let count = oldest - first - survivors.len() as u64;
        self.expected = oldest;
        self.announced = self.announced.max(oldest);
        self.waiting += survivors.len() as u64;
        Some(Lost { first, count, survivors })
    }

    /// All that is missing is to be asked for again.
    pub fn ask_again(&mut self) {
        self.ask_from(self.expected);
    }

    /// What is missing from this message on is to be asked for, as far as it has room.
    fn ask_from(&mut self, first: u64) {
        let end = self.announced.min(self.expected + self.capacity.saturating_sub(self.waiting));
        if let Some(asks) = &mut self.asks {
            let early = &self.early;
            asks.extend((first.max(self.expected)..end).filter(|number| !early.contains_key(number)));
        }
    }

    /// The next message to ask for now, if each is asked for.
    pub fn next_ask(&mut self) -> Option<u64> {
        self.asks.as_mut()?.pop_first()
    }

    /// The message to ask for: the expected one, if it was sent and has room.
    pub fn wanted(&self) -> Option<u64> {
        (self.expected < self.announced && self.waiting < self.capacity).then_some(self.expected)
    }

    /// Messages of the buffer in use if this one were the last.
    pub fn fill(&self, number: u64) -> u64 {
        if number < self.expected { 0 } else { self.place(number).saturating_add(1) }
    }

    /// The first message it lacks.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// The place of a message in the buffer.
    fn place(&self, number: u64) -> u64 {
        (number - self.expected).saturating_add(self.waiting)
    }
}
