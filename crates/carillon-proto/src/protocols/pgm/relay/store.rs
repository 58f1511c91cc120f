//! What a network element keeps to repair it itself: RFC 3208, repairers that are on the tree, upstream of
//! those they help.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{Bytes, Dest, Event, MessageId, PortId, PortSet, Time, Transmit};
use carillon_wire::pgm::emit_repair;

use super::super::identity::wire;
use super::PgmRelay;
use crate::blocks::HoldOff;

/// The newest packets of one source that have passed. They are gone after a restart: then requests go
/// upstream. By number with gaps, and not a `Numbered`: what was lost above never passes.
#[derive(Debug)]
pub(super) struct Store {
    /// Packets kept, at most.
    limit: usize,
    /// A repair that left by a port less than this ago does not leave by it again.
    holdoff: Duration,
    /// The trailing edge of the transmit window, as the newest SPM tells it. Numbers are counted from the
    /// first one on, so that they do not go round.
    trail: Option<u64>,
    packets: BTreeMap<u64, Kept>,
    /// What passed from this number on is kept, since the first packet came.
    complete_from: Option<u64>,
}

/// A packet, as it came.
#[derive(Debug)]
struct Kept {
    bytes: Bytes,
    /// Where repairs of it went.
    repaired: HoldOff<PortId>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The packet is not here.
    Absent,
    /// It is, and goes to who asks.
    Held,
    /// It has just gone there.
    Again,
}

impl Store {
    pub(super) fn new(limit: usize, holdoff: Duration) -> Self {
        Store { limit, holdoff, trail: None, packets: BTreeMap::new(), complete_from: None }
    }

    /// The source holds nothing before `trail` any more, and neither does this element.
    pub(super) fn advance(&mut self, trail: u32) {
        match self.place(trail) {
            None if self.trail.is_some() => {}
            None => self.trail = Some(trail.into()),
            Some(number) => {
                self.trail = Some(number);
                while self.packets.first_key_value().is_some_and(|(&first, _)| first < number) {
                    self.packets.pop_first();
                }
            }
        }
    }

    /// A packet of the source came: of all only the newest are kept.
    pub(super) fn keep(&mut self, sqn: u32, bytes: &Bytes) {
        let Some(number) = self.place(sqn).filter(|_| self.limit > 0) else { return };
        self.packets
            .entry(number)
            .or_insert_with(|| Kept { bytes: bytes.clone(), repaired: HoldOff::default() });
        let first = *self.complete_from.get_or_insert(number);
        if self.packets.len() > self.limit
            && let Some((oldest, _)) = self.packets.pop_first()
        {
            self.complete_from = Some(first.max(oldest + 1));
        }
    }

    /// Whether a packet has not passed, so that nobody below has it either.
    pub(super) fn is_missed(&self, sqn: u32) -> bool {
        let missed = |(number, first)| number >= first && !self.packets.contains_key(&number);
        self.place(sqn).zip(self.complete_from).is_some_and(missed)
    }

    pub(super) fn has(&self, sqn: u32) -> bool {
        self.place(sqn).is_some_and(|number| self.packets.contains_key(&number))
    }

    /// A packet is asked for by a port. As often as a request for what is not kept would be sent on: once
    /// in a while, the others are eliminated (section 7.3).
    pub(super) fn ask(&mut self, now: Time, sqn: u32, port: PortId) -> Asked {
        let (number, holdoff) = (self.place(sqn), self.holdoff);
        let Some(kept) = number.and_then(|number| self.packets.get_mut(&number)) else {
            return Asked::Absent;
        };
        match kept.on_repaired(now, port, holdoff) {
            true => Asked::Held,
            false => Asked::Again,
        }
    }

    /// The repair of another has gone out by these ports.
    pub(super) fn on_passed(&mut self, now: Time, sqn: u32, ports: &PortSet) {
        let (number, holdoff) = (self.place(sqn), self.holdoff);
        if let Some(kept) = number.and_then(|number| self.packets.get_mut(&number)) {
            for port in ports.iter() {
                kept.on_repaired(now, port, holdoff);
            }
        }
    }

    /// Appends the repair of a packet; whether it is here.
    pub(super) fn emit(&self, sqn: u32, buf: &mut Vec<u8>) -> bool {
        let kept = self.place(sqn).and_then(|number| self.packets.get(&number));
        match (kept, self.trail) {
            (Some(kept), Some(trail)) => emit_repair(&kept.bytes, wire(trail), buf),
            _ => false,
        }
    }

    /// The full number of one in the transmit window, or beyond what is known of it.
    fn place(&self, sqn: u32) -> Option<u64> {
        let trail = self.trail?;
        let ahead = sqn.wrapping_sub(wire(trail));
        (ahead < 1 << 31).then(|| trail + u64::from(ahead))
    }
}

impl Kept {
    /// A repair goes out by a port, unless one has just done.
    fn on_repaired(&mut self, now: Time, port: PortId, holdoff: Duration) -> bool {
        let is_due = self.repaired.is_over(now, port, holdoff);
        if is_due {
            self.repaired.note(now, port, holdoff);
        }
        is_due
    }
}

impl PgmRelay {
    /// What is kept here, as if the source repaired it, out of the ports by which it was asked for.
    pub(super) fn emit_repair(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(((tsi, sqn), ports)) = self.repairs_due.pop_first() {
            let Some(session) = self.sessions.get(&tsi) else { continue };
            if !session.store.emit(sqn, buf) {
                continue;
            }
            let (source, message, bytes) = (session.source, MessageId(sqn.into()), buf.len() as u32);
            self.events.push(Event::Forwarded { source, message, bytes, repair: true });
            return Some(Transmit::now(Dest::Ports {
                ports,
                source,
                dest: Box::new(Dest::group(session.group)),
            }));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_source_does_not_hold_any_more_takes_no_room() {
        let mut store = Store::new(10, Duration::ZERO);
        store.advance(u32::MAX - 2);
        for sqn in [u32::MAX - 1, u32::MAX, 0, 1] {
            store.keep(sqn, &Bytes::from_static(b"packet"));
        }
        assert_eq!(store.packets.len(), 4);
        store.advance(0);
        assert_eq!(store.packets.len(), 2);
        // It does not go back.
        store.advance(u32::MAX);
        store.keep(u32::MAX, &Bytes::from_static(b"packet"));
        assert_eq!(store.packets.len(), 2);
        store.advance(100);
        assert!(store.packets.is_empty());
    }
}
