//! Result of a group's run, and checks of the protocol's guarantee.

use std::collections::BTreeSet;

use carillon_core::{
    Bytes, Dest, DropReason, Event, MessageId, NodeId, Observer, Order, Outcome, Time, TraceEvent,
};

use crate::MessageService;
use crate::oracle::{Received, Services};

/// Datagram as it left a node.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Time of departure.
    pub time: Time,
    /// Sending node.
    pub from: NodeId,
    /// Destination.
    pub to: Dest,
    /// Payload.
    pub bytes: Bytes,
}

/// Recorder of everything that an observer sees.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// Events.
    pub events: Vec<TraceEvent>,
    /// Datagrams.
    pub datagrams: Vec<Datagram>,
}

impl Observer for Recorder {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.events.push(TraceEvent { time, node, event: event.clone() });
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        self.datagrams.push(Datagram { time, from, to: to.clone(), bytes: bytes.clone() });
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Number of messages that each sender offered.
    pub messages: u64,
    /// Sending nodes.
    pub senders: Vec<NodeId>,
    /// Order of delivery with these settings.
    pub order: Order,
    /// Service of each message by its number, if senders choose it for each message.
    pub services: Option<Services>,
    /// True if senders learn what has arrived.
    pub confirmed: bool,
    /// Crashed nodes.
    pub crashed: Vec<NodeId>,
    /// Deliveries to each receiver's application, until its crash if it crashed.
    pub receivers: Vec<Received>,
    /// Deliveries to the applications of restarted nodes.
    pub rejoined: Vec<Received>,
    /// Time at which every live sender had finished, if they did.
    pub finished: Option<Time>,
    /// True if no event was left some time after that.
    pub quiet: bool,
    /// Number of datagrams sent after that.
    pub sent_afterwards: usize,
    /// Events of the run.
    pub events: Vec<TraceEvent>,
    /// Datagrams of the run.
    pub datagrams: Vec<Datagram>,
    /// Maximum heap of each node in bytes, if memory was limited.
    pub peaks: Vec<usize>,
}

impl Report {
    /// Checks safety: every delivery was permitted, and in the right order.
    pub fn check_safety(&self) -> Result<(), String> {
        let lives = self.receivers.iter().chain(&self.rejoined);
        if let Some(violation) = lives.flat_map(|received| &received.violations).next() {
            return Err(violation.clone());
        }
        if self.order == Order::Total { self.check_one_order() } else { Ok(()) }
    }

    /// Checks the total order at all members. The deliveries of a crashed member must be a prefix of the deliveries
    /// of the live ones, or equal, up to the last one that survives as many crashes.
    fn check_one_order(&self) -> Result<(), String> {
        let orders: Vec<_> = self.receivers.iter().map(|received| self.lasting_order(received)).collect();
        let longest = orders.iter().zip(&self.receivers).max_by_key(|(order, _)| order.len());
        let Some((order, longest)) = longest else { return Ok(()) };
        for (received, own) in self.receivers.iter().zip(&orders) {
            if let Some(at) = (0..own.len()).find(|&at| own[at] != order[at]) {
                let (here, there) = (received.node, longest.node);
                let (a, b) = (own[at], order[at]);
                return Err(format!("as the {at}th message, {here} delivered {a:?} and {there} {b:?}"));
            }
        }
        for received in &self.rejoined {
            let own = self.total_order(received);
            let Some(first) = own.first() else { continue };
            let from = order.iter().position(|message| message == first);
            if !from.is_some_and(|from| order[from..].starts_with(&own)) {
                return Err(format!("{}, come back, delivered {own:?}, another order", received.node));
            }
        }
        Ok(())
    }

    /// Deliveries of the messages with total order.
    fn total_order(&self, received: &Received) -> Vec<(NodeId, MessageId)> {
        let mut order = received.order();
        order.retain(|(_, message)| self.service(message.0).order == Order::Total);
        order
    }

