//! Applications at the nodes of a simulated run: a source of messages, and a sink that reads at once or slowly.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carillon_core::{Application, Bytes, Delivery, Machine, MessageId, NodeId, OfferError, Time};

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
    /// Number of messages that are ready at once; 1 is a steady rate.
    burst: u32,
    /// Number of messages of this burst that were accepted.
    of_burst: u32,
    /// Time at which the next message is ready to be offered.
    next: Time,
    /// Time of the last poll.
    polled: Time,
    finished: bool,
    /// Maximum number of offers in one poll.
    most: u64,
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
            burst: 1,
            of_burst: 0,
            next: Time::ZERO,
            polled: Time::ZERO,
            finished: false,
            most: u64::MAX,
            offered: VecDeque::new(),
        }
    }
}

impl Source {
    /// Sets the length of the last message in bytes, at most that of the others.
    pub fn ending_with(self, last: usize) -> Self {
        Source { last: last.min(self.payload.len()), ..self }
    }

    /// Makes the messages ready in bursts of this many at the same mean rate.
    pub fn in_bursts(self, burst: u32) -> Self {
        Source { burst: burst.max(1), ..self }
    }

    /// Makes one offer in a poll at most, for a host with calls that take time.
    pub fn one_by_one(self) -> Self {
        Source { most: 1, ..self }
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
        while self.left > 0 && self.next <= now && (self.offered.len() as u64) < self.most {
            let payload = if self.left == 1 { self.payload.slice(..self.last) } else { self.payload.clone() };
            match sender.offer(now, payload) {
                Ok(message) => {
                    touched = true;
                    // Without an interval the message was ready only now.
                    let since = if self.interval.is_zero() { now } else { self.next };
                    self.offered.push_back((message, since));
                    self.left -= 1;
                    self.of_burst += 1;
                    if self.of_burst >= self.burst {
                        self.of_burst = 0;
                        self.next += self.interval * self.burst;
                    }
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
#[derive(Clone, Debug)]
pub struct Sink {
    /// Maximum number of reads in one poll.
    most: usize,
    /// This node, and the number of messages of other nodes taken so far in the whole run; own messages do not count.
    tally: Option<(NodeId, Arc<AtomicU64>)>,
}

impl Default for Sink {
    fn default() -> Self {
        Sink { most: usize::MAX, tally: None }
    }
}

impl Sink {
    /// Sink of a node that adds each message of another node to the count.
    pub fn counting(node: NodeId, count: Arc<AtomicU64>) -> Self {
        Sink { tally: Some((node, count)), ..Sink::default() }
    }

    /// Makes one read in a poll at most, for a host with calls that take time.
    pub fn one_by_one(self) -> Self {
        Sink { most: 1, ..self }
    }

    /// Makes the sink read bursts of `burst` messages, no sooner than `pause` after the begin of the previous burst. It
    /// reads nothing before `start`.
    pub fn pacing(self, burst: u32, pause: Duration, start: Time) -> PacedSink {
        PacedSink { sink: self, burst: burst.max(1), pause, left: 0, until: start, polled: Time::ZERO }
    }

    /// Takes messages while there are any. Returns true if there was one.
    fn take(&mut self, next: impl FnMut() -> Option<Delivery>) -> bool {
        let own = self.tally.as_ref().map(|(node, _)| *node);
        let (mut touched, mut of_others) = (false, 0);
        for delivery in std::iter::from_fn(next).take(self.most) {
            touched = true;
            of_others += u64::from(Some(delivery.source) != own);
        }
        if let Some((_, count)) = self.tally.as_ref().filter(|_| touched) {
            count.fetch_add(of_others, Ordering::Relaxed);
        }
        touched
    }
}

impl Application for Sink {
    fn poll(&mut self, _now: Time, machine: &mut (dyn Machine + 'static)) -> bool {
        let Some(receiver) = machine.as_receiver() else { return false };
        self.take(|| receiver.poll_delivery())
    }
}

/// Slow sink: it reads at most `burst` messages from the first of them on, until `pause` has passed.
#[derive(Clone, Debug)]
pub struct PacedSink {
    sink: Sink,
    burst: u32,
    pause: Duration,
    /// Number of messages that it may still read before `until`.
    left: u32,
    /// Time of the next burst.
    until: Time,
    /// Time of the last poll.
    polled: Time,
}

impl Application for PacedSink {
    fn poll(&mut self, now: Time, machine: &mut (dyn Machine + 'static)) -> bool {
        let Some(receiver) = machine.as_receiver() else { return false };
        let PacedSink { sink, burst, pause, left, until, polled } = self;
        *polled = now;
        sink.take(|| {
            if *left == 0 && now < *until {
                return None;
            }
            let delivery = receiver.poll_delivery()?;
            if *until <= now {
                (*left, *until) = (*burst, now + *pause);
            }
            *left -= 1;
            Some(delivery)
        })
    }

    /// Time of the next burst, if this one is over: the machine may have more.
    fn poll_timeout(&self) -> Option<Time> {
        (self.left == 0 && self.until > self.polled).then_some(self.until)
    }
}
