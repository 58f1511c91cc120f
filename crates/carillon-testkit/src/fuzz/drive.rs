//! Driver of a machine by fuzzed operations, with checks of the driving contract.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use carillon_core::{
    Dest, Duration, Event, GroupId, Host, Machine, NodeId, OfferError, PortId, Received, Scope, Seeds, Time,
    Transmit, Verdict, check_early,
};
use carillon_wire::session;

use super::Input;
use super::packets::{Known, Source};

/// Subject of a fuzzed run: a machine, with the other actions of its application.
pub trait Subject {
    /// Machine under test.
    fn machine(&mut self) -> &mut dyn Machine;

    /// Performs an action of the application that is not part of the traits.
    fn act(&mut self, now: Time, input: &mut Input<'_>) {
        let _ = (now, input);
    }
}

impl Subject for Box<dyn Machine> {
    fn machine(&mut self) -> &mut dyn Machine {
        self.as_mut()
    }
}

/// Rules for a machine beyond the contract.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Maximum number of datagrams in one drain.
    pub transmits: usize,
    /// Maximum number of messages kept for the application; `None` checks nothing.
    pub deliveries: Option<usize>,
    /// True for the machine of a protocol alone, which accounts for every datagram and every message.
    pub plain: bool,
}

/// Drives a machine by the operations in the input.
///
/// # Panics
///
/// Panics if the machine breaks the contract or one of these rules:
///
/// - After `handle_timeout` and a drain no timer is due, and an early `handle_timeout` changes nothing.
/// - A drain emits a bounded number of datagrams, none of them empty or with a departure in the past.
/// - An expelled node is not expelled again before it has rejoined.
/// - A protocol's machine accounts for every datagram with an event, and completes each message once and in order. It
///   waits for a timeout while messages are outstanding, takes messages and finishes when none are, delivers in order,
///   and keeps no more than its window.
pub fn drive<S>(subject: &mut S, rules: &Rules, known: Known, sources: &[Source<'_>], input: &mut Input<'_>)
where
    S: Subject + ?Sized,
{
    let mut run = Run {
        rules,
        known,
        now: Time::ZERO,
        fired_at: None,
        clean: false,
        buf: Vec::new(),
        recent: VecDeque::new(),
        offered: 0,
        completed: 0,
        finishing: false,
        announced: 0,
        delivered: 0,
        next: 0,
        losses: false,
        lost: BTreeSet::new(),
    };
    subject.machine().start(run.now);
    run.drain(subject.machine(), None);
    for _ in 0..MAX_OPERATIONS {
        if input.is_empty() {
            break;
        }
        run.step(subject, sources, input);
    }
    run.drain(subject.machine(), None);
}

struct Run<'r> {
    rules: &'r Rules,
    known: Known,
    now: Time,
    /// Time of the last `handle_timeout`.
    fired_at: Option<Time>,
    /// True if the last drain took everything.
    clean: bool,
    buf: Vec<u8>,
    /// Last datagrams of the machine.
    recent: VecDeque<Vec<u8>>,
    offered: u64,
    completed: u64,
    finishing: bool,
    /// Number of messages announced by events, and number of fetched ones.
    announced: u64,
    delivered: u64,
    /// Number of the next message to be delivered.
    next: u64,
    /// True after a receiver found messages missing, so that it may have to skip them.
    losses: bool,
    /// Expelled nodes that have not rejoined.
    lost: BTreeSet<NodeId>,
}

