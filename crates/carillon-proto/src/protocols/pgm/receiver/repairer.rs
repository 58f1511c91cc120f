//! A receiver that repairs for others: the designated local repairer (DLR) of RFC 3208.
//!
//! It is off the tree: a leaf, behind another port of its network element than those it helps. The
//! element asks it instead of the source, and sends on what it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{Rng, Seeds, Time};
use carillon_wire::pgm::Poll;

use super::super::identity::{is_newer, list_of};
use crate::blocks::{RequestSchedule, Tries, wire};

/// What a repairer holds for others, and what it owes them. All of it goes to its parent.
#[derive(Debug)]
pub(super) struct Repairer {
    /// Packets held, at most.
    limit: usize,
    held: BTreeMap<u64, Bytes>,
    /// Drawn once: POLLs can ask those only whose numbers agree in some bits.
    id: u32,
    /// The newest POLL.
    poll: Option<(u32, u16)>,
    /// The answer to it.
    answer: RequestSchedule<()>,
    /// To be confirmed, announced to the source, and repaired. Only what is held.
    confirmations: BTreeSet<u64>,
    nnaks: BTreeSet<u64>,
    repairs: BTreeSet<u64>,
    delays: Rng,
}

/// What goes to the parent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// The packet and the list of others are confirmed.
    Confirm(u64, Vec<u8>),
    /// The source is told that they were asked for and need no repair of its own.
    Nnak(u64, Vec<u8>),
    /// The repairer makes itself known.
    Polr(u32, u16),
    /// A packet is repaired.
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
            answer: RequestSchedule::new(Tries::ANY),
            confirmations: BTreeSet::new(),
            nnaks: BTreeSet::new(),
            repairs: BTreeSet::new(),
            delays,
        }
    }

    /// A packet came: of all only the newest are held.
    pub(super) fn hold(&mut self, number: u64, payload: Bytes) {
        self.held.insert(number, payload);
        if self.held.len() > self.limit {
            self.held.pop_first();
        }
    }

    /// A packet is asked for; whether it is held, and still in the source's window.
    pub(super) fn on_request(&mut self, number: u64, trail: u64) -> bool {
        let is_held = number >= trail && self.held.contains_key(&number);
        if is_held {
            self.confirmations.insert(number);
            self.nnaks.insert(number);
            self.repairs.insert(number);
        }
        is_held
    }

    /// The parent looks for repairers: the answer goes after a random time.
    pub(super) fn on_poll(&mut self, now: Time, poll: Poll) {
        let is_next = match self.poll {
            // Rounds but the first are for who has heard that.
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

    /// When it next has something to do.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.answer.next_timeout()
    }

    pub(super) fn on_time(&mut self, now: Time) {
        while self.answer.expire(now).is_some() {}
    }

    /// What goes next: confirmations before all, and N-NAKs before repairs.
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

/// As many numbers as fit one packet: the first, and the list of the others.
fn take_list(numbers: &mut BTreeSet<u64>) -> Option<(u64, Vec<u8>)> {
    let first = numbers.pop_first()?;
    Some((first, list_of(std::iter::from_fn(|| numbers.pop_first()).map(wire))))
}
