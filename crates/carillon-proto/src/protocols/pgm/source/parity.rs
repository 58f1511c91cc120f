//! Transmission groups of a source, and the parity packets that are to be sent for them (RFC 3208, section 11.3).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use carillon_core::{Bytes, Config, Time};

use crate::blocks::{HoldOff, TransmitWindow};
use crate::protocols::pgm::parity::Offer;

/// Parity packets to send, by group.
#[derive(Debug)]
pub(super) struct Parity {
    pub offer: Offer,
    /// Number of parity packets after each group.
    each: u64,
    /// Groups with a parity packet.
    groups: BTreeMap<u64, Group>,
    /// Groups that ended, with the number of proactive parity packets to send.
    proactive: VecDeque<(u64, u64)>,
}

/// Parity of one group.
#[derive(Debug, Default)]
struct Group {
    /// Number of parity packets sent.
    sent: u64,
    /// Number of requested parity packets that are to be sent.
    pending: u64,
    /// True once the delay of the repair is over.
    is_due: bool,
    /// Hold-off after the last repair.
    repaired: HoldOff,
}

impl Parity {
    /// Reads the settings; none without parity.
    pub fn new(settings: &Config) -> Option<Self> {
        let (offer, each) = Offer::of_settings(settings)?;
        let each = each.min(offer.max_parity());
        Some(Parity { offer, each, groups: BTreeMap::new(), proactive: VecDeque::new() })
    }

    /// Records the first transmission of a data packet: parity follows the last one of its group.
    pub fn on_sent(&mut self, number: u64) {
        let group = self.offer.group_of(number);
        if self.each > 0 && number + 1 == group + self.offer.size {
            self.proactive.push_back((group, self.each));
        }
    }

    /// Raises the number of pending packets of a group to that of a NAK. Returns the number of new ones: none within
    /// `holdoff` after a repair of the group.
    pub fn request(&mut self, now: Time, group: u64, count: u64, holdoff: Duration) -> u64 {
        let parity = self.groups.entry(group).or_default();
        if !parity.repaired.is_over(now, (), holdoff) {
            return 0;
        }
        let new = count.saturating_sub(parity.pending);
        parity.pending += new;
        new
    }

    /// Makes the pending packets of a group due.
    pub fn end_delay(&mut self, group: u64) {
        if let Some(parity) = self.groups.get_mut(&group) {
            parity.is_due = true;
        }
    }

    /// Takes the next requested packet: its group and its number there.
    pub fn next_requested(&mut self, now: Time, holdoff: Duration) -> Option<(u64, u64)> {
        let (&group, parity) =
            self.groups.iter_mut().find(|(_, parity)| parity.is_due && parity.pending > 0)?;
        parity.pending -= 1;
        if parity.pending == 0 {
            parity.is_due = false;
            parity.repaired.note(now, (), holdoff);
        }
        Some((group, self.take_number(group)))
    }

    /// Takes the next proactive packet: its group and its number there.
    pub fn next_proactive(&mut self) -> Option<(u64, u64)> {
        let (group, left) = self.proactive.front_mut()?;
        let group = *group;
        *left -= 1;
        if *left == 0 {
            self.proactive.pop_front();
        }
        Some((group, self.take_number(group)))
    }

    /// Number of the next parity packet of a group. After the last one of the code they begin again.
    fn take_number(&mut self, group: u64) -> u64 {
        let most = self.offer.max_parity();
        let parity = self.groups.entry(group).or_default();
        parity.sent += 1;
        (parity.sent - 1) % most
    }

    /// Returns true while packets are to be sent that no receiver has requested.
    pub fn has_proactive(&self) -> bool {
        !self.proactive.is_empty()
    }

    /// Returns true while requested packets are due.
    pub fn has_requested(&self) -> bool {
        self.groups.values().any(|parity| parity.is_due && parity.pending > 0)
    }

    /// Forgets the groups before the trailing edge.
    pub fn advance(&mut self, trail: u64) {
        while self.groups.first_key_value().is_some_and(|(&group, _)| group + self.offer.size <= trail) {
            self.groups.pop_first();
        }
    }

    /// Data of a group; none unless the window holds all of it.
    pub fn data_of(&self, window: &TransmitWindow, group: u64) -> Option<Vec<Bytes>> {
        (group..group + self.offer.size).map(|number| window.payload(number).cloned()).collect()
    }
}
