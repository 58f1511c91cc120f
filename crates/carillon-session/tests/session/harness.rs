//! A group in memory: virtual time, a fixed delay, scripted and random loss, and the simplest
//! applications: the sender offers numbered messages, a receiver reports after the last one.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use carillon_core::{
    AssociationId, Dest, Duration, Event, GroupId, Machine, NodeId, OfferError, PortId, ProtocolEntry,
    Received, Receiver as _, Rng, Scope, Seeds, Sender as _, Time,
};
use carillon_session::{
    Gather, LOCAL_NODE, MemberOutcome, MemberRole, PeerMember, RECEIVER_STATES, ReceiverPhase,
    ReceiverSession, ReceiverSessionConfig, SENDER_STATES, SenderPhase, SenderSession, SenderSessionConfig,
};
use carillon_testkit::{StateWatch, TREE};
use carillon_wire::session::{Body, Packet, Terms};

use super::protocol::REPEAT;
use super::toy::TOY;

pub use super::outbox::*;

pub const GROUP: GroupId = GroupId(0);

pub const SENDER: NodeId = NodeId(0);

pub const ASSOCIATION: AssociationId = AssociationId(7);

pub const DELAY: Duration = Duration::from_millis(1);

/// The most by which a copy of a datagram comes later.
const LATEST: Duration = Duration::from_millis(300);

pub static PROTOCOLS: &[&ProtocolEntry] = &[&REPEAT, &TOY, &TREE];

/// Terms that a sender with this invitation states to each receiver by unicast.
pub fn terms_of(invitation: &[u8]) -> Terms {
    match Packet::parse(invitation).map(|packet| packet.body) {
        Ok(Body::Invite(invite)) => invite.terms(),
        other => panic!("{other:?} is no invitation"),
    }
}

pub fn ms(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

pub fn sender_config(gather: Gather) -> SenderSessionConfig {
    SenderSessionConfig { gather, ..SenderSessionConfig::new(ASSOCIATION, "source", GROUP, &REPEAT, 100) }
}

pub fn sender(gather: Gather) -> SenderSession {
    sender_with(sender_config(gather))
}

pub fn sender_with(config: SenderSessionConfig) -> SenderSession {
    let mut session = SenderSession::new(config, Seeds::new(1)).expect("the settings are good");
    session.start(Time::ZERO);
    session
}

pub fn receiver_config(name: &str) -> ReceiverSessionConfig {
    ReceiverSessionConfig::new(name, GROUP, PROTOCOLS)
}

pub fn receiver(name: &str) -> ReceiverSession {
    ReceiverSession::new(receiver_config(name), Seeds::new(1).part(name))
}

/// Behaviour of a receiver's application after the last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Verify,
    Fail,
    /// Stays alive and never finishes.
    Nothing,
}

pub struct Peer {
    pub session: ReceiverSession,
    pub then: Then,
    pub got: u64,
    /// Messages it still has to offer, if it offers any.
    pub offers: u64,
    pub finished: bool,
    /// Delivered messages in order.
    pub order: Vec<String>,
    /// Senders with their last message delivered.
    whole: BTreeSet<String>,
    pub dead: bool,
    pub events: Vec<Event>,
}

impl Peer {
    /// Offers its own messages, if it has any.
    fn offer(&mut self, now: Time) -> bool {
        let name = self.session.peers().iter().find(|peer| peer.node == LOCAL_NODE);
        let Some(name) = name.filter(|peer| peer.part.offers()).map(|peer| peer.name.clone()) else {
            return false;
        };
        if self.offers > 0 && self.session.offer(now, content(&name, self.offers)).is_ok() {
            self.offers -= 1;
            return true;
        }
        if self.offers == 0 && !self.finished {
            self.finished = true;
            self.session.finish(now);
            return true;
        }
        false
    }

    /// Reports when this application has offered everything, or has everything from all members that are not lost.
    fn judge(&mut self, now: Time) -> bool {
        let own = self.session.peers().iter().find(|peer| peer.node == LOCAL_NODE);
        let Some(own) = own.filter(|_| self.session.phase() == ReceiverPhase::Running) else { return false };
        let got = |peer: &PeerMember| self.whole.contains(&text(&content(&peer.name, 1)));
        let missing = |peer: &&PeerMember| peer.part.offers() && peer.lost.is_none() && !got(peer);
        let done = match own.part.offers() {
            true => self.session.is_finished(),
            false => self.session.peers().iter().filter(missing).count() == 0,
        };
        match self.then {
            Then::Verify if done => self.session.report(now, self.got * 10, Ok(())),
            Then::Fail if done => self.session.report(now, self.got * 10, Err("disk\nfull".to_owned())),
            _ => return false,
        }
        true
    }
}

