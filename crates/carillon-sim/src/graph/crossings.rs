//! Packets between the parts of a network that is simulated in several parts.

use std::sync::Arc;

use carillon_core::{Bytes, NodeId, Time};

use super::packet::{Hop, Packet};
use super::partition::{PartId, Partition};
use super::pending::Pending;
use crate::queue::EventQueue;
use crate::serials::{Serials, Slot};

/// Packets from and to the other parts, and the order of a part's events among those of all parts.
#[derive(Debug)]
pub struct Crossings {
    partition: Partition,
    part: PartId,
    pub(crate) serials: Serials,
    /// Packets from other parts.
    arriving: EventQueue<Hop>,
    /// Earliest own event and earliest packet from another part, taken from their queues because both have the same
    /// time.
    own_head: Option<(Time, Pending)>,
    arriving_head: Option<(Time, Hop)>,
    /// Slot of the event that happened last.
    last: Slot,
    /// Packets to other parts in this window.
    leaving: Vec<Crossing>,
}

/// Packet that arrives in another part.
#[derive(Debug)]
pub(crate) struct Crossing {
    pub(crate) to: PartId,
    pub(crate) serial: u64,
    time: Time,
    hop: Hop,
}

impl Crossings {
    pub(super) fn new(partition: Partition, part: PartId) -> Self {
        Crossings {
            partition,
            part,
            serials: Serials::default(),
            arriving: EventQueue::new(),
            own_head: None,
            arriving_head: None,
            last: Slot::OF_WHOLE,
            leaving: Vec::new(),
        }
    }

    /// Returns true if a node is in this part.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.partition.part_of(node) == self.part
    }

    /// Notes an event. Returns it if it belongs to the part's own queue.
    pub(super) fn note(&mut self, time: Time, event: Pending) -> Option<Pending> {
        match event {
            Pending::Arrives(hop) if !self.has(hop.to) => {
                self.serials.queue_crossing(self.leaving.len());
                let to = self.partition.part_of(hop.to);
                self.leaving.push(Crossing { to, serial: 0, time, hop });
                None
            }
            mut event => {
                *event.slot() = self.serials.queue();
                Some(event)
            }
        }
    }

    /// Time of the earliest event.
    pub(super) fn next_time(&self, own: &EventQueue<Pending>) -> Option<Time> {
        match self.next_times(own) {
            (Some(own), Some(arriving)) => Some(own.min(arriving)),
            (own, arriving) => own.or(arriving),
        }
    }

    /// Times of the earliest own event and of the earliest packet from another part.
    fn next_times(&self, own: &EventQueue<Pending>) -> (Option<Time>, Option<Time>) {
        let own = self.own_head.as_ref().map(|(time, _)| *time).or_else(|| own.next_time());
        let arriving = self.arriving_head.as_ref().map(|(time, _)| *time);
        (own, arriving.or_else(|| self.arriving.next_time()))
    }

    /// Takes the earliest event; among those of the same time, the one queued first in the whole network.
    pub(super) fn pop(&mut self, own: &mut EventQueue<Pending>) -> Option<(Time, Pending)> {
        let own_first = match self.next_times(own) {
            (None, None) => return None,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(own_time), Some(arriving_time)) if own_time != arriving_time => own_time < arriving_time,
            _ => self.own_is_first(own),
        };
        let (time, mut event) = if own_first {
            self.own_head.take().or_else(|| own.pop())?
        } else {
            let (time, hop) = self.arriving_head.take().or_else(|| self.arriving.pop())?;
            (time, Pending::Arrives(hop))
        };
        let slot = *event.slot();
        self.serials.take(slot);
        self.last = slot;
        Some((time, event))
    }

    /// Returns true if the earliest own event was queued before the earliest packet from another part.
    #[cold]
    fn own_is_first(&mut self, own: &mut EventQueue<Pending>) -> bool {
        self.own_head = self.own_head.take().or_else(|| own.pop());
        self.arriving_head = self.arriving_head.take().or_else(|| self.arriving.pop());
        match (&mut self.own_head, &self.arriving_head) {
            (Some((_, event)), Some((_, hop))) => {
                self.serials.number(*event.slot()) < self.serials.number(hop.slot)
            }
            (own, _) => own.is_some(),
        }
    }

    /// Slot of the event that happened last.
    pub(crate) fn last(&self) -> Slot {
        self.last
    }

    /// Sets the serial number of a packet to another part.
    pub(crate) fn set_leaving(&mut self, index: u32, serial: u64) {
        self.leaving[index as usize].serial = serial;
    }

    /// Takes the packets to other parts.
    pub(crate) fn take_leaving(&mut self) -> Vec<Crossing> {
        std::mem::take(&mut self.leaving)
    }

    /// Takes the packets to other parts among the first `count` events queued in this window, and forgets these events.
    pub(crate) fn take_some_leaving(&mut self, count: usize) -> Vec<Crossing> {
        let crossings = self.serials.forget(count);
        self.leaving.drain(..crossings).collect()
    }

    /// Adds a packet from another part. Call in the order of serial numbers.
    pub(crate) fn arrive(&mut self, crossing: Crossing, copies: &mut PacketCopies) {
        let Crossing { serial, time, mut hop, .. } = crossing;
        hop.packet = copies.of(&hop.packet);
        hop.slot = self.serials.add(serial);
        self.arriving.push(time, hop);
    }
}

/// Copies of packets for one part: threads that share a packet would wait for each other at its reference count.
#[derive(Debug, Default)]
pub(crate) struct PacketCopies(Option<(Arc<Packet>, Arc<Packet>)>);

impl PacketCopies {
    fn of(&mut self, packet: &Arc<Packet>) -> Arc<Packet> {
        if let Some((last, copy)) = &self.0
            && Arc::ptr_eq(last, packet)
        {
            return copy.clone();
        }
        let Packet { source, group, original, ref bytes, ref tree } = **packet;
        let bytes = Bytes::copy_from_slice(bytes);
        let copy = Arc::new(Packet { source, group, bytes, original, tree: tree.clone() });
        self.0 = Some((packet.clone(), copy.clone()));
        copy
    }
}
