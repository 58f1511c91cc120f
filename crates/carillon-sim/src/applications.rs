//! What the nodes of a simulated run do: offer messages, and take them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carillon_core::{Application, Bytes, Machine, MessageId, NodeId, OfferError, Time};

/// Offers a number of equal messages: as fast as they are taken, or at a steady rate.
#[derive(Debug)]
pub struct Source {
    payload: Bytes,
    /// Bytes of the last one.
    last: usize,
    /// Messages not yet offered.
    left: u64,
    /// Time between two messages; zero is as fast as they are taken.
    interval: Duration,
    /// When the next message is there to be offered.
    next: Time,
    /// When it was last asked.
    polled: Time,
    finished: bool,
    /// What was taken and not told of: the message, and since when it was there.
    offered: VecDeque<(MessageId, Time)>,
}

impl Source {
    /// Offers `messages` messages of `payload_bytes` bytes, one each `interval`.
    pub fn new(messages: u64, payload_bytes: usize, interval: Duration) -> Self {
        // Any content will do: protocols do not look at it, and sharing it costs nothing.
        let payload = (0..payload_bytes).map(|i| i as u8).collect::<Vec<_>>().into();
        Source {
            last: payload_bytes,
            payload,
            left: messages,
            interval,
            next: Time::ZERO,
            polled: Time::ZERO,
            finished: false,
            offered: VecDeque::new(),
        }
    }
}

impl Source {
    /// The same, and the last message has so many bytes, no more than the others.
    pub fn ending_with(self, last: usize) -> Self {
        Source { last: last.min(self.payload.len()), ..self }
    }

    /// The same from this time on.
    pub fn starting(self, start: Time) -> Self {
        Source { next: start, ..self }
    }
}

impl Application for Source {
    fn poll(&mut self, now: Time, machine: &mut (dyn Machine + 'static)) -> bool {
        let Some(sender) = machine.as_sender() else { return false };
        self.polled = now;
        let mut touched = false;
        while self.left > 0 && self.next <= now {
            let payload = if self.left == 1 { self.payload.slice(..self.last) } else { self.payload.clone() };
            match sender.offer(now, payload) {
                Ok(message) => {
                    touched = true;
                    // As fast as taken there is no moment before at which it was due.
                    let since = if self.interval.is_zero() { now } else { self.next };
                    self.offered.push_back((message, since));
                    self.left -= 1;
                    self.next += self.interval;
                }
                Err(OfferError::Full) => break,
                // A member that may only listen: its messages are never sent.
                Err(OfferError::Finished) => self.left = 0,
                Err(error) => panic!("the sender refused a message of the workload: {error}"),
            }
        }
        if self.left == 0 && !self.finished {
            self.finished = true;
            sender.finish(now);
            touched = true;
        }
        touched
    }

    fn poll_timeout(&self) -> Option<Time> {
        (self.left > 0 && self.next > self.polled).then_some(self.next)
    }

    fn poll_offered(&mut self) -> Option<(MessageId, Time)> {
        self.offered.pop_front()
    }
}

/// Takes every message at once.
#[derive(Clone, Debug, Default)]
pub struct Sink {
    /// Whose own messages are not counted, and how many others were taken at all nodes of the run.
    tally: Option<(NodeId, Arc<AtomicU64>)>,
}

impl Sink {
    /// The sink of a node that adds each message of another to the count.
    pub fn counting(node: NodeId, count: Arc<AtomicU64>) -> Self {
        Sink { tally: Some((node, count)) }
    }
}

impl Application for Sink {
    fn poll(&mut self, _now: Time, machine: &mut (dyn Machine + 'static)) -> bool {
        let Some(receiver) = machine.as_receiver() else { return false };
        let (mut touched, mut of_others) = (false, 0);
        let own = self.tally.as_ref().map(|(node, _)| *node);
        while let Some(delivery) = receiver.poll_delivery() {
            touched = true;
            of_others += u64::from(Some(delivery.source) != own);
        }
        if let Some((_, count)) = self.tally.as_ref().filter(|_| touched) {
            count.fetch_add(of_others, Ordering::Relaxed);
        }
        touched
    }
}