/// Ten bytes that name the message's sender, and the number of messages that follow.
fn content(name: &str, left: u64) -> Bytes {
    format!("{name:_<6.6}{left:04}").into()
}

/// End of the last message.
const LAST: &str = "0001";

fn text(payload: &Bytes) -> String {
    String::from_utf8_lossy(payload).into_owned()
}

/// Observer of the states of a node: node 0 is the sender.
fn states_of(node: usize) -> StateWatch {
    match node {
        0 => StateWatch::new("sender", SENDER_STATES),
        _ => StateWatch::new("receiver", RECEIVER_STATES),
    }
}

/// Says whether a datagram from one node to another is lost.
pub type Rule = Box<dyn FnMut(Time, NodeId, NodeId, &[u8]) -> bool>;

/// Replacement of a datagram by another one, or by nothing.
pub type Alter = Box<dyn FnMut(Time, NodeId, &[u8]) -> Option<Vec<u8>>>;

/// Last link to a node: carries one datagram in each span and has a bounded queue.
pub struct Port {
    pub each: Duration,
    pub room: u32,
    /// Time at which the queue is empty.
    pub free: Time,
}

impl Port {
    /// Waiting time of a datagram that arrives now; `None` if the queue is full.
    fn pass(&mut self, now: Time) -> Option<Duration> {
        let waits = self.free.max(now).since(now);
        if waits > self.each * self.room {
            return None;
        }
        self.free = now + waits + self.each;
        Some(waits + self.each)
    }
}

pub struct World {
    pub now: Time,
    pub sender: SenderSession,
    pub sender_dead: bool,
    pub sender_events: Vec<Event>,
    /// Messages delivered at the sender, if it is a peer.
    pub sender_order: Vec<String>,
    /// Number of remaining messages at which the sender's application pauses, and the end of the pause.
    pub pause: Option<(u64, Time)>,
    pub peers: Vec<Peer>,
    /// Messages still to be offered; then the sender finishes.
    pub messages: u64,
    pub total: u64,
    pub lose: Rule,
    pub alter: Option<Alter>,
    /// Time that a datagram takes from one node to another.
    pub way: fn(NodeId, NodeId) -> Duration,
    /// The nodes behind a port; to others no datagram waits.
    pub ports: BTreeMap<NodeId, Port>,
    pub loss: f64,
    /// Share of the arriving datagrams that arrive once more later.
    pub repeats: f64,
    /// Session packets as they were sent.
    pub log: Vec<String>,
    /// Observers of the machines' states, by node, and true for a session that was over.
    states: Vec<(StateWatch, bool)>,
    rng: Rng,
    flying: BTreeMap<(Time, u64), (NodeId, NodeId, Dest, Bytes)>,
    serial: u64,
}

impl World {
    pub fn new(sender: SenderSession, messages: u64) -> World {
        let mut world = World {
            now: Time::ZERO,
            sender,
            sender_dead: false,
            sender_events: Vec::new(),
            sender_order: Vec::new(),
            pause: None,
            peers: Vec::new(),
            messages,
            total: messages,
            lose: Box::new(|_, _, _, _| false),
            alter: None,
            way: |_, _| DELAY,
            ports: BTreeMap::new(),
            loss: 0.0,
            repeats: 0.0,
            log: Vec::new(),
            states: vec![(states_of(0), false)],
            rng: Seeds::new(3).stream("loss"),
            flying: BTreeMap::new(),
            serial: 0,
        };
        // A test may call the sender itself before the world runs.
        world.observe_states(0);
        world
    }

    /// Adds a receiver; its node is one above its index.
    pub fn join(&mut self, session: ReceiverSession) -> usize {
        self.states.push((states_of(self.states.len()), false));
        self.peers.push(Peer {
            session,
            then: Then::Verify,
            got: 0,
            offers: 0,
            finished: false,
            order: Vec::new(),
            whole: BTreeSet::new(),
            dead: false,
            events: Vec::new(),
        });
        self.peers.len() - 1
    }

