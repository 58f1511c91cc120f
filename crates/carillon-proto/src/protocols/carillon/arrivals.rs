//! What has come to a receiver, and when the application gets it.

use std::ops::Deref;

use bytes::Bytes;
use carillon_core::Order;

use super::receiver::Context;
use crate::blocks::Reception;

/// The messages from the first missing one on. In order they wait for it; as they come each is delivered at once, and only that it was
/// there is kept.
#[derive(Debug)]
pub(super) struct Arrivals {
    reception: Reception<Arrived>,
    in_order: bool,
}

/// A message that is there.
#[derive(Debug)]
pub(super) enum Arrived {
    /// It waits for one before it.
    Waits(Bytes),
    /// The application has it.
    Delivered,
}

impl Arrivals {
    /// None yet, to be delivered in this order.
    pub fn new(order: Order) -> Self {
        Arrivals { reception: Reception::default(), in_order: order != Order::Arrival }
    }

    /// Adds one, from the expected one on. As they come it is delivered, unless it was.
    pub fn insert(&mut self, context: &mut Context, number: u64, message: Bytes) {
        if self.in_order {
            self.reception.insert(number, Arrived::Waits(message));
        } else if !self.reception.has(number) {
            self.reception.insert(number, Arrived::Delivered);
            context.deliver_sent(number, message);
        }
    }

    /// Delivers what need not wait any longer.
    pub fn deliver(&mut self, context: &mut Context) {
        while let Some((number, message)) = self.reception.pop() {
            message.deliver(context, number);
        }
    }

    /// What lies before `first` will not come any more: goes on from there; returns what of it is there.
    pub fn skip_to(&mut self, first: u64) -> Vec<(u64, Arrived)> {
        self.reception.skip_to(first)
    }

    /// How many messages it keeps.
    pub fn kept(&self) -> usize {
        if self.in_order { self.reception.len() } else { 0 }
    }
}

impl Arrived {
    /// The application gets it, unless it has.
    pub fn deliver(self, context: &mut Context, number: u64) {
        if let Arrived::Waits(message) = self {
            context.deliver_sent(number, message);
        }
    }
}

/// Which are there, to be asked.
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

    /// What is delivered of these, in that order.
    fn delivered(order: Order, numbers: &[u64]) -> Vec<u64> {
        let mut context = Context::new(&peer_context(&[SENDER, NodeId(1)], 1, false));
        let mut arrivals = Arrivals::new(order);
        for &number in numbers {
            arrivals.insert(&mut context, number, Bytes::new());
            arrivals.deliver(&mut context);
        }
        let taken = std::iter::from_fn(|| context.poll_delivery());
        taken.map(|delivery| delivery.message).map(|MessageId(number)| number).collect()
    }

    /// A block of which the memory was let go may be made once more, with what came before.
    #[test]
    fn each_message_is_delivered_once_in_order_or_as_it_comes() {
        let numbers = [0, 3, 3, 1, 1, 4, 2, 2, 6];
        assert_eq!(delivered(Order::Source, &numbers), [0, 1, 2, 3, 4]);
        assert_eq!(delivered(Order::Arrival, &numbers), [0, 3, 1, 4, 2, 6]);
    }
}
