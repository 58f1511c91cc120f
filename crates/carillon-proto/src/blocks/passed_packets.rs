//! Packets that a network element keeps in order to repair them itself: RFC 3208, designated local repairers on the
//! tree, upstream of the receivers they serve.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{Bytes, PortId, PortSet, Time};

use super::HoldOff;

/// Newest packets of one source that have passed. After a restart they are gone, and requests go upstream. Keyed by
/// number with gaps rather than a `Numbered`, as packets lost upstream never pass.
#[derive(Debug)]
pub struct PassedPackets {
    /// Maximum number of packets kept.
    limit: usize,
    /// Time in which a repair does not leave by the same port again.
    holdoff: Duration,
    /// Trailing edge of the transmit window, from the newest SPM. Numbers count from the first one on, so that they
    /// do not wrap.
    trail: Option<u64>,
    /// Packets kept, by full number.
    packets: BTreeMap<u64, Kept>,
    /// Number from which all passed packets are kept.
    complete_from: Option<u64>,
}

/// A packet as it arrived.
#[derive(Debug)]
struct Kept {
    /// The packet, with its headers.
    bytes: Bytes,
    /// Ports that its repairs left by, with the time.
    repaired: HoldOff<PortId>,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The packet is not kept.
    Absent,
    /// The packet is kept, and goes to the requester.
    Held,
    /// The packet was just sent there.
    Again,
}

impl PassedPackets {
    /// Creates an empty store of `limit` packets of one source. Each packet leaves by a port once per `holdoff`.
    pub fn new(limit: usize, holdoff: Duration) -> Self {
        PassedPackets { limit, holdoff, trail: None, packets: BTreeMap::new(), complete_from: None }
    }

    /// Drops the packets before the new trailing edge, which the source no longer holds.
    pub fn advance(&mut self, trail: u32) {
        match self.place(trail) {
            // An old SPM arrived late: the trailing edge never moves back.
            None if self.trail.is_some() => {}
            // The first SPM gives the numbers their base.
            None => self.trail = Some(trail.into()),
            Some(number) => {
                self.trail = Some(number);
                while self.packets.first_key_value().is_some_and(|(&first, _)| first < number) {
                    self.packets.pop_first();
                }
            }
        }
    }

    /// Keeps a packet of the source, and drops the oldest one beyond the limit.
    pub fn keep(&mut self, sqn: u32, bytes: &Bytes) {
        // Before the first SPM, a packet has no full number. With a limit of 0, the element does not repair.
        let Some(number) = self.place(sqn).filter(|_| self.limit > 0) else { return };
        self.packets
            // A packet that passes again must not reset the hold-off of its ports.
            .entry(number)
            .or_insert_with(|| Kept { bytes: bytes.clone(), repaired: HoldOff::default() });
        let first = *self.complete_from.get_or_insert(number);
        if self.packets.len() > self.limit
            && let Some((oldest, _)) = self.packets.pop_first()
        {
            // A dropped packet did pass, so an absent number up to it proves nothing.
            self.complete_from = Some(first.max(oldest + 1));
        }
    }

    /// Returns true if a packet did not pass, so that no node downstream has it.
    pub fn is_missed(&self, sqn: u32) -> bool {
        // All packets from `first` on that passed are kept.
        let missed = |(number, first)| number >= first && !self.packets.contains_key(&number);
        self.place(sqn).zip(self.complete_from).is_some_and(missed)
    }

    /// Number of packets kept.
    pub fn count(&self) -> usize {
        self.packets.len()
    }

    /// Returns true if a packet is kept.
    pub fn has(&self, sqn: u32) -> bool {
        self.place(sqn).is_some_and(|number| self.packets.contains_key(&number))
    }

    /// Handles a request from a port. Requests that follow within the hold-off time are eliminated (section 7.3).
    pub fn ask(&mut self, now: Time, sqn: u32, port: PortId) -> Passed {
        let (number, holdoff) = (self.place(sqn), self.holdoff);
        let Some(kept) = number.and_then(|number| self.packets.get_mut(&number)) else {
            return Passed::Absent;
        };
        match kept.on_repaired(now, port, holdoff) {
            true => Passed::Held,
            false => Passed::Again,
        }
    }