    /// Deliveries with total order that must agree with those of the live members: all of a live member, and of a
    /// crashed one those up to the last that survives as many crashes.
    fn lasting_order(&self, received: &Received) -> Vec<(NodeId, MessageId)> {
        let mut order = self.total_order(received);
        if self.crashed.contains(&received.node) {
            let survives = |(_, message): &(NodeId, MessageId)| self.survives(message.0);
            let lasting = order.iter().rposition(survives).map_or(0, |last| last + 1);
            order.truncate(lasting);
        }
        order
    }

    /// Service of the message with this number.
    fn service(&self, number: u64) -> MessageService {
        match &self.services {
            Some(services) => services[number as usize],
            None => MessageService { is_reliable: true, order: self.order, crashes: u32::MAX },
        }
    }

    /// Returns true if the delivery of the message with this number survives the crashes of the run.
    fn survives(&self, number: u64) -> bool {
        self.service(number).crashes >= self.crashed.len() as u32
    }

    /// Checks that every live member delivered each message that any member has delivered and that survives the
    /// crashes of the run.
    fn check_nothing_lost(&self) -> Result<(), String> {
        let delivered: BTreeSet<_> = self.receivers.iter().flat_map(Received::order).collect();
        let lasting = |(_, message): &(NodeId, MessageId)| {
            self.service(message.0).order == Order::Total && self.survives(message.0)
        };
        let lasting: BTreeSet<_> = delivered.into_iter().filter(lasting).collect();
        for received in self.receivers.iter().filter(|received| !self.crashed.contains(&received.node)) {
            let own: BTreeSet<_> = received.order().into_iter().collect();
            if let Some((source, message)) = lasting.difference(&own).next() {
                let node = received.node;
                return Err(format!("{message} of {source} was delivered elsewhere and is lost at {node}"));
            }
        }
        Ok(())
    }

    /// Checks safety and liveness.
    ///
    /// Every live receiver got every message of every live sender once, in order, and unaltered. With a total order,
    /// live receivers also got the same messages of a crashed sender. Every live sender finished, no message failed,
    /// and no live member was expelled.
    pub fn check_reliable(&self) -> Result<(), String> {
        self.check_safety()?;
        if self.finished.is_none() {
            return Err(format!("a sender did not finish: {}", self.progress()));
        }
        for &sender in &self.senders {
            let crashed = self.crashed.contains(&sender);
            let mut shared = None;
            for received in self.receivers.iter().filter(|received| self.must_deliver(received, sender)) {
                let total = self.order == Order::Total;
                // Of a crashed sender, the live members agree on the messages with total order.
                let counts = |number: u64| {
                    let service = self.service(number);
                    service.is_reliable && (!crashed || !total || service.order == Order::Total)
                };
                let from_sender = received.deliveries.iter().filter(|delivery| delivery.source == sender);
                let got = from_sender.filter(|delivery| counts(delivery.message.0)).count() as u64;
                let node = received.node;
                let wanted = match (crashed, self.order) {
                    (false, _) => (0..self.messages).filter(|&number| counts(number)).count() as u64,
                    (true, Order::Total) => *shared.get_or_insert(got),
                    (true, Order::Source | Order::Arrival) => got,
                };
                if got != wanted {
                    return Err(format!("{node} got {got} of {wanted} messages of {sender}"));
                }
            }
            if crashed || !self.confirmed {
                continue;
            }
            let completed = self.completed_by(sender);
            if completed.iter().map(|(message, _)| message.0).ne(0..self.messages) {
                return Err(format!("{sender} completed {completed:?}, not each message once and in order"));
            }
            if let Some((message, _)) = completed.iter().find(|(_, outcome)| *outcome == Outcome::Failed) {
                return Err(format!("{sender} gave {message} up"));
            }
        }
        if self.order == Order::Total {
            self.check_nothing_lost()?;
        }
        let mut lost = self.events.iter().filter_map(|event| match event.event {
            Event::MemberLost { member } if !self.crashed.contains(&member) => Some((event.node, member)),
            _ => None,
        });
        match lost.next() {
            Some((node, member)) => Err(format!("{node} gave {member} up, which lives")),
            None => Ok(()),
        }
    }

