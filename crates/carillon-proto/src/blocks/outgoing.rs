//! Queue of messages that a source sends without acknowledgments.

use std::collections::VecDeque;

use bytes::Bytes;
use carillon_core::OfferError;

/// Own messages that are not sent yet.
#[derive(Debug)]
pub struct Outgoing {
    /// Maximum number of messages.
    most: u64,
    /// Messages in the order of transmission.
    waiting: VecDeque<Bytes>,
    /// True if no more messages will be offered.
    finished: bool,
}

impl Outgoing {
    /// Creates an empty queue of this capacity. A node that may send nothing, such as one that has lost its sequence
    /// numbers, is `finished` from the beginning.
    pub fn new(most: u64, finished: bool) -> Self {
        Outgoing { most, waiting: VecDeque::new(), finished }
    }

    /// Adds a message. Returns the number of messages before it.
    pub fn offer(&mut self, payload: Bytes) -> Result<u64, OfferError> {
        let waiting = self.len();
        // `Finished` is final, whereas a full queue has room later. So it is tested first.
        if self.finished {
            return Err(OfferError::Finished);
        }
        if waiting >= self.most {
            return Err(OfferError::Full);
        }
        self.waiting.push_back(payload);
        Ok(waiting)
    }

    /// Declares that no more messages will be offered.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Returns true if all messages were sent and no more will be offered.
    pub fn is_finished(&self) -> bool {
        self.finished && self.waiting.is_empty()
    }

    /// Number of messages in the queue.
    pub fn len(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Returns true if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Removes the next message.
    pub fn pop(&mut self) -> Option<Bytes> {
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outgoing_agrees_with_queue_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("outgoing");
        let (mut outgoing, mut queue) = (Outgoing::new(5, false), VecDeque::new());
        for number in 0..5_000u64 {
            let payload = Bytes::copy_from_slice(&number.to_be_bytes());
            if rng.below(2) == 0 {
                let waiting = queue.len() as u64;
                let taken = outgoing.offer(payload.clone());
                assert_eq!(taken, if waiting < 5 { Ok(waiting) } else { Err(OfferError::Full) });
                taken.into_iter().for_each(|_| queue.push_back(payload.clone()));
            } else {
                assert_eq!(outgoing.pop(), queue.pop_front());
            }
            assert_eq!((outgoing.len(), outgoing.is_empty()), (queue.len() as u64, queue.is_empty()));
        }
        outgoing.finish();
        assert_eq!(outgoing.offer(Bytes::new()), Err(OfferError::Finished));
        assert_eq!(outgoing.is_finished(), queue.is_empty());
        while outgoing.pop().is_some() {}
        assert!(outgoing.is_finished());
    }
}
