//! What a reliable delivery is: every message once, whole, and in order if that is promised.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{Application, Delivery, Machine, MessageId, NodeId, OfferError, Seeds, SeqSet, Time};

use crate::exercise;

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

    /// The contents of the messages of another source.
    pub fn of(&self, source: NodeId) -> Self {
        Contents { seeds: self.seeds.part(&format!("of {source}")), ..self.clone() }
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
pub struct MessageSource {
    contents: Contents,
    messages: u64,
    offered: u64,
    finished: bool,
    /// Time between two messages.
    interval: Duration,
    next: Time,
    /// When it was last asked: a message that was not taken then waits for the machine.
    polled: Time,
}

impl MessageSource {
    /// Offers this many messages.
    pub fn new(contents: Contents, messages: u64) -> Self {
        let (interval, next, polled) = (Duration::ZERO, Time::ZERO, Time::ZERO);
        MessageSource { contents, messages, offered: 0, finished: false, interval, next, polled }
    }

    /// The same, but one message each so long.
    pub fn every(self, interval: Duration) -> Self {
        MessageSource { interval, ..self }
    }
}

impl Application for MessageSource {
    fn poll(&mut self, now: Time, machine: &mut (dyn Machine + 'static)) -> bool {
        let sender = machine.as_sender().expect("the sender's machine offers messages");
        self.polled = now;
        let mut touched = false;
        while self.offered < self.messages && self.next <= now {
            match sender.offer(now, self.contents.message(self.offered)) {
                Ok(id) => {
                    assert_eq!(id.0, self.offered, "messages are numbered in the order they were offered");
                    self.offered += 1;
                    self.next += self.interval;
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

    fn poll_timeout(&self) -> Option<Time> {
        (self.offered < self.messages && self.next > self.polled).then_some(self.next)
    }
}

/// What a receiver's application got, and what was wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Where it runs.
    pub node: NodeId,
    /// Everything delivered, in order.
    pub deliveries: Vec<Delivery>,
    /// What should not have been: a sentence each, the first few only.
    pub violations: Vec<String>,
}

impl Received {
    /// The messages delivered, each by its source and number.
    pub fn order(&self) -> Vec<(NodeId, MessageId)> {
        self.deliveries.iter().map(|delivery| (delivery.source, delivery.message)).collect()
    }

    /// How many messages of this source were delivered.
    pub fn count_of(&self, source: NodeId) -> u64 {
        self.deliveries.iter().filter(|delivery| delivery.source == source).count() as u64
    }
}

/// A source of messages, as an oracle knows it.
#[derive(Clone, Debug)]
struct Known {
    source: NodeId,
    contents: Contents,
    /// The message that is to come next; `None` if any may be the first.
    next: Option<u64>,
    /// Messages may be left out: the receiver has said that it lost them.
    gaps: bool,
    /// Those that came, if any may be the next.
    came: Option<SeqSet>,
}

/// Takes the deliveries of one receiver and judges them.
#[derive(Debug)]
pub struct Oracle {
    known: Vec<Known>,
    received: Arc<Mutex<Received>>,
    /// Takes one message each so long; zero takes all at once.
    pace: Duration,
    next: Time,
    polled: Time,
}

impl Oracle {
    /// Judges what `node` gets from `source`. Give [`Oracle::received`] away before the run.
    pub fn new(node: NodeId, source: NodeId, contents: Contents, pace: Duration) -> Self {
        Oracle::over(node, vec![Known { source, contents, next: Some(0), gaps: false, came: None }], pace)
    }

    /// Judges what `node` gets from several sources, whose contents are [`Contents::of`] them.
    pub fn of_peers(
        node: NodeId,
        sources: impl Iterator<Item = NodeId>,
        contents: &Contents,
        pace: Duration,
    ) -> Self {
        let known =
            |source| Known { source, contents: contents.of(source), next: Some(0), gaps: false, came: None };
        Oracle::over(node, sources.map(known).collect(), pace)
    }

    /// The same for a node that joins late: of each source any message may be the first.
    pub fn from_anywhere(mut self) -> Self {
        self.known.iter_mut().for_each(|known| known.next = None);
        self
    }

    /// The same where messages may be left out, if never delivered later:
    /// [`Report::check_told`](crate::Report::check_told) compares with what the receiver said.
    pub fn with_gaps(mut self) -> Self {
        self.known.iter_mut().for_each(|known| known.gaps = true);
        self
    }

    /// The same where each message may come before any other, once.
    pub fn in_any_order(mut self) -> Self {
        self.known.iter_mut().for_each(|known| known.came = Some(SeqSet::new()));
        self
    }

    fn over(node: NodeId, known: Vec<Known>, pace: Duration) -> Self {
        let received = Arc::new(Mutex::new(Received { node, ..Received::default() }));
        Oracle { known, received, pace, next: Time::ZERO, polled: Time::ZERO }
    }

    /// What it gets, readable during and after the run.
    pub fn received(&self) -> Arc<Mutex<Received>> {
        self.received.clone()
    }

    fn check_delivery(&mut self, received: &mut Received, delivery: &Delivery) {
        let complain = |received: &mut Received, complaint: String| {
            if received.violations.len() < 5 {
                received.violations.push(format!("{} {complaint}", received.node));
            }
        };
        let Some(known) = self.known.iter_mut().find(|known| known.source == delivery.source) else {
            let Delivery { source, message, .. } = delivery;
            return complain(received, format!("says that message {} came from {source}", message.0));
        };
        let mut expected = known.next.unwrap_or(delivery.message.0);
        if let Some(came) = &mut known.came {
            if !came.insert(delivery.message.0) {
                let Delivery { source, message, .. } = delivery;
                return complain(received, format!("delivers message {} of {source} again", message.0));
            }
            expected = delivery.message.0;
        } else if known.gaps {
            expected = expected.max(delivery.message.0);
        }
        known.next = Some(expected + 1);
        let payload = known.contents.message(expected);
        let complaint = if delivery.message.0 != expected {
            format!("delivers message {} of {} as the {expected}th", delivery.message.0, delivery.source)
        } else if delivery.payload != payload {
            let number = delivery.payload.first_chunk::<8>().map(|first| u64::from_be_bytes(*first));
            match number {
                Some(number) if known.contents.message(number) == delivery.payload => {
                    format!("delivers the contents of message {number} as message {expected}")
                }
                _ => format!("delivers message {expected} with bytes changed"),
            }
        } else {
            return;
        };
        complain(received, complaint);
    }
}

impl Application for Oracle {
    fn poll(&mut self, now: Time, machine: &mut (dyn Machine + 'static)) -> bool {
        let receiver = machine.as_receiver().expect("a receiver's machine delivers messages");
        let shared = self.received.clone();
        let mut received = shared.lock().expect("no thread panics while it holds this");
        self.polled = now;
        let mut touched = false;
        while self.next <= now
            && let Some(delivery) = receiver.poll_delivery()
        {
            touched = true;
            exercise::count(|exercise| exercise.deliveries += 1);
            self.check_delivery(&mut received, &delivery);
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
