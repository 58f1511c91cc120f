//! What the source holds: its transmit window and the messages behind it that have not gone out.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::Time;

use crate::blocks::{HoldOff, Numbered};

/// How the window advances (RFC 3208, section 5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// A packet stays for so long after it was first sent.
    WithTime(Duration),
    /// A packet stays until its room is needed, and until it was neither sent nor asked for in so long.
    WithData(Duration),
}

/// The messages from the trailing edge on.
#[derive(Debug)]
pub(super) struct Window {
    advance: Advance,
    limit: usize,
    /// From the first that is held on.
    slots: Numbered<Slot>,
    /// The first that was not sent.
    next: u64,
}

/// A message.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) payload: Bytes,
    /// When it was first sent.
    sent: Time,
    /// When it was last sent or asked for.
    touched: Time,
    pub(super) repaired: HoldOff,
    /// It is to be sent again.
    pub(super) pending: bool,
}

impl Window {
    pub(super) fn new(advance: Advance, limit: usize) -> Self {
        Window { advance, limit, slots: Numbered::default(), next: 0 }
    }

    /// Takes a message; or says until when there is no room, if that is known.
    pub(super) fn push(&mut self, now: Time, payload: Bytes) -> Result<u64, Option<Time>> {
        if self.slots.len() >= self.limit {
            self.make_room(now)?;
        }
        let slot = Slot { payload, sent: now, touched: now, repaired: HoldOff::default(), pending: false };
        Ok(self.slots.push(slot))
    }

    fn make_room(&mut self, now: Time) -> Result<(), Option<Time>> {
        let Advance::WithData(quiet) = self.advance else { return Err(None) };
        if self.trail() == self.next {
            return Err(None);
        }
        let free = self.slots.first().map_or(now, |slot| slot.touched + quiet);
        if free > now || self.slots.first().is_some_and(|slot| slot.pending) {
            return Err(Some(free).filter(|&free| free > now));
        }
        self.slots.pop();
        Ok(())
    }

    /// When the trailing edge next advances by itself.
    pub(super) fn next_advance(&self) -> Option<Time> {
        match self.advance {
            Advance::WithTime(span) if self.trail() < self.next => {
                self.slots.first().map(|slot| slot.sent + span)
            }
            _ => None,
        }
    }

    /// Time has passed: what was held long enough goes.
    pub(super) fn on_time(&mut self, now: Time) {
        while self.next_advance().is_some_and(|at| at <= now) {
            self.slots.pop();
        }
    }

    /// The next message goes out for the first time.
    pub(super) fn send_next(&mut self, now: Time) -> Option<(u64, &Slot)> {
        let number = self.next;
        let slot = self.slots.get_mut(number)?;
        (slot.sent, slot.touched) = (now, now);
        self.next += 1;
        Some((number, slot))
    }

    /// A message that was sent and is still held: someone asks for it.
    pub(super) fn asked(&mut self, now: Time, number: u64) -> Option<&mut Slot> {
        let slot = self.sent_mut(number)?;
        slot.touched = now;
        Some(slot)
    }

    /// A message that was sent and is still held: it goes out again.
    pub(super) fn send_again(&mut self, now: Time, number: u64, holdoff: Duration) -> Option<&Slot> {
        let slot = self.sent_mut(number)?;
        slot.touched = now;
        slot.repaired.note(now, (), holdoff);
        slot.pending = false;
        Some(slot)
    }

    fn sent_mut(&mut self, number: u64) -> Option<&mut Slot> {
        self.slots.get_mut(number).filter(|_| number < self.next)
    }

    /// The trailing edge.
    pub(super) fn trail(&self) -> u64 {
        self.slots.start()
    }

    /// One past the leading edge.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether everything has gone out.
    pub(super) fn is_sent(&self) -> bool {
        self.next == self.slots.end()
    }
}
