//! Oracle of reliable delivery: every message once, unaltered, and in order if the protocol guarantees that.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    Application, Delivery, Machine, MessageId, NodeId, OfferError, Order, Seeds, SeqSet, Time,
};

use crate::MessageService;
use crate::exercise;

/// Contents of the messages of a run, which all differ.
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
    /// Panics if `max_len` is less than 8, the size of a message's number.
    pub fn new(seeds: &Seeds, max_len: usize) -> Self {
        Contents { min_len: 8, ..Contents::equal(seeds, max_len) }
    }

    /// Messages of `len` bytes each.
    ///
    /// # Panics
    ///
    /// Panics if `len` is less than 8.
    pub fn equal(seeds: &Seeds, len: usize) -> Self {
        assert!(len >= 8, "a message has room for its number");
        Contents { seeds: seeds.part("contents"), min_len: len, max_len: len }
    }

    /// Contents of the messages of another source.
    pub fn of(&self, source: NodeId) -> Self {
        Contents { seeds: self.seeds.part(&format!("of {source}")), ..self.clone() }
    }

    /// Message of this number: the number, then random bytes.
    pub fn message(&self, number: u64) -> Bytes {
        let mut rng = self.seeds.part(&number.to_string()).stream("bytes");
        let len = self.min_len + rng.below((self.max_len - self.min_len) as u64 + 1) as usize;
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes.into()
    }

    /// Maximum length of a message in bytes.
    pub fn max_len(&self) -> usize {
        self.max_len
    }
}

/// Application that offers the messages of a run as fast as they are taken, then finishes.
#[derive(Debug)]
pub struct MessageSource {
    contents: Contents,
    messages: u64,
    offered: u64,
    finished: bool,
    /// Interval between two messages.
    interval: Duration,
    next: Time,
    /// Time of the last poll; a message that was not taken then waits for the machine.
    polled: Time,
}

impl MessageSource {
    /// Source of this many messages.
    pub fn new(contents: Contents, messages: u64) -> Self {
        let (interval, next, polled) = (Duration::ZERO, Time::ZERO, Time::ZERO);
        MessageSource { contents, messages, offered: 0, finished: false, interval, next, polled }
    }

    /// Sets the interval between two messages.
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

/// Deliveries to a receiver's application, and violations of the guarantee.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Node of the receiver.
    pub node: NodeId,
    /// Deliveries in order.
    pub deliveries: Vec<Delivery>,
    /// Violations, as sentences; only the first few are kept.
    pub violations: Vec<String>,
}

impl Received {
    /// Source and number of each delivered message, in order.
    pub fn order(&self) -> Vec<(NodeId, MessageId)> {
        self.deliveries.iter().map(|delivery| (delivery.source, delivery.message)).collect()
    }

    /// Number of messages delivered from this source.
    pub fn count_of(&self, source: NodeId) -> u64 {
        self.deliveries.iter().filter(|delivery| delivery.source == source).count() as u64
    }
}

/// Expectations about one source.
#[derive(Clone, Debug)]
struct Known {
    source: NodeId,
    contents: Contents,
    /// Number of the next message; `None` if any may be the first.
    next: Option<u64>,
    /// True if messages may be left out, because the receiver reports gaps.
    gaps: bool,
    /// Numbers received, if messages may come in any order.
    came: Option<SeqSet>,
    /// Service of each message, if messages differ.
    services: Option<Services>,
    /// Number after the last message that was not delivered on arrival, if messages differ; `None` if any may be the
    /// first.
    ordered: Option<u64>,
}

/// Service of each message of a run, by number.
pub type Services = Arc<[MessageService]>;

impl Known {
    /// Notes an ordered message, and returns a message that had to be delivered on the other side of it.
    fn overtaken(&mut self, number: u64) -> Option<u64> {
        let services = self.services.clone()?;
        let waits = |number: &u64| {
            let service = services[*number as usize];
            service.is_reliable && service.order != Order::Arrival
        };
        if !waits(&number) {
            return None;
        }
        let from = self.ordered.unwrap_or(number);
        self.ordered = Some(from.max(number + 1));
        if number < from { Some(from - 1) } else { (from..number).find(waits) }
    }
}

/// Application that takes the deliveries of one receiver and checks them.
#[derive(Debug)]
pub struct Oracle {
    known: Vec<Known>,
    received: Arc<Mutex<Received>>,
    /// Interval at which it takes a message; zero takes all at once.
    pace: Duration,
    next: Time,
    polled: Time,
}

impl Oracle {
    /// Oracle of `node` for messages from `source`. Take [`Oracle::received`] before the run.
    pub fn new(node: NodeId, source: NodeId, contents: Contents, pace: Duration) -> Self {
        Oracle::over(
            node,
            vec![Known {
                source,
                contents,
                next: Some(0),
                gaps: false,
                came: None,
                services: None,
                ordered: Some(0),
            }],
            pace,
        )
    }

    /// Oracle of `node` for messages of several sources, with the [`Contents::of`] each.
    pub fn of_peers(
        node: NodeId,
        sources: impl Iterator<Item = NodeId>,
        contents: &Contents,
        pace: Duration,
    ) -> Self {
        let known = |source| Known {
            source,
            contents: contents.of(source),
            next: Some(0),
            gaps: false,
            came: None,
            services: None,
            ordered: Some(0),
        };
        Oracle::over(node, sources.map(known).collect(), pace)
    }

    /// Accepts any first message of each source, for a node that joins late.
    pub fn from_anywhere(mut self) -> Self {
        self.known.iter_mut().for_each(|known| (known.next, known.ordered) = (None, None));
        self
    }

    /// Accepts gaps, but no late messages; [`Report::check_losses_announced`](crate::Report::check_losses_announced)
    /// compares them with the receiver's reports.
    pub fn with_gaps(mut self) -> Self {
        self.known.iter_mut().for_each(|known| known.gaps = true);
        self
    }

    /// Accepts messages in any order, each once.
    pub fn in_any_order(mut self) -> Self {
        self.known.iter_mut().for_each(|known| known.came = Some(SeqSet::new()));
        self
    }

    /// Accepts each message once, in the order that its service demands.
    pub fn with_services(mut self, services: &Services) -> Self {
        for known in &mut self.known {
            (known.came, known.services) = (Some(SeqSet::new()), Some(services.clone()));
        }
        self
    }

    fn over(node: NodeId, known: Vec<Known>, pace: Duration) -> Self {
        let received = Arc::new(Mutex::new(Received { node, ..Received::default() }));
        Oracle { known, received, pace, next: Time::ZERO, polled: Time::ZERO }
    }

    /// Record of the deliveries, readable during and after the run.
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
            if let Some(earlier) = known.overtaken(expected) {
                let source = delivery.source;
                complain(received, format!("delivers message {expected} of {source} before {earlier}"));
            }
        } else if known.gaps {
            // A gap is allowed, an earlier message is not.
            expected = expected.max(delivery.message.0);
        }
        // Go on from the expected number even after a violation, so that one fault is one complaint.
        known.next = Some(expected + 1);
        let payload = known.contents.message(expected);
        let complaint = if delivery.message.0 != expected {
            format!("delivers message {} of {} as the {expected}th", delivery.message.0, delivery.source)
        } else if delivery.payload != payload {
            // The number at the beginning of the contents tells which message they belong to.
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