impl Run<'_> {
    fn step<S: Subject + ?Sized>(&mut self, subject: &mut S, sources: &[Source<'_>], input: &mut Input<'_>) {
        let code = input.byte();
        // Sometimes the port takes only a few datagrams.
        let budget = match code >> 5 {
            7 => Some(0),
            6 => Some(1),
            _ => None,
        };
        let machine = subject.machine();
        match code & 31 {
            0..=7 => {
                let mut bytes = Vec::new();
                sources[usize::from(code & 7) % sources.len()](input, &self.known, &mut bytes);
                self.known.tell(&bytes);
                return self.datagram(machine, bytes, budget, input);
            }
            8..=11 => {
                let bytes = self.echo(input);
                return self.datagram(machine, bytes, budget, input);
            }
            12..=14 => {
                // At the exact deadline, or a little late.
                let Some(next) = machine.poll_timeout().filter(|next| *next < MAX_TIME) else { return };
                let late = if code & 31 == 14 { step(input) } else { Duration::ZERO };
                self.pass_until(next.max(self.now) + late);
                self.fire(machine);
            }
            15..=17 => {
                // Let time pass, then fire the timers, due or not.
                self.pass_until(self.now + step(input));
                self.fire(machine);
            }
            // Time passes, and the next operation comes before the timers.
            18 => self.pass_until(self.now + step(input)),
            19 => return self.fire_early(machine),
            20..=24 => self.offer(machine, input),
            25 => {
                if let Some(sender) = machine.as_sender() {
                    sender.finish(self.now);
                    self.finishing = true;
                }
            }
            26..=28 => self.fetch(machine, usize::MAX),
            29 => self.fetch(machine, 1),
            _ => subject.act(self.now, input),
        }
        self.drain(subject.machine(), budget);
    }

    fn pass_until(&mut self, now: Time) {
        self.now = now.min(MAX_TIME);
    }

    fn fire(&mut self, machine: &mut dyn Machine) {
        machine.handle_timeout(self.now);
        self.fired_at = Some(self.now);
    }

    /// Checks rule 3 of the contract: an early `handle_timeout` is a no-op.
    fn fire_early(&mut self, machine: &mut dyn Machine) {
        let next = machine.poll_timeout();
        if !self.clean || next.is_some_and(|at| at <= self.now) {
            return;
        }
        self.fired_at = Some(self.now);
        check_early(machine, self.now, &mut self.buf);
    }

    /// Returns one of the machine's own datagrams with changes: its type, any byte, or its length.
    fn echo(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let form = input.byte();
        let Some(mut bytes) = self.recent.get(usize::from(form & 7) % self.recent.len().max(1)).cloned()
        else {
            return Vec::new();
        };
        if form & 8 != 0
            && let Some(packet_type) = bytes.get_mut(3)
        {
            *packet_type ^= 3;
        }
        if form & 16 != 0 {
            let (at, value) = (input.below(bytes.len().clamp(1, 256)), input.byte());
            bytes[at] ^= value;
        }
        if form & 32 != 0 {
            bytes.truncate(input.below(bytes.len().clamp(1, 256)));
        }
        bytes
    }

    fn datagram(
        &mut self,
        machine: &mut dyn Machine,
        bytes: Vec<u8>,
        budget: Option<usize>,
        input: &mut Input<'_>,
    ) {
        let form = input.byte();
        let source = match form & 15 {
            0..=5 => self.known.sender,
            node @ 6..=13 => NodeId(u32::from(node) - 6),
            14 => NodeId(u32::MAX),
            _ => NodeId(1000),
        };
        // Unicast packets of a session arrive by unicast in most cases.
        let to_one = session::Packet::parse(&bytes).is_ok_and(|packet| {
            use session::Body::{Invite, Present, Roster};
            !matches!(packet.body, Invite(_) | Roster(_) | Present { .. })
        });
        // Sometimes the destination is the wrong one.
        let to_group = (form & 16 == 0) != to_one;
        let destination = if to_group { Dest::group(GroupId(0)) } else { Dest::Node(NodeId(1)) };
        let mut bytes = bytes;
        if form & 128 != 0 && !self.rules.plain && bytes.len() >= 8 {
            // Members mark packets to the sender with a token of their nonce.
            let nonce = if form & 64 == 0 { self.known.nonce.0 } else { u64::from(form & 3) };
            let token = Seeds::new(nonce).stream("session.token").bits() as u32;
            bytes[4..8].copy_from_slice(&token.to_be_bytes());
        }
        let bytes = Bytes::from(bytes);
        let passes = form & 32 == 0;
        let datagram = Received {
            source,
            destination: &destination,
            ingress: if machine.as_relay().is_some() { PortId(u16::from(form >> 6)) } else { PortId(0) },
            scope: Scope::GLOBAL,
            bytes: &bytes,
        };
        match machine.as_relay().filter(|_| passes) {
            Some(relay) => {
                let verdict = relay.handle_transit(self.now, datagram);
                let empty = matches!(verdict, Verdict::ForwardAs(bytes) if bytes.is_empty());
                assert!(!empty, "a datagram is not empty");
            }
            None => machine.handle_datagram(self.now, datagram),
        }
        let events = self.drain(machine, budget);
        assert!(
            !self.rules.plain || events > 0,
            "a datagram from {source} left no event: {bytes:?}, {machine:?}"
        );
    }

    fn offer(&mut self, machine: &mut dyn Machine, input: &mut Input<'_>) {
        let len = input.below(16);
        let payload = Bytes::copy_from_slice(input.bytes(len));
        let Some(sender) = machine.as_sender() else { return };
        match sender.offer(self.now, payload) {
            Ok(message) => {
                assert!(!self.finishing, "a message was taken after the last");
                assert_eq!(message.0, self.offered, "messages count up from zero");
                self.offered += 1;
            }
            Err(OfferError::Finished) => assert!(self.finishing || !self.rules.plain, "it has not finished"),
            Err(OfferError::Full) => {
                // A sender with nothing outstanding has room for a message.
                let idle = self.clean && self.offered == self.completed;
                assert!(!(self.rules.plain && idle), "full with nothing outstanding: {machine:?}");
            }
            Err(OfferError::TooLarge { len, max }) => assert!(len > max, "{len} is not too large"),
        }
    }

    fn fetch(&mut self, machine: &mut dyn Machine, most: usize) {
        let Some(receiver) = machine.as_receiver() else { return };
        for _ in 0..most {
            let Some(delivery) = receiver.poll_delivery() else { break };
            if self.rules.plain {
                let next = delivery.message.0 == self.next;
                // A receiver may skip only messages that it has found missing.
                let later = self.losses && delivery.message.0 > self.next;
                assert!(next || later, "messages come in order, without a gap that was not found");
                assert_eq!(delivery.source, self.known.sender, "messages come from the sender");
            }
            self.next = delivery.message.0 + 1;
            self.delivered += 1;
        }
    }

    /// Drains the machine and checks its output; returns the number of events.
    fn drain(&mut self, machine: &mut dyn Machine, budget: Option<usize>) -> usize {
        let mut buf = std::mem::take(&mut self.buf);
        let mut host = DrainHost { run: self, budget, sent: 0, events: 0, refused: false };
        let next = carillon_core::drain(machine, host.run.now, &mut buf, &mut host);
        let (events, clean) = (host.events, !host.refused);
        self.buf = buf;
        self.clean = clean;
        if let Some(most) = self.rules.deliveries {
            // Messages announced but not fetched are in the receive buffer.
            let kept = self.announced - self.delivered;
            assert!(kept <= most as u64, "{kept} messages are kept, more than {most}: {machine:?}");
        }
        if self.rules.plain && clean {
            let outstanding = self.offered - self.completed;
            // A sender with outstanding messages must wait for a timeout, or it could wait for ever.
            assert!(outstanding == 0 || next.is_some(), "nothing is waited for: {machine:?}");
            if let Some(sender) = machine.as_sender() {
                let finished = self.finishing && outstanding == 0;
                assert_eq!(sender.is_finished(), finished, "finished or not: {sender:?}");
            }
        }
        events
    }
}

