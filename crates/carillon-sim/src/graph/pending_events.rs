//! Pending events of a routed network, or of a part of one.

use carillon_core::{NodeId, Time};

use super::crossings::Crossings;
use super::pending::Pending;
use crate::queue::EventQueue;

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
