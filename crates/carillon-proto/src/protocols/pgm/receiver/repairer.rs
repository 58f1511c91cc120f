//! Designated local repairer (DLR) of RFC 3208: a receiver that repairs for others.
//!
//! It stands off the tree: a leaf behind another port of its network element than the receivers it helps. The element
//! redirects NAKs to it instead of the source, and forwards its repairs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{Rng, Seeds, Time};
use carillon_wire::pgm::Poll;

use super::super::identity::{is_newer, list_of};
use crate::blocks::{RequestSchedule, Tries, wire};

/// Packets held for other receivers, and the answers to send to the parent.
#[derive(Debug)]
pub(super) struct Repairer {
    /// Maximum number of packets held.
    limit: usize,
    held: BTreeMap<u64, Bytes>,
    /// Random identifier, drawn once; a POLL addresses the repairers with matching bits.
    id: u32,
    /// Sequence number and round of the newest POLL.
    poll: Option<(u32, u16)>,
    /// Random delay of the POLR.
    answer: RequestSchedule<()>,
    /// Held packets to confirm with an NCF.
    confirmations: BTreeSet<u64>,
    nnaks: BTreeSet<u64>,
    repairs: BTreeSet<u64>,
    delays: Rng,
}

/// A packet to the parent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// NCF for a packet and the list of others.
    Confirm(u64, Vec<u8>),
    /// N-NAK: tells the source that these packets were requested and need no repair from it.
    Nnak(u64, Vec<u8>),
    /// POLR with the sequence number and round of its POLL.
    Polr(u32, u16),
    /// Repair of a packet.
    Repair(u64, Bytes),
}

impl Repairer {
    pub(super) fn new(limit: usize, seeds: &Seeds) -> Self {
        let mut delays = seeds.stream("pgm.dlr");
        Repairer {
            limit,
            held: BTreeMap::new(),
            id: delays.below(1 << 32) as u32,
            poll: None,
            answer: RequestSchedule::new(Tries::UNLIMITED),
            confirmations: BTreeSet::new(),
            nnaks: BTreeSet::new(),
            repairs: BTreeSet::new(),
            delays,
        }
    }

    /// Stores a packet, evicting the oldest beyond the limit.
    pub(super) fn hold(&mut self, number: u64, payload: Bytes) {
        self.held.insert(number, payload);
        if self.held.len() > self.limit {
            self.held.pop_first();
        }
    }

    /// Queues NCF, N-NAK and repair of a requested packet. Returns false if it is not held or has left the source's
    /// window.
    pub(super) fn on_request(&mut self, number: u64, trail: u64) -> bool {
        let is_held = number >= trail && self.held.contains_key(&number);
        if is_held {
            self.confirmations.insert(number);
            self.nnaks.insert(number);
            self.repairs.insert(number);
        }
        is_held
    }

    /// Handles a POLL of the parent: schedules a POLR after a random delay.
    pub(super) fn on_poll(&mut self, now: Time, poll: Poll) {
        let is_next = match self.poll {
            // Rounds after the first address only repairers that received the first.
            Some((sqn, round)) if sqn == poll.sqn => poll.round > round,
            Some((sqn, _)) => poll.round == 0 && is_newer(poll.sqn, sqn),
            None => poll.round == 0,
        };
        if !is_next {
            return;
        }
        self.poll = Some((poll.sqn, poll.round));
        self.answer.remove(());
        if (self.id ^ poll.random) & poll.mask == 0 {
            let nanos = u64::from(poll.back_off_us) * 1000;
            let wait = Duration::from_nanos(self.delays.below(nanos + 1));
            self.answer.begin(now, (), wait, ());
        }
    }

    /// Earliest timeout.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.answer.next_timeout()
    }

    pub(super) fn on_time(&mut self, now: Time) {
        while self.answer.expire(now).is_some() {}
    }

    /// Next packet to the parent: NCFs first, then N-NAKs, POLRs and repairs.
    pub(super) fn next_task(&mut self) -> Option<Task> {
        if let Some((first, list)) = take_list(&mut self.confirmations) {
            return Some(Task::Confirm(first, list));
        }
        if let Some((first, list)) = take_list(&mut self.nnaks) {
            return Some(Task::Nnak(first, list));
        }
        if let (true, Some((sqn, round))) = (self.answer.is_due(), self.poll) {
            self.answer.remove(());
            return Some(Task::Polr(sqn, round));
        }
        while let Some(number) = self.repairs.pop_first() {
            if let Some(payload) = self.held.get(&number) {
                return Some(Task::Repair(number, payload.clone()));
            }
        }
        None
    }
}

/// Takes as many sequence numbers as fit one packet: the first, and the encoded list of the others.
fn take_list(numbers: &mut BTreeSet<u64>) -> Option<(u64, Vec<u8>)> {
    let first = numbers.pop_first()?;
    Some((first, list_of(std::iter::from_fn(|| numbers.pop_first()).map(wire))))
}
