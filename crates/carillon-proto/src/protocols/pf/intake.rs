//! The side of a child: what it has, and what it says when it is asked.

use bytes::Bytes;
use carillon_core::{DropReason, Time, expand};
use carillon_wire::map::{MAX_WORDS, Map};
use carillon_wire::pf::{Packet, Resp};

use crate::blocks::{Arrival, ReceiveWindow, Skipped};

/// A child's window W, and the poll that it is to answer.
#[derive(Debug)]
pub(crate) struct Intake {
    /// What its parent calls it.
    identity: u32,
    size: u64,
    pub window: ReceiveWindow,
    /// One past HR.
    highest: u64,
    /// The newest poll that asks it, which its response answers with all before it: POLL.TS and POLL.SEQ.
    asked: Option<(u64, u32)>,
    /// The map of the last response, kept for its room.
    map: Vec<u8>,
}

/// A message that has come from the parent.
#[derive(Debug)]
pub(crate) struct ReceivedMessage {
    /// Its number.
    pub number: u64,
    /// What the parent does not hold any more.
    pub skipped: Option<Skipped>,
}

impl Intake {
    /// Nothing has come; there is room for so many messages.
    pub fn new(identity: u32, size: u64) -> Self {
        Intake {
            identity,
            size,
            window: ReceiveWindow::new(size, false),
            highest: 0,
            asked: None,
            map: Vec::new(),
        }
    }

    /// A packet of the parent. What it says of messages gone is done; the message itself is the caller's to keep
    /// ([`Intake::keep`]).
    pub fn on_packet(&mut self, packet: &Packet<'_>) -> Result<ReceivedMessage, DropReason> {
        let (number, first, poll) = match *packet {
            Packet::Data { seq, first, poll, .. } => (seq, first, poll),
            Packet::Poll { first, poll } => (poll.last, first, Some(poll)),
            Packet::Resp(_) => return Err(DropReason::Foreign),
        };
        let expected = self.window.expected();
        let number = expand(number.into(), MODULUS, expected);
        let first = expand(first.into(), MODULUS, expected);
        let last = poll.map_or(number, |poll| expand(poll.last.into(), MODULUS, expected));
        // What a parent holds lies before the last that it has sent, and never further ahead than a window goes.
        if first > last.saturating_add(1) || number > last || last - first.min(last) > MAX_WINDOW_SPAN {
            return Err(DropReason::Malformed);
        }
        let skipped = self.window.skip_to(first);
        self.highest = self.highest.max(last + 1).max(number + 1);
        self.window.announce(self.highest);
        if let Some(poll) = poll.filter(|poll| poll.children.contains(self.identity)) {
            self.asked = Some((poll.time, poll.last));
        }
        Ok(ReceivedMessage { number, skipped })
    }

    /// The message that has come is kept if there is room.
    pub fn keep(&mut self, number: u64, payload: Bytes) -> Result<(), DropReason> {
        match self.window.insert(number, payload) {
            Arrival::New => Ok(()),
            Arrival::Duplicate => Err(DropReason::Duplicate),
            Arrival::NoRoom => Err(DropReason::BufferFull),
        }
    }

    /// Its response to the newest poll, if it is asked. For its parent it goes no further than `held`: what it has not consumed, or must keep.
    pub fn response(&mut self, held: u64, emit: impl FnOnce(Packet<'_>)) -> Option<u64> {
        let (time, last) = self.asked.take()?;
        let expected = self.window.expected();
        self.map.clear();
        self.window.early().map(MAX_WORDS, |word| Map::push(word, &mut self.map));
        let wire = |number: u64| (number % MODULUS) as u32;
        emit(Packet::Resp(Resp {
            time,
            last,
            left: wire(held.min(expected)),
            expected: wire(expected),
            highest: wire(self.highest),
            size: u32::try_from(self.size).unwrap_or(u32::MAX),
            received: Map::new(&self.map),
        }));
        Some(expected.saturating_sub(1))
    }

    /// LE of a child whose application takes what is in order.
    pub fn left(&self) -> u64 {
        self.window.expected() - self.window.waiting()
    }
}

/// POLL.TS as it is written.
pub(crate) fn stamp(at: Time) -> u64 {
    at.as_nanos()
}

/// Numbers on the wire have 32 bits.
pub(crate) const MODULUS: u64 = 1 << 32;
/// Messages between the oldest that a parent holds and the newest.
const MAX_WINDOW_SPAN: u64 = 65_536;
