//! Pending events of a routed network.

use carillon_core::{Bytes, NodeId, Time, Transmit};

use super::crossings::Crossings;
use super::packet::Hop;
use crate::queue::EventQueue;
use crate::serials::Slot;

/// Event of the network.
#[derive(Debug)]
pub(super) enum Pending {
    /// A packet arrives at a node.
    Arrives(Hop),
    /// The interface of a node releases a datagram. It is boxed, since it is rare and large and the queue moves
    /// events about.
    Departs(Box<Departure>),
    /// The ports of a node have room again.
    Ready(NodeId, Slot),
    /// A node has processed a packet. It is boxed for the same reason.
    Taken(Box<Hop>),
}

/// Datagram that the interface of a node holds until its departure time.
#[derive(Debug)]
pub(super) struct Departure {
    pub(super) from: NodeId,
    pub(super) transmit: Transmit,
    pub(super) bytes: Bytes,
    pub(super) slot: Slot,
}

impl Pending {
    /// Place of the event in the order of all parts, if the network is a part.
    pub(super) fn slot(&mut self) -> &mut Slot {
        match self {
            Pending::Arrives(hop) => &mut hop.slot,
            Pending::Departs(departure) => &mut departure.slot,
            Pending::Ready(_, slot) => slot,
            Pending::Taken(hop) => &mut hop.slot,
        }
    }
}

// There is one for each packet on each link.
const _: () = assert!(size_of::<Pending>() <= 24);

/// Pending events in ascending (time, order of insertion).
#[derive(Debug, Default)]
pub(super) struct PendingEvents {
    own: EventQueue<Pending>,
    /// Packets from and to other parts, if the network is a part.
    crossings: Option<Box<Crossings>>,
}

impl PendingEvents {
    /// Events of a part of a network.
    pub(super) fn of_part(crossings: Crossings) -> Self {
        PendingEvents { own: EventQueue::new(), crossings: Some(Box::new(crossings)) }
    }

    /// Returns true if a node is in this part, or the network is not divided.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.crossings.as_ref().is_none_or(|crossings| crossings.has(node))
    }

    /// Adds an event behind those of the same time.
    #[inline]
    pub(super) fn push(&mut self, time: Time, event: Pending) {
        let event = match &mut self.crossings {
            None => event,
            Some(crossings) => match crossings.note(time, event) {
                None => return,
                Some(event) => event,
            },
        };
        self.own.push(time, event);
    }

    /// Takes the earliest event.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Time, Pending)> {
        match &mut self.crossings {
            None => self.own.pop(),
            Some(crossings) => crossings.pop(&mut self.own),
        }
    }

    /// Time of the earliest event.
    #[inline]
    pub(super) fn next_time(&self) -> Option<Time> {
        match &self.crossings {
            None => self.own.next_time(),
            Some(crossings) => crossings.next_time(&self.own),
        }
    }

    /// Packets from and to other parts, if the network is a part.
    pub(super) fn crossings(&mut self) -> Option<&mut Crossings> {
        self.crossings.as_deref_mut()
    }
}
