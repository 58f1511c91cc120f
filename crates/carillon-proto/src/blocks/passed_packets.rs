//! What an element on the path keeps of what passes it, to repair it itself: RFC 3208, repairers that are on the tree,
//! upstream of those they help.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{Bytes, PortId, PortSet, Time};

use super::HoldOff;

/// The newest packets of one source that have passed. They are gone after a restart: then requests go
/// upstream. By number with gaps, and not a `Numbered`: what was lost above never passes.
#[derive(Debug)]
pub struct PassedPackets {
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
pub enum Passed {
    /// The packet is not here.
    Absent,
    /// It is, and goes to who asks.
    Held,
    /// It has just gone there.
    Again,
}

impl PassedPackets {
    /// Nothing; so many packets of one source are kept, and each leaves by a port once in `holdoff`.
    pub fn new(limit: usize, holdoff: Duration) -> Self {
        PassedPackets { limit, holdoff, trail: None, packets: BTreeMap::new(), complete_from: None }
    }

    /// The source holds nothing before `trail` any more, and neither does this element.
    pub fn advance(&mut self, trail: u32) {
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
    pub fn keep(&mut self, sqn: u32, bytes: &Bytes) {
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
    pub fn is_missed(&self, sqn: u32) -> bool {
        let missed = |(number, first)| number >= first && !self.packets.contains_key(&number);
        self.place(sqn).zip(self.complete_from).is_some_and(missed)
    }

    /// Whether a packet is here.
    pub fn has(&self, sqn: u32) -> bool {
        self.place(sqn).is_some_and(|number| self.packets.contains_key(&number))
    }

    /// A packet is asked for by a port. As often as a request for what is not kept would be sent on: once
    /// in a while, the others are eliminated (section 7.3).
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

    /// The repair of another has gone out by these ports.
    pub fn on_passed(&mut self, now: Time, sqn: u32, ports: &PortSet) {
        let (number, holdoff) = (self.place(sqn), self.holdoff);
        if let Some(kept) = number.and_then(|number| self.packets.get_mut(&number)) {
            for port in ports.iter() {
                kept.on_repaired(now, port, holdoff);
            }
        }
    }

    /// A packet, if it is here, and the trailing edge.
    pub fn get(&self, sqn: u32) -> Option<(&Bytes, u32)> {
        let kept = self.place(sqn).and_then(|number| self.packets.get(&number))?;
        Some((&kept.bytes, self.trail? as u32))
    }

    /// The full number of one in the transmit window, or beyond what is known of it.
    fn place(&self, sqn: u32) -> Option<u64> {
        let trail = self.trail?;
        let ahead = sqn.wrapping_sub(trail as u32);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_source_does_not_hold_any_more_takes_no_room() {
        let mut store = PassedPackets::new(10, Duration::ZERO);
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

    #[test]
    fn it_agrees_with_a_map_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("passed-packets");
        let holdoff = Duration::from_millis(4);
        let (mut passed, mut now) = (PassedPackets::new(12, holdoff), Time::ZERO);
        passed.advance(0);
        // The model: what is here and when it went where; from which number on all that passed is.
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