    /// Records that another node's repair went out by these ports.
    pub fn on_passed(&mut self, now: Time, sqn: u32, ports: &PortSet) {
        let (number, holdoff) = (self.place(sqn), self.holdoff);
        if let Some(kept) = number.and_then(|number| self.packets.get_mut(&number)) {
            // Receivers behind these ports have the repair now, so requests that follow soon are redundant.
            for port in ports.iter() {
                kept.on_repaired(now, port, holdoff);
            }
        }
    }

    /// Packet, if it is kept, and the trailing edge.
    pub fn get(&self, sqn: u32) -> Option<(&Bytes, u32)> {
        let kept = self.place(sqn).and_then(|number| self.packets.get(&number))?;
        Some((&kept.bytes, self.trail? as u32))
    }

    /// Full number of a packet in or beyond the transmit window.
    fn place(&self, sqn: u32) -> Option<u64> {
        let trail = self.trail?;
        // Serial number arithmetic modulo 2^32: the upper half of the range lies before the trailing edge.
        let ahead = sqn.wrapping_sub(trail as u32);
        (ahead < 1 << 31).then(|| trail + u64::from(ahead))
    }
}

impl Kept {
    /// Records a repair by a port, unless one was just sent.
    fn on_repaired(&mut self, now: Time, port: PortId, holdoff: Duration) -> bool {
        let is_due = self.repaired.is_over(now, port, holdoff);
        if is_due {
            self.repaired.note(now, port, holdoff);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_before_trailing_edge_are_dropped() {
        let mut store = PassedPackets::new(10, Duration::ZERO);
        store.advance(u32::MAX - 2);
        for sqn in [u32::MAX - 1, u32::MAX, 0, 1] {
            store.keep(sqn, &Bytes::from_static(b"packet"));
        }
        assert_eq!(store.packets.len(), 4);
        store.advance(0);
        assert_eq!(store.packets.len(), 2);
        // The trailing edge never moves back.
        store.advance(u32::MAX);
        store.keep(u32::MAX, &Bytes::from_static(b"packet"));
        assert_eq!(store.packets.len(), 2);
        store.advance(100);
        assert!(store.packets.is_empty());
    }

    #[test]
    fn store_agrees_with_map_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("passed-packets");
        let holdoff = Duration::from_millis(4);
        let (mut passed, mut now) = (PassedPackets::new(12, holdoff), Time::ZERO);
        passed.advance(0);
        // Model: kept packets with the time they were sent by each port, and the number from which all are kept.
        let mut kept = BTreeMap::<u64, Vec<(u32, Time)>>::new();
        let (mut trail, mut from) = (0u64, None);
        for _ in 0..20_000 {
            now += Duration::from_millis(rng.below(2));
            let number = trail + rng.below(30);
            let sqn = number as u32;
            let port = rng.below(3) as u32;
            let just =
                |went: &Vec<(u32, Time)>| went.iter().any(|&(by, at)| by == port && now.since(at) < holdoff);
            match rng.below(5) {
                0 if rng.below(4) == 0 => {
                    trail += rng.below(4);
                    passed.advance(trail as u32);
                    kept = kept.split_off(&trail);
                    continue;
                }
                0 | 1 => {
                    passed.keep(sqn, &Bytes::from_static(b"packet"));
                    kept.entry(number).or_default();
                    let first = *from.get_or_insert(number);
                    if kept.len() > 12 {
                        let (oldest, _) = kept.pop_first().expect("there are some");
                        from = Some(first.max(oldest + 1));
                    }
                }
                2 => {
                    let expected = match kept.get_mut(&number) {
                        None => Passed::Absent,
                        Some(went) if just(went) => Passed::Again,
                        Some(went) => {
                            went.push((port, now));
                            Passed::Held
                        }
                    };
                    assert_eq!(passed.ask(now, sqn, PortId(port as _)), expected);
                }
                3 => {
                    passed.on_passed(now, sqn, &PortSet::from_iter([PortId(port as _)]));
                    if let Some(went) = kept.get_mut(&number).filter(|went| !just(went)) {
                        went.push((port, now));
                    }
                }
                _ => {}
            }
            assert_eq!(passed.has(sqn), kept.contains_key(&number));
            assert_eq!(passed.get(sqn).is_some(), kept.contains_key(&number));
            let missed = from.is_some_and(|from| number >= from) && !kept.contains_key(&number);
            assert_eq!(passed.is_missed(sqn), missed);
        }
    }
}
