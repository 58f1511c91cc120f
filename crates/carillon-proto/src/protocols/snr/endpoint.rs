//! Receiving part of a node: its reassembly buffer and the blocks that it keeps for others.

use bytes::Bytes;
use carillon_core::{DropReason, Time};

use super::config::Settings;
use super::report::Report;
use crate::blocks::{Arrival, MachineContext, Numbered, ReceiveWindow, ReceiverMap};

/// Endpoint, or a representative that only helps.
///
/// A representative has two buffers (section 3.1). A block in order moves from the reassembly buffer to the
/// retransmission buffer; while that is full, it occupies a place in the reassembly buffer. A block that the
/// application has not taken does the same.
#[derive(Debug)]
pub struct Endpoint {
    /// Reassembly buffer.
    window: ReceiveWindow,
    /// Retransmission buffer: blocks in order that other nodes may be missing.
    kept: Numbered<Bytes>,
    keeps: bool,
    delivers: bool,
    /// Capacity of the two buffers in blocks.
    room: (u64, u64),
}

impl Endpoint {
    /// Creates an endpoint that delivers its blocks, keeps them for others, or both.
    pub fn new(settings: &Settings, delivers: bool, keeps: bool) -> Self {
        Endpoint {
            window: ReceiveWindow::new(settings.buffer, false),
            kept: Numbered::default(),
            keeps,
            delivers,
            room: (settings.buffer, settings.kept),
        }
    }

    /// Starts or stops keeping blocks for others.
    pub fn keep(&mut self, keeps: bool) {
        if keeps != self.keeps {
            self.keeps = keeps;
            self.kept = Numbered::starting_at(self.window.expected());
        }
    }

    /// Stores a received block and passes on the blocks in order; fails for a duplicate or without room.
    pub fn take<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        number: u64,
        payload: Bytes,
    ) -> Result<(), DropReason> {
        if self.window.early().has(number) {
            return Err(DropReason::Duplicate);
        }
        // The expected block always has room, unless blocks in order occupy the buffer.
        if self.free() == 0 && (number != self.window.expected() || self.overflow() >= self.room.0) {
            return Err(DropReason::BufferFull);
        }
        match self.window.insert(number, payload) {
            Arrival::New => {}
            Arrival::Duplicate => return Err(DropReason::Duplicate),
            Arrival::NoRoom => return Err(DropReason::BufferFull),
        }
        context.events.received("data", number);
        while let Some((number, payload)) = self.window.pop() {
            self.pass_on(context, number, payload);
        }
        Ok(())
    }

    /// Skips the blocks before `first`, which the source no longer keeps.
    pub fn skip_to<K: Ord + Copy>(&mut self, context: &mut MachineContext<K>, first: u64) {
        let expected = self.window.expected();
        let Some(skipped) = self.window.skip_to(first) else { return };
        let lost = skipped.lost();
        context.events.loss_found(context.sender, expected);
        context.unrecoverable(None, expected, lost);
        // The retransmission buffer has no gaps, so it starts anew.
        self.kept = Numbered::starting_at(first);
        let keeps = std::mem::replace(&mut self.keeps, false);
        for (number, payload) in skipped.survivors {
            self.pass_on(context, number, payload);
        }
        self.keeps = keeps;
        while let Some((number, payload)) = self.window.pop() {
            self.pass_on(context, number, payload);
        }
    }

    /// Releases kept blocks before `before`.
    pub fn release(&mut self, before: u64) {
        while self.kept.start() < before && self.kept.pop().is_some() {}
    }

    /// Notes that the application has taken a message.
    pub fn fetched(&mut self) {
        self.window.fetched();
    }

    /// Block for a retransmission, if it is kept or in the reassembly buffer.
    pub fn get(&self, number: u64) -> Option<&Bytes> {
        self.kept.get(number).or_else(|| self.window.early().get(number))
    }

    /// First missing block.
    pub fn expected(&self) -> u64 {
        self.window.expected()
    }

    /// Number of blocks held out of order, for the application, and for other nodes.
    pub fn held(&self) -> u64 {
        self.window.early().len() as u64 + self.window.waiting().max(self.kept.len() as u64)
    }

    /// Range of kept blocks.
    pub fn kept(&self) -> std::ops::Range<u64> {
        self.kept.start()..self.kept.end()
    }

    /// State of this endpoint for a status.
    pub fn report(&self, echo: Option<(u32, Time)>, now: Time) -> Report {
        let mut words = Vec::new();
        if !self.window.early().is_empty() {
            self.window.early().map(usize::MAX, |word| words.push(word));
        }
        let lower = self.window.expected();
        let map = ReceiverMap::new(lower, words);
        Report { lower, map, done: lower, buffer: self.free(), echo, since: now }
    }

    /// Moves a block in order to the application and to the retransmission buffer.
    fn pass_on<K: Ord + Copy>(&mut self, context: &mut MachineContext<K>, number: u64, payload: Bytes) {
        if self.keeps {
            self.kept.push(payload.clone());
        }
        match self.delivers {
            true => context.deliver_sent(number, payload),
            false => self.window.fetched(),
        }
    }

    /// Free places in the reassembly buffer.
    fn free(&self) -> u64 {
        self.room.0.saturating_sub(self.window.early().len() as u64 + self.overflow())
    }

    /// Blocks in order that occupy places in the reassembly buffer.
    fn overflow(&self) -> u64 {
        self.window.waiting().max((self.kept.len() as u64).saturating_sub(self.room.1))
    }
}
