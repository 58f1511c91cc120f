//! Applications at the nodes of a simulated run: a source of messages and a sink.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carillon_core::{Application, Bytes, Machine, MessageId, NodeId, OfferError, Time};

/// Application that offers a number of equal messages, as fast as the machine takes them or at a steady rate.
#[derive(Debug)]
pub struct Source {
    payload: Bytes,
    /// Bytes of the last message.
    last: usize,
    /// Number of messages not yet offered.
    left: u64,
    /// Interval between two messages; zero offers as fast as the machine takes them.
    interval: Duration,
    /// Time at which the next message is ready to be offered.
    next: Time,
    /// Time of the last poll.
    polled: Time,
    finished: bool,
    /// Accepted messages that are not reported yet, with the time since which each was ready.
    offered: VecDeque<(MessageId, Time)>,
}

impl Source {
    /// Source of `messages` messages of `payload_bytes` bytes, one every `interval`.
    pub fn new(messages: u64, payload_bytes: usize, interval: Duration) -> Self {
        // Protocols do not read the contents, and all messages share one buffer.
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
    /// Sets the length of the last message in bytes, at most that of the others.
    pub fn ending_with(self, last: usize) -> Self {
        Source { last: last.min(self.payload.len()), ..self }
    }

    /// Sets the time of the first message.
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
                    // Without an interval the message was ready only now.
                    let since = if self.interval.is_zero() { now } else { self.next };
                    self.offered.push_back((message, since));
                    self.left -= 1;
                    self.next += self.interval;
                }
                Err(OfferError::Full) => break,
                // A member that may only listen never sends its messages.
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

/// Application that takes every message at once.
#[derive(Clone, Debug, Default)]
pub struct Sink {
    /// This node, and the number of messages of other nodes taken so far in the whole run; own messages do not count.
    tally: Option<(NodeId, Arc<AtomicU64>)>,
}

impl Sink {
    /// Sink of a node that adds each message of another node to the count.
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