    /// Checks safety, and that each loss is reported: a live receiver delivered every message of a live sender or
    /// abandoned it, and not both.
    pub fn check_losses_announced(&self) -> Result<(), String> {
        self.check_safety()?;
        for &sender in self.senders.iter().filter(|sender| !self.crashed.contains(sender)) {
            for received in self.receivers.iter().filter(|received| self.must_deliver(received, sender)) {
                let given_up = self.events.iter().filter_map(|event| match event.event {
                    Event::LossFinal { source, message }
                        if event.node == received.node && source == sender =>
                    {
                        Some(message.0)
                    }
                    _ => None,
                });
                let delivered = received
                    .deliveries
                    .iter()
                    .filter(|d| d.source == sender)
                    .map(|delivery| delivery.message.0);
                let mut known: Vec<u64> = delivered.chain(given_up).collect();
                known.sort_unstable();
                if known.iter().copied().ne(0..self.messages) {
                    let node = received.node;
                    let wrong = (0..self.messages).find(|n| known.get(*n as usize) != Some(n));
                    return Err(format!(
                        "of {} messages of {sender}, {node} delivered {} and gave up {}; first in question: {wrong:?}",
                        self.messages,
                        received.count_of(sender),
                        known.len() as u64 - received.count_of(sender),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns true if a receiver must have the messages of a sender in the end.
    fn must_deliver(&self, received: &Received, sender: NodeId) -> bool {
        !self.crashed.contains(&received.node) && (received.node != sender || self.order == Order::Total)
    }

    /// Messages that a sender completed, in order.
    pub fn completed_by(&self, sender: NodeId) -> Vec<(MessageId, Outcome)> {
        let completed = self.events.iter().filter_map(|event| match event.event {
            Event::Completed { message, outcome, .. } if event.node == sender => Some((message, outcome)),
            _ => None,
        });
        completed.collect()
    }

    /// Messages that the first sender completed, in order.
    pub fn completed(&self) -> Vec<(MessageId, Outcome)> {
        self.completed_by(self.senders[0])
    }

    /// Number of events that satisfy a condition.
    pub fn count(&self, fits: impl Fn(NodeId, &Event) -> bool) -> usize {
        self.events.iter().filter(|event| fits(event.node, &event.event)).count()
    }

    /// Number of data packets sent for the first time, and of retransmissions.
    pub fn transmissions(&self) -> (usize, usize) {
        (
            self.count(|_, event| matches!(event, Event::Sent { .. })),
            self.count(|_, event| matches!(event, Event::RepairSent { .. })),
        )
    }

    /// Number of control packets of a node, such as acknowledgments.
    pub fn feedback(&self, from: NodeId) -> usize {
        self.count(|node, event| node == from && matches!(event, Event::ControlSent { .. }))
    }

    /// Number of packets that a node discarded for this reason.
    pub fn drops(&self, at: NodeId, wanted: DropReason) -> usize {
        self.count(|node, event| node == at && *event == Event::Dropped { reason: wanted })
    }

    /// Number of datagrams that a node sent.
    pub fn sent_by(&self, node: NodeId) -> usize {
        self.datagrams.iter().filter(|datagram| datagram.from == node).count()
    }

    /// Progress of all nodes in one line.
    pub fn progress(&self) -> String {
        let got: Vec<_> = self.receivers.iter().map(|received| received.deliveries.len()).collect();
        let end = self.events.last().map_or(Time::ZERO, |event| event.time);
        format!(
            "{:?} of {} messages completed at {end}, delivered {got:?}",
            self.senders.iter().map(|&sender| self.completed_by(sender).len()).collect::<Vec<_>>(),
            self.messages
        )
    }
}