/// Host of the machine during one drain.
struct DrainHost<'t, 'r> {
    run: &'t mut Run<'r>,
    budget: Option<usize>,
    sent: usize,
    events: usize,
    /// True if the port was busy.
    refused: bool,
}

impl Host for DrainHost<'_, '_> {
    fn is_ready(&mut self) -> bool {
        let ready = self.budget.is_none_or(|budget| self.sent < budget);
        self.refused |= !ready;
        ready
    }

    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.sent += 1;
        assert!(self.sent <= self.run.rules.transmits, "a drain gives more than {} datagrams", self.sent - 1);
        assert!(!bytes.is_empty(), "a datagram is not empty");
        assert!(transmit.departure.is_none_or(|at| at >= self.run.now), "{transmit:?} departs in the past");
        // An attacker learns nonces and cookies from the machine's own packets.
        self.run.known.overhear(bytes);
        if self.run.recent.len() == MAX_RECENT_DATAGRAMS {
            self.run.recent.pop_front();
        }
        self.run.recent.push_back(std::mem::take(bytes));
    }

    fn event(&mut self, event: &Event) {
        self.events += 1;
        match *event {
            Event::Completed { message, .. } if self.run.rules.plain => {
                assert_eq!(message.0, self.run.completed, "messages are completed once and in order");
                self.run.completed += 1;
                assert!(self.run.completed <= self.run.offered, "{message} was never offered");
            }
            Event::Delivered { .. } => self.run.announced += 1,
            Event::LossFound { .. } => self.run.losses = true,
            Event::MemberLost { member } => {
                assert!(self.run.lost.insert(member), "{member} was given up twice");
            }
            Event::MemberJoined { member } => {
                self.run.lost.remove(&member);
            }
            _ => {}
        }
    }

    fn timers_fired(&self) -> bool {
        self.run.fired_at == Some(self.run.now)
    }
}

/// Draws a step of time from 1 ns to some hours, short in most cases.
fn step(input: &mut Input<'_>) -> Duration {
    let byte = input.byte();
    Duration::from_nanos(u64::from(byte & 7 | 8) << (byte >> 3) << ((byte >> 3) / 3))
}

/// Maximum number of operations, beyond which an input is not worth its time.
const MAX_OPERATIONS: usize = 512;
/// Number of the machine's last datagrams that may be replayed.
const MAX_RECENT_DATAGRAMS: usize = 8;
/// Latest time of a run, so that no timer saturates at the end of time.
const MAX_TIME: Time = Time::from_nanos(1 << 62);
