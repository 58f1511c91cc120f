//! Transmission groups at a receiver: losses that wait for the end of their group, and requests for parity (RFC 3208,
//! section 11.4).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use carillon_core::Time;

use super::super::parity::{Offer, Symbols};
use crate::blocks::{ConfirmedRequests, Tries, Waits};

/// Incomplete groups, and requests for their parity.
#[derive(Debug)]
pub(super) struct Groups {
    pub offer: Offer,
    /// Packets of the groups that are not complete, by the first number of the group.
    symbols: BTreeMap<u64, Symbols>,
    /// Missing packets without a request of their own: their group has not ended, or parity shall repair them.
    awaited: BTreeSet<u64>,
    /// Requests for parity by group.
    pub requests: ConfirmedRequests,
    /// Groups with a request.
    requested: BTreeSet<u64>,
}

impl Groups {
    /// Creates the state of a receiver that misses nothing.
    pub fn new(offer: Offer, waits: Waits, tries: Tries) -> Self {
        let (symbols, awaited, requested) = Default::default();
        Groups { offer, symbols, awaited, requests: ConfirmedRequests::new(waits, tries), requested }
    }

    /// Number of packets that are kept for the code.
    pub fn held(&self) -> u64 {
        self.symbols.values().map(Symbols::len).sum()
    }

    /// Keeps a data packet until its group is complete.
    pub fn keep(&mut self, number: u64, payload: Bytes) {
        self.awaited.remove(&number);
        let group = self.offer.group_of(number);
        let symbols = self.symbols.entry(group).or_default();
        symbols.add(number - group, payload);
        if (0..self.offer.size).all(|index| symbols.has(index)) {
            self.drop_group(group);
        }
    }

    /// Keeps a parity packet of an incomplete group. Returns false if it is useless.
    pub fn keep_parity(&mut self, group: u64, index: u8, payload: Bytes, varies: bool) -> bool {
        let symbols = self.symbols.entry(group).or_default();
        symbols.len() < self.offer.size && symbols.add_parity(index, payload, varies)
    }

    /// Computes the missing data of a group, once enough packets are present.
    pub fn decode(&mut self, group: u64) -> Vec<(u64, Bytes)> {
        let solved = self.symbols.get_mut(&group).map(|symbols| symbols.decode(self.offer.size));
        solved.into_iter().flatten().map(|(index, payload)| (group + index, payload)).collect()
    }

    /// Records missing packets, which wait for the end of their group.
    pub fn miss(&mut self, numbers: impl Iterator<Item = u64>) {
        self.awaited.extend(numbers);
    }

    /// Judges the losses before `end`, since their groups have ended or the source pauses. Groups of which all packets
    /// were sent, before `sent`, are requested as parity; returns the packets to be requested one by one.
    pub fn judge(&mut self, now: Time, end: u64, sent: u64) -> Vec<u64> {
        let later = self.awaited.split_off(&end);
        let judged = std::mem::replace(&mut self.awaited, later);
        let (offer, mut single, mut groups) = (self.offer, Vec::new(), Vec::new());
        for number in judged {
            let group = offer.group_of(number);
            if !offer.on_demand || group + offer.size > sent {
                single.push(number);
                continue;
            }
            self.awaited.insert(number);
            if self.requested.insert(group) {
                groups.push(group);
            }
        }
        self.requests.add(now, groups);
        single
    }

    /// Requests the parity of a group at once, since another receiver has asked for some.
    pub fn request(&mut self, now: Time, group: u64) {
        let is_awaited = self.awaited.range(group..group + self.offer.size).next().is_some();
        if is_awaited && self.offer.on_demand && self.requested.insert(group) {
            self.requests.add(now, [group]);
        }
    }

    /// Number of packets that a group is missing.
    pub fn deficit(&self, group: u64) -> u64 {
        self.offer.size - self.symbols.get(&group).map_or(0, |symbols| symbols.len().min(self.offer.size))
    }

    /// Takes the missing packets before `limit`, which are lost.
    pub fn lose_before(&mut self, limit: u64) -> BTreeSet<u64> {
        let later = self.awaited.split_off(&limit);
        std::mem::replace(&mut self.awaited, later)
    }

    /// Returns true if the packet waits here, and forgets it.
    pub fn remove(&mut self, number: u64) -> bool {
        self.awaited.remove(&number)
    }

    /// Gives a group up, which has no parity any more. Returns its missing packets.
    pub fn give_up(&mut self, group: u64) -> BTreeSet<u64> {
        self.drop_group(group);
        let mut later = self.awaited.split_off(&group);
        let mut after = later.split_off(&(group + self.offer.size));
        self.awaited.append(&mut after);
        later
    }

    /// Drops groups that end before `expected`, and gives up the one that it divides from the trailing edge on.
    pub fn advance(&mut self, expected: u64, trail: u64) -> BTreeSet<u64> {
        let size = self.offer.size;
        while let Some((&group, _)) =
            self.symbols.first_key_value().filter(|(group, _)| **group + size <= expected)
        {
            self.drop_group(group);
        }
        let divided = self.offer.group_of(trail);
        if divided < trail && self.requested.contains(&divided) {
            self.give_up(divided)
        } else {
            BTreeSet::new()
        }
    }

    fn drop_group(&mut self, group: u64) {
        self.symbols.remove(&group);
        self.requests.remove(group);
        self.requested.remove(&group);
    }
}
