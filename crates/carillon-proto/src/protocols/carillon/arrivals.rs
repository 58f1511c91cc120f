//! Messages received, and the order in which the application gets them.

use std::ops::Deref;

use bytes::Bytes;
use carillon_core::Order;

use crate::blocks::{MachineContext, Reception};

/// Messages from the first missing one. In source order, messages wait for earlier ones. In arrival order each is
/// delivered at once, and only the fact of its arrival is kept.
#[derive(Debug)]
pub(super) struct Arrivals {
    reception: Reception<Arrived>,
    in_order: bool,
}

/// A message that has arrived.
#[derive(Debug)]
pub(super) enum Arrived {
    /// Kept until the messages before it arrive.
    Waits(Bytes),
    /// Delivered to the application.
    Delivered,
}

impl Arrivals {
    /// Creates an empty set with this order of delivery.
    pub fn new(order: Order) -> Self {
        Arrivals { reception: Reception::default(), in_order: order != Order::Arrival }
    }

    /// Adds a message, not before the expected one. In arrival order, a new message is delivered at once.
    pub fn insert(&mut self, context: &mut MachineContext<impl Ord + Copy>, number: u64, message: Bytes) {
        if self.in_order {
            self.reception.insert(number, Arrived::Waits(message));
        // A rebuilt block can yield a message that was delivered before.
        } else if !self.reception.has(number) {
            self.reception.insert(number, Arrived::Delivered);
            context.deliver_sent(number, message);
        }
    }

    /// Delivers the messages that no longer wait for earlier ones.
    pub fn deliver(&mut self, context: &mut MachineContext<impl Ord + Copy>) {
        while let Some((number, message)) = self.reception.pop() {
            message.deliver(context, number);
        }
    }

    /// Skips to `first`, since earlier messages will not come. Returns the skipped messages that are present.
    pub fn skip_to(&mut self, first: u64) -> Vec<(u64, Arrived)> {
        self.reception.skip_to(first)
    }

    /// Number of messages kept.
    pub fn kept(&self) -> usize {
        // Messages delivered in arrival order leave only their numbers.
        if self.in_order { self.reception.len() } else { 0 }
    }
}

impl Arrived {
    /// Delivers the message, unless the application has it.
    pub fn deliver(self, context: &mut MachineContext<impl Ord + Copy>, number: u64) {
        if let Arrived::Waits(message) = self {
            context.deliver_sent(number, message);
        }
    }
}

/// Read access to the set of received sequence numbers.
impl Deref for Arrivals {
    type Target = Reception<Arrived>;

    fn deref(&self) -> &Self::Target {
        &self.reception
    }
}

#[cfg(test)]
mod tests {
    use carillon_core::{MessageId, NodeId};
    use carillon_testkit::{SENDER, peer_context};

    use super::*;

    /// Sequence numbers delivered if these arrive, in order of delivery.
    fn delivered(order: Order, numbers: &[u64]) -> Vec<u64> {
        let mut context = MachineContext::<()>::new(&peer_context(&[SENDER, NodeId(1)], 1, false));
        let mut arrivals = Arrivals::new(order);
        for &number in numbers {
            arrivals.insert(&mut context, number, Bytes::new());
            arrivals.deliver(&mut context);
        }
        let taken = std::iter::from_fn(|| context.poll_delivery());
        taken.map(|delivery| delivery.message).map(|MessageId(number)| number).collect()
    }

    /// A block may free its memory and be rebuilt later with messages that arrived earlier.
    #[test]
    fn message_is_delivered_once_in_either_order() {
        let numbers = [0, 3, 3, 1, 1, 4, 2, 2, 6];
        assert_eq!(delivered(Order::Source, &numbers), [0, 1, 2, 3, 4]);
        assert_eq!(delivered(Order::Arrival, &numbers), [0, 3, 1, 4, 2, 6]);
    }
}
