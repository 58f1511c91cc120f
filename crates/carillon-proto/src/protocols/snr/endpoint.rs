//! What takes data: the reassembly buffer, and what is kept for others.

use bytes::Bytes;
use carillon_core::{DropReason, Time};

use super::config::Settings;
use super::report::Report;
use crate::blocks::{Arrival, MachineContext, Numbered, ReceiveWindow, ReceiverMap};

/// An endpoint, or a representative that only helps.
///
/// A representative has two buffers (section 3.1): a block that is in order goes from the reassembly buffer to the
/// retransmission buffer; if that is full it stays, and takes a place in the first. So does one that the application
/// has not fetched.
#[derive(Debug)]
pub struct Endpoint {
    /// The reassembly buffer.
    window: ReceiveWindow,
    /// Blocks in order that somebody else may lack, if any are kept.
    kept: Numbered<Bytes>,
    keeps: bool,
    delivers: bool,
    /// Places in the two buffers.
    room: (u64, u64),
}

impl Endpoint {
    /// One that delivers what it takes, keeps it for others, or both.
    pub fn new(settings: &Settings, delivers: bool, keeps: bool) -> Self {
        Endpoint {
            window: ReceiveWindow::new(settings.buffer, false),
            kept: Numbered::default(),
            keeps,
            delivers,
            room: (settings.buffer, settings.kept),
        }
    }

    /// From now on it keeps blocks for others, or not.
    pub fn keep(&mut self, keeps: bool) {
        if keeps != self.keeps {
            self.keeps = keeps;
            self.kept = Numbered::starting_at(self.window.expected());
        }
    }

    /// A block came in.
    pub fn take<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        number: u64,
        payload: Bytes,
    ) -> Result<(), DropReason> {
        if self.window.early().has(number) {
            return Err(DropReason::Duplicate);
        }
        // The block that is waited for has its place, unless what is in order has taken it.
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

    /// What lies before `first` all have, or it was given up for them.
    pub fn skip_to<K: Ord + Copy>(&mut self, context: &mut MachineContext<K>, first: u64) {
        let expected = self.window.expected();
        let Some(skipped) = self.window.skip_to(first) else { return };
        let lost = skipped.lost();
        context.events.loss_found(context.sender, expected);
        context.unrecoverable(None, expected, lost);
        // Numbers that are kept have no gap.
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

    /// Nobody needs what lies before this block.
    pub fn release(&mut self, before: u64) {
        while self.kept.start() < before && self.kept.pop().is_some() {}
    }

    /// The application has taken a message.
    pub fn fetched(&mut self) {
        self.window.fetched();
    }

    /// A block that is there for others.
    pub fn get(&self, number: u64) -> Option<&Bytes> {
        self.kept.get(number).or_else(|| self.window.early().get(number))
    }

    /// The first block that it lacks.
    pub fn expected(&self) -> u64 {
        self.window.expected()
    }

    /// Blocks that it holds: out of order, for its application, and for others.
    pub fn held(&self) -> u64 {
        self.window.early().len() as u64 + self.window.waiting().max(self.kept.len() as u64)
    }

    /// The blocks that are kept.
    pub fn kept(&self) -> std::ops::Range<u64> {
        self.kept.start()..self.kept.end()
    }

    /// Its state.
    pub fn report(&self, echo: Option<(u32, Time)>, now: Time) -> Report {
        let mut words = Vec::new();
        if !self.window.early().is_empty() {
            self.window.early().map(usize::MAX, |word| words.push(word));
        }
        let lower = self.window.expected();
        let map = ReceiverMap::new(lower, words);
        Report { lower, map, done: lower, buffer: self.free(), echo, since: now }
    }

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

    /// Blocks in order that take places there.
    fn overflow(&self) -> u64 {
        self.window.waiting().max((self.kept.len() as u64).saturating_sub(self.room.1))
    }
}