    /// Adds a member that offers this number of messages itself.
    pub fn join_offering(&mut self, name: &str, messages: u64) -> usize {
        let config = ReceiverSessionConfig { part: MemberRole::Offers, ..receiver_config(name) };
        let peer = self.join(ReceiverSession::new(config, Seeds::new(1).part(name)));
        self.peers[peer].offers = messages;
        peer
    }

    pub fn phase(&self, peer: usize) -> ReceiverPhase {
        self.peers[peer].session.phase()
    }

    pub fn seed(&mut self, seed: u64, loss: f64) {
        (self.rng, self.loss) = (Seeds::new(seed).stream("loss"), loss);
    }

    /// Runs until `end`.
    pub fn run(&mut self, end: Time) {
        self.run_until(end, |_| false);
    }

    /// Runs until `end` or until `done`.
    pub fn run_until(&mut self, end: Time, mut done: impl FnMut(&World) -> bool) {
        self.run_unless(end, &mut done);
    }

    /// Runs the world; the closure is built once, not for every `done`.
    fn run_unless(&mut self, end: Time, done: &mut dyn FnMut(&World) -> bool) {
        self.settle();
        while !done(self) {
            let flight = self.flying.first_key_value().map(|((at, _), _)| *at);
            let timers = (0..=self.peers.len()).filter_map(|node| self.machine(node)?.poll_timeout());
            let Some(next) = timers.chain(flight).min().filter(|at| *at <= end) else {
                self.now = self.now.max(end);
                break;
            };
            self.now = self.now.max(next);
            let now = self.now;
            self.fire();
            while let Some(entry) = self.flying.first_entry()
                && entry.key().0 <= now
            {
                let (from, to, destination, bytes) = entry.remove();
                let datagram = Received {
                    source: from,
                    destination: &destination,
                    ingress: PortId(0),
                    scope: Scope::GLOBAL,
                    bytes: &bytes,
                };
                if let Some(machine) = self.machine(to.index()) {
                    machine.handle_datagram(now, datagram);
                }
                self.settle_one(to.index());
            }
        }
    }

    /// Halts all nodes for this span; timers run first afterwards.
    pub fn halt(&mut self, span: Duration) {
        self.now += span;
        self.fire();
    }

    /// Fires the timers that are due.
    fn fire(&mut self) {
        let now = self.now;
        for node in 0..=self.peers.len() {
            if let Some(machine) = self.machine(node)
                && machine.poll_timeout().is_some_and(|at| at <= now)
            {
                machine.handle_timeout(now);
            }
        }
        self.settle();
    }

    fn machine(&mut self, node: usize) -> Option<&mut dyn Machine> {
        match node.checked_sub(1) {
            None => (!self.sender_dead).then_some(&mut self.sender),
            Some(peer) => {
                let peer = self.peers.get_mut(peer)?;
                (!peer.dead).then_some(&mut peer.session)
            }
        }
    }

    /// Drains all machines and polls their applications until nothing moves.
    pub fn settle(&mut self) {
        (0..=self.peers.len()).for_each(|node| self.settle_one(node));
    }

