//! What a reliable delivery is: every message once, in order, whole.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{Application, Delivery, Machine, NodeId, OfferError, Seeds, Time};

/// The contents of the messages of a run: every message differs from every other.
#[derive(Clone, Debug)]
pub struct Contents {
    seeds: Seeds,
    min_len: usize,
    max_len: usize,
}

impl Contents {
    /// Messages of 8 to `max_len` bytes.
    ///
    /// # Panics
    ///
    /// If there is no room for a message's number: `max_len` is at least 8.
    pub fn new(seeds: &Seeds, max_len: usize) -> Self {
        Contents { min_len: 8, ..Contents::equal(seeds, max_len) }
    }

    /// Messages of `len` bytes each.
    ///
    /// # Panics
    ///
    /// If `len` is less than 8.
    pub fn equal(seeds: &Seeds, len: usize) -> Self {
        assert!(len >= 8, "a message has room for its number");
        Contents { seeds: seeds.part("contents"), min_len: len, max_len: len }
    }

    /// Message number `number`: the number, then random bytes.
    pub fn message(&self, number: u64) -> Bytes {
        let mut rng = self.seeds.part(&number.to_string()).stream("bytes");
        let len = self.min_len + rng.below((self.max_len - self.min_len) as u64 + 1) as usize;
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes.into()
    }

    /// The longest there can be.
    pub fn max_len(&self) -> usize {
        self.max_len
    }
}

/// Offers the messages of a run as fast as they are taken, then finishes.
#[derive(Debug)]
pub struct Offers {
    contents: Contents,
    messages: u64,
    offered: u64,
    finished: bool,
}

impl Offers {
    /// Offers this many messages.
    pub fn new(contents: Contents, messages: u64) -> Self {
        Offers { contents, messages, offered: 0, finished: false }
    }
}

impl Application for Offers {
    fn poll(&mut self, now: Time, machine: &mut (dyn Machine + 'static)) -> bool {
        let sender = machine.as_sender().expect("the sender's machine offers messages");
        let mut touched = false;
        while self.offered < self.messages {
            match sender.offer(now, self.contents.message(self.offered)) {
                Ok(id) => {
                    assert_eq!(id.0, self.offered, "messages are numbered in the order they were offered");
                    self.offered += 1;
                    touched = true;
                }
                Err(OfferError::Full) => break,
                Err(error) => panic!("the sender refused message {}: {error}", self.offered),
            }
        }
        if self.offered == self.messages && !self.finished {
            self.finished = true;
            sender.finish(now);
            assert_eq!(
                sender.offer(now, Bytes::new()),
                Err(OfferError::Finished),
                "a sender takes nothing after `finish`",
            );
            touched = true;
        }
        touched
    }
}

/// What a receiver's application got, and what was wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Everything delivered, in order.
    pub deliveries: Vec<Delivery>,
    /// What should not have been: a sentence each, the first few only.
    pub violations: Vec<String>,
}

/// Takes the deliveries of one receiver and judges them.
#[derive(Debug)]
pub struct Oracle {
    node: NodeId,
    source: NodeId,
    contents: Contents,
    received: Arc<Mutex<Received>>,
    /// Takes one message each so long; zero takes all at once.
    pace: Duration,
    next: Time,
    polled: Time,
}

impl Oracle {
    /// Judges what `node` gets from `source`. Give [`Oracle::received`] away before the run.
    pub fn new(node: NodeId, source: NodeId, contents: Contents, pace: Duration) -> Self {
        Oracle {
            node,
            source,
            contents,
            received: Arc::default(),
            pace,
            next: Time::ZERO,
            polled: Time::ZERO,
        }
    }

    /// What it gets, readable during and after the run.
    pub fn received(&self) -> Arc<Mutex<Received>> {
        self.received.clone()
    }

    fn judge(&self, received: &mut Received, delivery: &Delivery) {
        let expected = received.deliveries.len() as u64;
        let payload = self.contents.message(expected);
        let complaint = if delivery.message.0 != expected {
            format!("delivers message {} as the {expected}th", delivery.message.0)
        } else if delivery.source != self.source {
            format!("says that message {expected} came from {}", delivery.source)
        } else if delivery.payload != payload {
            let number = delivery.payload.first_chunk::<8>().map(|first| u64::from_be_bytes(*first));
            match number {
                Some(number) if self.contents.message(number) == delivery.payload => {
                    format!("delivers the contents of message {number} as message {expected}")
                }
                _ => format!("delivers message {expected} with bytes changed"),
            }
        } else {
            return;
        };
        if received.violations.len() < 5 {
            received.violations.push(format!("{} {complaint}", self.node));
        }
    }
}

impl Application for Oracle {
    fn poll(&mut self, now: Time, machine: &mut (dyn Machine + 'static)) -> bool {
        let receiver = machine.as_receiver().expect("a receiver's machine delivers messages");
        let mut received = self.received.lock().expect("no thread panics while it holds this");
        self.polled = now;
        let mut touched = false;
        while self.next <= now
            && let Some(delivery) = receiver.poll_delivery()
        {
            touched = true;
            self.judge(&mut received, &delivery);
            received.deliveries.push(delivery);
            if !self.pace.is_zero() {
                self.next = now + self.pace;
            }
        }
        touched
    }

    fn poll_timeout(&self) -> Option<Time> {
        (self.next > self.polled).then_some(self.next)
    }
}
