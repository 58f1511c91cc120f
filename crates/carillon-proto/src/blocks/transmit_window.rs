//! Transmit window of a source without acknowledgments (RFC 3208), followed by messages that were not sent.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::Time;

use super::{HoldOff, Numbered};

/// Advance of the trailing edge (RFC 3208, section 5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// A packet stays this long after its first transmission.
    WithTime(Duration),
    /// A packet stays until its room is needed and it was neither sent nor requested for this long.
    WithData(Duration),
}

/// Messages from the trailing edge on.
#[derive(Debug)]
pub struct TransmitWindow {
    advance: Advance,
    /// Maximum number of messages held.
    limit: usize,
    /// Messages held.
    slots: Numbered<Held>,
    /// First message that was not sent.
    next: u64,
}

/// Message in the window.
#[derive(Debug)]
pub struct Held {
    /// Payload of the message.
    pub payload: Bytes,
    /// Time of the first transmission.
    sent: Time,
    /// Time of the last transmission or request.
    touched: Time,
    /// Hold-off after the last retransmission.
    pub repaired: HoldOff,
    /// True if the message is to be sent again.
    pub pending: bool,
}

impl TransmitWindow {
    /// Creates an empty window with room for `limit` messages.
    pub fn new(advance: Advance, limit: usize) -> Self {
        TransmitWindow { advance, limit, slots: Numbered::default(), next: 0 }
    }

    /// Adds a message. If there is no room, returns the time at which there will be, if known.
    pub fn push(&mut self, now: Time, payload: Bytes) -> Result<u64, Option<Time>> {
        if self.slots.len() >= self.limit {
            self.make_room(now)?;
        }
        let slot = Held { payload, sent: now, touched: now, repaired: HoldOff::default(), pending: false };
        Ok(self.slots.push(slot))
    }

    fn make_room(&mut self, now: Time) -> Result<(), Option<Time>> {
        // An advance with time makes room by itself, without regard to new messages.
        let Advance::WithData(quiet) = self.advance else { return Err(None) };
        // The first message was not sent yet, so it cannot be dropped.
        if self.trail() == self.next {
            return Err(None);
        }
        // RFC 3208, section 5.1.2: new data push out the oldest packet, unless it was sent or requested recently.
        let free = self.slots.first().map_or(now, |slot| slot.touched + quiet);
        if free > now || self.slots.first().is_some_and(|slot| slot.pending) {
            // A message to be sent again stays, and the time of its retransmission is unknown.
            return Err(Some(free).filter(|&free| free > now));
        }
        self.slots.pop();
        Ok(())
    }

    /// Time of the next advance of the trailing edge by itself.
    pub fn next_advance(&self) -> Option<Time> {
        match self.advance {
            // The time of a message that was not sent does not run.
            Advance::WithTime(span) if self.trail() < self.next => {
                self.slots.first().map(|slot| slot.sent + span)
            }
            _ => None,
        }
    }

    /// Drops the messages that were held long enough.
    pub fn on_time(&mut self, now: Time) {
        while self.next_advance().is_some_and(|at| at <= now) {
            self.slots.pop();
        }
    }

    /// Records the first transmission of the next message.
    pub fn send_next(&mut self, now: Time) -> Option<(u64, &Held)> {
        let number = self.next;
        let slot = self.slots.get_mut(number)?;
        // The time in the window counts from the transmission, since pacing may delay it long after the offer.
        (slot.sent, slot.touched) = (now, now);
        self.next += 1;
        Some((number, slot))
    }

    /// Records a request for a message that was sent and is still held.
    pub fn asked(&mut self, now: Time, number: u64) -> Option<&mut Held> {
        let slot = self.sent_mut(number)?;
        // Some receiver still needs the message, which delays an advance with data.
        slot.touched = now;
        Some(slot)
    }

    /// Records a retransmission of a message that is still held.
    pub fn send_again(&mut self, now: Time, number: u64, holdoff: Duration) -> Option<&Held> {
        let slot = self.sent_mut(number)?;
        slot.touched = now;
        slot.repaired.note(now, (), holdoff);
        slot.pending = false;
        Some(slot)
    }

    /// Payload of a message that was sent and is still held.
    pub fn payload(&self, number: u64) -> Option<&Bytes> {
        self.slots.get(number).filter(|_| number < self.next).map(|slot| &slot.payload)
    }

    fn sent_mut(&mut self, number: u64) -> Option<&mut Held> {
        // A request for a message that was not sent is damaged or forged.
        self.slots.get_mut(number).filter(|_| number < self.next)
    }

    /// Trailing edge.
    pub fn trail(&self) -> u64 {
        self.slots.start()
    }

    /// Sequence number after the leading edge.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns true if all messages were sent.
    pub fn is_sent(&self) -> bool {
        self.next == self.slots.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_agrees_with_list_under_random_operations() {
        let span = Duration::from_millis(30);
        for advance in [Advance::WithTime(span), Advance::WithData(span)] {
            let mut rng = carillon_core::Seeds::new(1).stream("transmit-window");
            let (mut window, mut now) = (TransmitWindow::new(advance, 8), Time::ZERO);
            // Model: times of the first transmission and of the last use of each message, and whether it is to be
            // sent again.
            let (mut held, mut start, mut next) = (Vec::<(Time, Time, bool)>::new(), 0u64, 0u64);
            for _ in 0..20_000 {
                now += Duration::from_millis(rng.below(5));
                let number = start + rng.below(10);
                let sent = (start..next).contains(&number).then(|| (number - start) as usize);
                match rng.below(5) {
                    0 | 1 => {
                        let full = held.len() == 8;
                        let free = held.first().filter(|_| next > start).map(|first| first.1 + span);
                        let frees = matches!(advance, Advance::WithData(_))
                            && free.is_some_and(|free| free <= now && !held[0].2);
                        let taken = window.push(now, Bytes::new());
                        assert_eq!(taken.is_ok(), !full || frees);
                        if full && frees {
                            held.remove(0);
                            start += 1;
                        }
                        if taken.is_ok() {
                            held.push((now, now, false));
                        }
                    }
                    2 => {
                        let first = window.send_next(now).map(|(number, _)| number);
                        assert_eq!(first, (next < start + held.len() as u64).then_some(next));
                        if first.is_some() {
                            held[(next - start) as usize] = (now, now, false);
                            next += 1;
                        }
                    }
                    3 => {
                        let asked = window.asked(now, number).map(|held| held.pending = true);
                        assert_eq!(asked.is_some(), sent.is_some());
                        sent.into_iter().for_each(|at| (held[at].1, held[at].2) = (now, true));
                    }
                    _ => {
                        assert_eq!(window.send_again(now, number, span).is_some(), sent.is_some());
                        sent.into_iter().for_each(|at| (held[at].1, held[at].2) = (now, false));
                    }
                }
                window.on_time(now);
                while matches!(advance, Advance::WithTime(_)) && next > start && held[0].0 + span <= now {
                    held.remove(0);
                    start += 1;
                }
                assert_eq!((window.trail(), window.next()), (start, next));
                assert_eq!(window.is_sent(), next == start + held.len() as u64);
            }
            assert!(start > 100, "it goes on");
        }
    }
}
