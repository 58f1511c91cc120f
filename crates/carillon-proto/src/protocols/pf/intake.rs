//! Child side: its receive window and its responses to polls.

use bytes::Bytes;
use carillon_core::{DropReason, Time, expand};
use carillon_wire::map::{MAX_WORDS, Map};
use carillon_wire::pf::{Packet, Resp};

use crate::blocks::{Arrival, ReceiveWindow, Skipped};

/// Receive window W of a child, and the poll that it has to answer.
#[derive(Debug)]
pub(crate) struct Intake {
    /// Identifier of the child in polls of its parent.
    identity: u32,
    size: u64,
    /// Window that the child reports: its size, or less if messages congest the network below it.
    reported: u64,
    pub window: ReceiveWindow,
    /// First number beyond HR, the highest message known to exist.
    highest: u64,
    /// Newest poll that names this child, as POLL.TS and POLL.SEQ. One response answers it and all earlier polls.
    asked: Option<(u64, u32)>,
    /// Buffer for the map of a response, reused to avoid allocations.
    map: Vec<u8>,
}

/// Message number of a packet from the parent.
#[derive(Debug)]
pub(crate) struct ReceivedMessage {
    /// Number of the message.
    pub number: u64,
    /// Messages that the parent no longer holds.
    pub skipped: Option<Skipped>,
}

impl Intake {
    /// Creates an empty window of `size` messages.
    pub fn new(identity: u32, size: u64) -> Self {
        Intake {
            identity,
            size,
            reported: size,
            window: ReceiveWindow::new(size, false),
            highest: 0,
            asked: None,
            map: Vec::new(),
        }
    }

    /// Handles a packet of the parent: skips messages that the parent no longer holds, and notes a poll. The caller
    /// stores the message with [`Intake::keep`].
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
        // The parent holds a range that ends with its last sent message and is at most a window long.
        if first > last.saturating_add(1) || number > last || last - first.min(last) > MAX_WINDOW_SPAN {
            return Err(DropReason::Malformed);
        }
        // Messages before `first` will not be repaired any longer.
        let skipped = self.window.skip_to(first);
        self.highest = self.highest.max(last + 1).max(number + 1);
        self.window.announce(self.highest);
        // A newer poll replaces an older one: its response says at least as much.
        if let Some(poll) = poll.filter(|poll| poll.children.contains(self.identity)) {
            self.asked = Some((poll.time, poll.last));
        }
        Ok(ReceivedMessage { number, skipped })
    }

    /// Stores a received message; fails for a duplicate or without room.
    pub fn keep(&mut self, number: u64, payload: Bytes) -> Result<(), DropReason> {
        match self.window.insert(number, payload) {
            Arrival::New => Ok(()),
            Arrival::Duplicate => Err(DropReason::Duplicate),
            Arrival::NoRoom => Err(DropReason::BufferFull),
        }
    }

    /// Emits the response to the newest poll, if one is pending. `held` limits LE to messages that this child has
    /// consumed and need not keep.
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
            size: u32::try_from(self.reported).unwrap_or(u32::MAX),
            received: Map::new(&self.map),
        }));
        Some(expected.saturating_sub(1))
    }

    /// Reports a smaller window than the size from now on.
    pub fn report_window(&mut self, window: u64) {
        self.reported = window.min(self.size);
    }

    /// LE of a child with an application that takes messages in order.
    pub fn left(&self) -> u64 {
        self.window.expected() - self.window.waiting()
    }
}

/// POLL.TS: the sending time in nanoseconds.
pub(crate) fn stamp(at: Time) -> u64 {
    at.as_nanos()
}

/// Sequence space: numbers on the wire have 32 bits.
pub(crate) const MODULUS: u64 = 1 << 32;
/// Maximum number of messages between the oldest that a parent holds and the newest; a larger span is malformed.
const MAX_WINDOW_SPAN: u64 = 65_536;
