//! Messages that are delivered before their slot: reliable and source-ordered ones, and the unreliable ones, which
//! have no slot.

use std::collections::BTreeSet;

use carillon_wire::rmp::{Id, Quality};

/// Record of the messages that were delivered before their slot.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// Number after the last delivered unreliable message of each source.
    unreliable: Vec<u64>,
    /// Delivered messages with a slot that has not been delivered yet.
    delivered: BTreeSet<Id>,
    /// Sequence number of each source below which every source-ordered or totally ordered message was delivered.
    frontier: Vec<u64>,
    /// Sources with source-ordered messages: only for them the frontier must be followed beyond the slots.
    ordered: Vec<bool>,
}

impl Arrivals {
    /// Creates the record of a group of this size.
    pub fn new(members: usize) -> Self {
        Arrivals {
            unreliable: vec![0; members],
            delivered: BTreeSet::new(),
            frontier: vec![0; members],
            ordered: vec![false; members],
        }
    }

    /// Returns true if an unreliable message is to be delivered: a later one was not delivered before.
    pub fn on_unreliable(&mut self, source: u16, number: u64) -> bool {
        let next = &mut self.unreliable[usize::from(source)];
        let is_new = number >= *next;
        if is_new {
            *next = number + 1;
        }
        is_new
    }

    /// Notes the quality of a message that has arrived. Returns true if it is to be delivered at once.
    pub fn on_message(&mut self, id: Id, quality: Quality) -> bool {
        match quality {
            Quality::Reliable => self.delivered.insert(id),
            Quality::SourceOrdered => {
                self.ordered[usize::from(id.source)] = true;
                false
            }
            _ => false,
        }
    }

    /// Next message of a source for which others may wait, if the source has source-ordered messages.
    pub fn frontier(&self, source: u16) -> Option<Id> {
        let at = usize::from(source);
        self.ordered[at].then(|| Id { source, sequence: self.frontier[at] })
    }

    /// Passes the frontier's message. Returns true if it is to be delivered now.
    pub fn pass(&mut self, id: Id) -> bool {
        self.frontier[usize::from(id.source)] = id.sequence + 1;
        self.delivered.insert(id)
    }

    /// Notes that a slot is delivered. Returns true if its message is to be delivered with it.
    pub fn on_slot(&mut self, id: Id) -> bool {
        let frontier = &mut self.frontier[usize::from(id.source)];
        *frontier = (*frontier).max(id.sequence + 1);
        !self.delivered.remove(&id)
    }

    /// Continues after the slots before these sequence numbers, which will never be delivered here.
    pub fn skip_to(&mut self, numbers: &[u64]) {
        self.delivered.retain(|id| id.sequence >= numbers[usize::from(id.source)]);
        self.frontier.copy_from_slice(numbers);
    }
}