    /// Checks that the machine of a node keeps to its declared states.
    fn observe_states(&mut self, node: usize) {
        let now = self.now;
        let peer = node.checked_sub(1).and_then(|peer| self.peers.get(peer));
        let (machine, is_new, is_over): (&dyn Machine, bool, bool) = match (node, peer) {
            (0, _) => {
                let is_new = self.sender.phase() == SenderPhase::Gathering;
                (&self.sender, is_new, self.sender.is_finished())
            }
            (_, Some(peer)) => {
                let phase = peer.session.phase();
                let is_over = matches!(phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_));
                (&peer.session, phase == ReceiverPhase::Seeking, is_over)
            }
            (_, None) => return,
        };
        let (watch, was_over) = &mut self.states[node];
        // A test may put a new session in the place of one that is over.
        if is_new && *was_over {
            *watch = states_of(node);
        }
        *was_over = is_over;
        watch.observe_states(now, machine);
    }

    fn settle_one(&mut self, node: usize) {
        let now = self.now;
        self.observe_states(node);
        while let Some(machine) = self.machine(node) {
            let outbox = Outbox::drain(machine, now);
            self.observe_states(node);
            self.launch(NodeId(node as u32), &outbox);
            match node.checked_sub(1) {
                None => self.sender_events.extend(outbox.events),
                Some(peer) => self.peers[peer].events.extend(outbox.events),
            }
            let moved = match node.checked_sub(1) {
                None => self.poll_sender(),
                Some(peer) => self.poll_peer(peer),
            };
            if !moved {
                break;
            }
        }
    }

    fn poll_sender(&mut self) -> bool {
        while let Some(delivery) = self.sender.as_receiver().and_then(|receiver| receiver.poll_delivery()) {
            self.sender_order.push(text(&delivery.payload));
        }
        let paused = self.pause.is_some_and(|(left, until)| self.messages == left && self.now < until);
        if self.messages == 0 || paused {
            return false;
        }
        match self.sender.offer(self.now, content("source", self.messages)) {
            Ok(_) => {
                self.messages -= 1;
                if self.messages == 0 {
                    self.sender.finish(self.now);
                }
                true
            }
            Err(OfferError::Full | OfferError::Finished) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn poll_peer(&mut self, peer: usize) -> bool {
        let (now, total) = (self.now, self.total);
        let peer = &mut self.peers[peer];
        let offered = peer.offer(now);
        let Some(delivery) = peer.session.poll_delivery() else { return peer.judge(now) || offered };
        let text = text(&delivery.payload);
        if text.ends_with(LAST) {
            peer.whole.insert(text.clone());
        }
        peer.order.push(text);
        peer.got += 1;
        if peer.then != Then::Nothing {
            peer.session.progress(peer.got * 10);
        }
        if peer.got == total && peer.session.peers().is_empty() {
            match peer.then {
                Then::Verify => peer.session.report(now, total * 10, Ok(())),
                Then::Fail => peer.session.report(now, total * 10, Err("disk\nfull".to_owned())),
                Then::Nothing => {}
            }
        }
        true
    }

    /// A datagram from anyone arrives now.
    pub fn inject(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) {
        let (destination, bytes) = (natural(bytes), Bytes::copy_from_slice(bytes));
        self.flying.insert((self.now, self.serial), (from, to, destination, bytes));
        self.serial += 1;
    }

    fn launch(&mut self, from: NodeId, outbox: &Outbox) {
        for (dest, bytes) in &outbox.sent {
            let altered = self.alter.as_mut().and_then(|alter| alter(self.now, from, bytes));
            let bytes = altered.as_ref().unwrap_or(bytes);
            if let Ok(packet) = Packet::parse(bytes) {
                self.log.push(format!("{} {from} {packet}", self.now.as_nanos() / 1_000_000));
            }
            if matches!(bytes[..], [0xCA, 1 | 2, 0, ..]) {
                // For releases that are not here: it has no part in what is drawn for others.
                continue;
            }
            let receivers: Vec<NodeId> = match dest {
                Dest::Node(node) => vec![*node],
                Dest::Group { .. } => {
                    (0..=self.peers.len() as u32).map(NodeId).filter(|node| *node != from).collect()
                }
                Dest::Ports { .. } => panic!("nobody here is a relay"),
            };
            for to in receivers {
                if (self.lose)(self.now, from, to, bytes) || self.rng.chance(self.loss) {
                    continue;
                }
                let waits = self.ports.get_mut(&to).map_or(Some(Duration::ZERO), |port| port.pass(self.now));
                let Some(waits) = waits else { continue };
                let bytes = Bytes::copy_from_slice(bytes);
                let again = (self.repeats > 0.0 && self.rng.chance(self.repeats)).then(|| {
                    (self.way)(from, to) + Duration::from_nanos(self.rng.below(LATEST.as_nanos() as u64))
                });
                for delay in std::iter::once((self.way)(from, to)).chain(again) {
                    let datagram = (from, to, dest.clone(), bytes.clone());
                    self.flying.insert((self.now + waits + delay, self.serial), datagram);
                    self.serial += 1;
                }
            }
        }
    }
}

/// Lets one protocol datagram of this receiver through in each span.
pub fn answers_each(world: &mut World, node: u32, span: Duration) {
    let mut last = ms(500);
    world.lose = Box::new(move |now, source, _, bytes| {
        if source.0 != node || now < ms(500) || super::kind(bytes).is_some() {
            return false;
        }
        let lost = now.since(last) < span;
        last = if lost { last } else { now };
        lost
    });
}

/// Reason for which this member was expelled, if it was.
pub fn lost(world: &World, name: &str) -> Option<String> {
    super::outcomes(world).into_iter().find(|(who, _)| *who == name).and_then(|(_, outcome)| match outcome {
        MemberOutcome::Lost(reason) => Some(reason.clone()),
        _ => None,
    })
}
