//! A session of one sender and three receivers, and two helpers if the protocol has any, in virtual time, taken through
//! its phases one after the other, each long enough to be attacked in.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::LazyLock;

use bytes::Bytes;
use carillon_core::{
    AddressBook, Addresses, AssociationId, Dest, Duration, Event, GroupId, Helpers, Host, Machine, NodeId,
    NumberedAddresses, PortId, ProtocolEntry, Received, Receiver as _, Rng, Scope, Seeds, Sender as _, Time,
    Transmit, drain,
};
use carillon_proto::REGISTRY;
use carillon_proto::session::{
    Gather, Helping, LOCAL_NODE, Member, MemberOutcome, MemberRole, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, SenderPhase, SenderSession, SenderSessionConfig,
};
use carillon_testkit::{TREE, heap};
use carillon_wire::session::{Body, Packet};

use super::attacker::{Attacker, has_peers};

pub const GROUP: GroupId = GroupId(0);
pub const SENDER: NodeId = NodeId(0);
/// The receivers; the last one may be the attacker's.
pub const NAMES: [&str; 3] = ["a", "b", "c"];
/// The helpers, after the receivers: the second one turns to the first, and receivers to the second.
pub const HELPERS: [&str; 2] = ["h", "i"];
pub const NODES: usize = 1 + NAMES.len() + HELPERS.len();

/// What is attacked: every protocol of the registry, and one with helpers.
pub fn protocols() -> &'static [&'static ProtocolEntry] {
    static ALL: LazyLock<Vec<&'static ProtocolEntry>> =
        LazyLock::new(|| REGISTRY.iter().copied().chain([&TREE]).collect());
    &ALL
}
/// What the sender has to say.
pub const MESSAGES: u64 = 150;
pub const PAYLOAD: usize = 1000;
/// What the machine of a receiver may hold.
pub const MEMORY: usize = 256 << 10;

/// How far the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is no sender yet.
    Seeking,
    /// The sender gathers; no WELCOME arrives.
    Joining,
    /// Two are welcomed, the third is not heard yet.
    Welcomed,
    /// All are members, and nothing is sent; of peers nobody is ready yet.
    Assembling,
    Running,
    /// Everything is through, and the reports are awaited.
    Ending,
    Over,
}

pub const PHASES: [Phase; 7] = [
    Phase::Seeking,
    Phase::Joining,
    Phase::Welcomed,
    Phase::Assembling,
    Phase::Running,
    Phase::Ending,
    Phase::Over,
];

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub entry: &'static ProtocolEntry,
    pub association: AssociationId,
    pub seed: u64,
    /// The chance that a datagram does not arrive.
    pub loss: f64,
}

/// A datagram on its way.
#[derive(Clone, Debug)]
pub struct SentDatagram {
    pub from: NodeId,
    /// To one, or to all.
    pub to: Option<NodeId>,
    pub bytes: Vec<u8>,
}

/// How it ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Bytes that each machine sent.
    pub sent: [usize; NODES],
    /// The same up to the first welcome, and bytes of the attacker.
    pub before: ([usize; NODES], usize),
    /// The most that each machine held.
    pub peak: [usize; NODES],
    /// Bytes of the attacker.
    pub attack: usize,
    pub time: Duration,
    /// Why the sender gave up, if it did.
    pub failure: Option<String>,
    pub members: Vec<Member>,
    #[allow(dead_code, reason = "printed with the rest")]
    pub receivers: Vec<ReceiverPhase>,
    /// Messages that each receiver got whole and in order.
    pub got: Vec<u64>,
    pub over: bool,
}

impl Outcome {
    /// Whether this receiver did not come to know all the others in time, before anything was sent.
    pub fn missed_assembly(&self, receiver: usize) -> bool {
        let node = NodeId(receiver as u32 + 1);
        let did_not_hear = |outcome: &MemberOutcome| matches!(outcome, MemberOutcome::Lost(why) if why.starts_with("did not hear all"));
        self.members.iter().any(|m| m.node == node && did_not_hear(&m.outcome))
    }

    /// Whether the sender takes this receiver to have everything.
    pub fn is_verified(&self, receiver: usize) -> bool {
        let node = NodeId(receiver as u32 + 1);
        self.members.iter().any(|m| m.node == node && m.outcome == MemberOutcome::Verified)
    }
}

pub struct World {
    /// The sender begins later than the receivers.
    started: bool,
    pub now: Time,
    setting: Setting,
    pub sender: Box<SenderSession>,
    /// The receivers, and then the helpers.
    receivers: Vec<Place>,
    wake: [Option<Time>; NODES],
    sent: [usize; NODES],
    before: ([usize; NODES], usize),
    peak: [usize; NODES],
    attack: usize,
    offered: u64,
    in_flight: BTreeMap<(Time, u64), (SentDatagram, NodeId)>,
    serial: u64,
    loss: Rng,
}

struct Place {
    session: Box<ReceiverSession>,
    got: u64,
    wrong: bool,
    /// When it is to report.
    report: Option<Time>,
}

/// As the book of the UDP driver: this node has an address too.
#[derive(Debug)]
struct Book(NodeId);

impl AddressBook for Book {
    fn of_node(&self, node: NodeId) -> Option<IpAddr> {
        NumberedAddresses.of_node(if node == LOCAL_NODE { self.0 } else { node })
    }

    fn node_at(&self, address: IpAddr) -> Option<NodeId> {
        NumberedAddresses.node_at(address).filter(|&node| node != self.0)
    }

    fn of_group(&self, group: GroupId) -> IpAddr {
        NumberedAddresses.of_group(group)
    }
}

struct Port(Vec<(Dest, Vec<u8>)>);

impl Host for Port {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        // What is on its way is nobody's memory.
        let copy = heap::charge(0, || (transmit.dest.clone(), bytes.clone()));
        heap::charge(0, || self.0.push(copy));
        bytes.clear();
    }

    fn event(&mut self, _event: &Event) {}
}

impl World {
    pub fn new(setting: &Setting) -> World {
        heap::reset();
        let seeds = Seeds::new(setting.seed);
        let helpers = if setting.entry.helpers == Helpers::None { &[] } else { &HELPERS[..] };
        let others: Vec<&str> = NAMES.iter().chain(helpers).copied().collect();
        let sender = heap::charge(1, || {
            let entry = setting.entry;
            let mut config = SenderSessionConfig::new(setting.association, "source", GROUP, entry, 1);
            config.max_payload = PAYLOAD as u32;
            config.set_host_values(64, u64::MAX).expect("the host's values are good");
            config.gather_limit = Some(GATHER_LIMIT);
            config.gather = Gather::Names(NAMES.iter().map(|name| (*name).to_owned()).collect());
            if !helpers.is_empty() {
                config.helping = Helping::Names(helpers.iter().map(|name| (*name).to_owned()).collect());
                config.fanout = Some(1);
            }
            let host = |(index, name): (usize, &&str)| {
                ((*name).to_owned(), NumberedAddresses::node(NodeId(index as u32 + 1)).into())
            };
            config.hosts = others.iter().enumerate().map(host).collect();
            config.addresses = Addresses::new(Book(SENDER));
            config.memory = MEMORY;
            if !has_peers(entry) && entry.helpers == Helpers::None {
                let longest = PAYLOAD + (entry.header_bytes)(&config.config).max;
                config.sizes = vec![longest as u16, (longest - PAYLOAD / 2) as u16];
            }
            Box::new(SenderSession::new(config, seeds.node(SENDER)).expect("a session"))
        });
        let known = if protocols().iter().any(|entry| std::ptr::eq(*entry, setting.entry)) {
            protocols()
        } else {
            // One that stands in for the protocol of its name.
            &*Box::leak(Box::new([setting.entry]))
        };
        let receiver = |(index, name): (usize, &&str)| {
            let node = NodeId(index as u32 + 1);
            let session = heap::charge(index + 2, || {
                let mut config = ReceiverSessionConfig::new(*name, GROUP, known);
                if index >= NAMES.len() {
                    config.part = MemberRole::Helps;
                }
                config.addresses = Addresses::new(Book(node));
                config.memory = MEMORY;
                Box::new(ReceiverSession::new(config, seeds.node(node)))
            });
            Place { session, got: 0, wrong: false, report: None }
        };
        World {
            now: Time::ZERO,
            started: false,
            setting: *setting,
            sender,
            receivers: others.iter().enumerate().map(receiver).collect(),
            wake: [None; NODES],
            sent: [0; NODES],
            before: ([0; NODES], 0),
            peak: [0; NODES],
            attack: 0,
            offered: 0,
            in_flight: BTreeMap::new(),
            serial: 0,
            loss: seeds.stream("strangers.loss"),
        }
    }

    fn nodes(&self) -> usize {
        1 + self.receivers.len()
    }

    pub fn phase(&self) -> Phase {
        let started = self.sender.phase();
        match self.now {
            now if now < SENDER_STARTS => Phase::Seeking,
            now if now < WELCOMES_ARRIVE => Phase::Joining,
            now if now < LAST_JOIN_ARRIVES => Phase::Welcomed,
            now if now < OFFERS_BEGIN && started <= SenderPhase::Running => Phase::Assembling,
            _ if started <= SenderPhase::Running => Phase::Running,
            _ if started == SenderPhase::Closing => Phase::Ending,
            _ => Phase::Over,
        }
    }

    /// Runs to the end, and a second longer.
    pub fn run(mut self, attacker: &mut Attacker) -> Outcome {
        let mut over = None;
        let mut tick = Time::ZERO;
        loop {
            let flight = self.in_flight.first_key_value().map(|((at, _), _)| *at);
            let wake = self.wake.iter().flatten().copied();
            let next = wake.chain(flight).chain([tick]).min().unwrap_or(tick);
            self.now = self.now.max(next);
            if self.now < WELCOMES_ARRIVE {
                self.before = (self.sent, self.attack);
            }
            if self.now > Time::ZERO + LIMIT || over.is_some_and(|over| self.now > over + WATCH_TIME) {
                break;
            }
            for node in 0..self.nodes() {
                if self.wake[node].is_some_and(|at| at <= self.now) {
                    self.with(node, |machine, now| machine.handle_timeout(now));
                    self.serve(node, attacker);
                }
            }
            while let Some(entry) = self.in_flight.first_entry()
                && entry.key().0 <= self.now
            {
                let (shot, to) = entry.remove();
                self.arrive(&shot, to.index());
                self.serve(to.index(), attacker);
            }
            if tick <= self.now {
                tick = self.now + if self.now < PLANNED_EVENTS_END { TICK } else { SLOW_TICK };
                (0..self.nodes()).for_each(|node| self.serve(node, attacker));
                self.send_attacks(attacker);
                if over.is_none() && self.is_over() {
                    over = Some(self.now);
                }
            }
        }
        Outcome {
            sent: self.sent,
            before: self.before,
            peak: self.peak,
            attack: self.attack,
            time: over.unwrap_or(self.now).since(Time::ZERO),
            failure: self.sender.failure().map(str::to_owned),
            members: self.sender.members().to_vec(),
            receivers: self.receivers.iter().map(|place| place.session.phase()).collect(),
            got: self.receivers[..NAMES.len()].iter().map(|place| place.got).collect(),
            over: over.is_some(),
        }
    }

    /// All have ended, but for those that were never let in.
    fn is_over(&self) -> bool {
        let ended = |place: &Place| match place.session.phase() {
            ReceiverPhase::Finished | ReceiverPhase::Failed(_) | ReceiverPhase::Seeking => true,
            ReceiverPhase::Joining => place.session.member_number().is_none(),
            ReceiverPhase::Assembling | ReceiverPhase::Running | ReceiverPhase::Reporting => false,
        };
        self.sender.is_finished() && self.receivers.iter().all(ended)
    }

    fn send_attacks(&mut self, attacker: &mut Attacker) {
        for shot in attacker.shots(self.phase()) {
            self.attack += shot.bytes.len();
            let targets = match shot.to {
                Some(to) => vec![to],
                None => (0..self.nodes() as u32).map(NodeId).filter(|&to| to != shot.from).collect(),
            };
            let nodes = self.nodes();
            for to in targets.into_iter().filter(|to| to.index() < nodes) {
                self.in_flight.insert((self.now + DELAY, self.serial), (shot.clone(), to));
                self.serial += 1;
            }
        }
    }

    /// Calls a machine, at whose cost everything is that it asks for.
    fn with<T>(&mut self, node: usize, call: impl FnOnce(&mut dyn Machine, Time) -> T) -> T {
        let machine: &mut dyn Machine = match node.checked_sub(1) {
            None => &mut *self.sender,
            Some(receiver) => &mut *self.receivers[receiver].session,
        };
        let result = heap::charge(node + 1, || call(machine, self.now));
        self.peak[node] = self.peak[node].max(heap::held(node + 1));
        result
    }

    fn arrive(&mut self, shot: &SentDatagram, to: usize) {
        if to == 0 && self.now < SENDER_STARTS {
            return;
        }
        let destination = if shot.to.is_none() { Dest::group(GROUP) } else { Dest::Node(LOCAL_NODE) };
        let source = shot.from;
        self.with(to, |machine, now| {
            let bytes = Bytes::copy_from_slice(&shot.bytes);
            let (ingress, scope) = (PortId(0), Scope::GLOBAL);
            let datagram = Received { source, destination: &destination, ingress, scope, bytes: &bytes };
            machine.handle_datagram(now, datagram);
        });
    }

    /// Drains a machine and polls its application until nothing moves.
    fn serve(&mut self, node: usize, attacker: &mut Attacker) {
        if node == 0 && self.now < SENDER_STARTS {
            return;
        }
        if node == 0 && !std::mem::replace(&mut self.started, true) {
            self.with(node, |machine, now| machine.start(now));
        }
        loop {
            let mut port = Port(Vec::new());
            self.wake[node] = self.with(node, |machine, now| drain(machine, now, &mut Vec::new(), &mut port));
            for (dest, bytes) in port.0 {
                self.sent[node] += bytes.len();
                self.launch(node, &dest, bytes, attacker);
            }
            let moved = match node {
                0 => self.poll_sender(),
                _ => self.poll_receiver(node - 1),
            };
            if !moved {
                return;
            }
        }
    }

    fn poll_sender(&mut self) -> bool {
        while self.with(0, |machine, _| machine.as_receiver()?.poll_delivery()).is_some() {}
        let due = OFFERS_BEGIN + MESSAGE_INTERVAL * self.offered as u32;
        if self.offered == MESSAGES || self.now < due {
            return false;
        }
        // Members may have said that no longer datagrams come.
        let len = self.sender.max_payload() as usize;
        let message = content(self.setting.association, self.offered, len);
        let session = &mut self.sender;
        let taken = heap::charge(1, || session.offer(self.now, message)).is_ok();
        self.offered += u64::from(taken);
        if self.offered == MESSAGES {
            heap::charge(1, || session.finish(self.now));
        }
        taken
    }

    fn poll_receiver(&mut self, receiver: usize) -> bool {
        let now = self.now;
        let place = &mut self.receivers[receiver];
        if let Some(delivery) = heap::charge(receiver + 2, || place.session.poll_delivery()) {
            // Others that claim to send are not this file's business.
            if delivery.source == SENDER && !place.wrong {
                let len = delivery.payload.len();
                let true_one = || delivery.payload == content(self.setting.association, place.got, len);
                place.wrong = !((PAYLOAD / 2..=PAYLOAD).contains(&len) && true_one());
                place.got += u64::from(!place.wrong);
                if place.wrong || place.got == MESSAGES {
                    place.report = Some(now + REPORT_DELAY);
                }
            }
            return true;
        }
        if place.report.is_some_and(|at| at <= now) {
            place.report = None;
            let verdict = if place.wrong { Err("out of turn".to_owned()) } else { Ok(()) };
            let bytes = place.got * PAYLOAD as u64;
            heap::charge(receiver + 2, || place.session.report(now, bytes, verdict));
            return true;
        }
        false
    }

    fn launch(&mut self, from: usize, dest: &Dest, bytes: Vec<u8>, attacker: &mut Attacker) {
        let to = match dest {
            Dest::Node(node) => Some(*node),
            Dest::Group { .. } => None,
            Dest::Ports { .. } => panic!("nobody here is a relay"),
        };
        let shot = SentDatagram { from: NodeId(from as u32), to, bytes };
        attacker.overhear(&shot);
        let targets = match to {
            Some(to) => vec![to],
            None => (0..self.nodes() as u32).map(NodeId).filter(|&to| to != shot.from).collect(),
        };
        let nodes = self.nodes();
        for to in targets.into_iter().filter(|to| to.index() < nodes) {
            if self.is_kept_back(&shot) || self.loss.chance(self.setting.loss) {
                continue;
            }
            self.in_flight.insert((self.now + DELAY, self.serial), (shot.clone(), to));
            self.serial += 1;
        }
    }

    /// What keeps the session in its phases until their time is over.
    fn is_kept_back(&self, shot: &SentDatagram) -> bool {
        match Packet::parse(&shot.bytes).map(|packet| packet.body) {
            Ok(Body::Welcome { .. } | Body::Refuse { .. }) => self.now < WELCOMES_ARRIVE,
            Ok(Body::Join { .. }) => shot.from.index() == NAMES.len() && self.now < LAST_JOIN_ARRIVES,
            Ok(Body::Ready { .. }) => self.now < OFFERS_BEGIN,
            _ => false,
        }
    }
}

/// A message that says of which session it is, and which one, of so many bytes.
pub fn content(association: AssociationId, number: u64, len: usize) -> Bytes {
    let mut bytes = vec![number as u8 ^ association.0 as u8; len];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

const fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

const SENDER_STARTS: Time = at(1000);
const WELCOMES_ARRIVE: Time = at(2000);
const LAST_JOIN_ARRIVES: Time = at(3000);
const OFFERS_BEGIN: Time = at(3600);
/// Between two messages of the sender.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(7);
/// Between the last message and the report of it.
const REPORT_DELAY: Duration = Duration::from_millis(500);
/// One that is expected and does not come is not waited for longer.
const GATHER_LIMIT: Duration = Duration::from_secs(20);
const DELAY: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_millis(1);
const SLOW_TICK: Duration = Duration::from_millis(100);
/// Until then everything that is planned has happened.
const PLANNED_EVENTS_END: Time = at(8000);
/// It goes on so long after the end.
const WATCH_TIME: Duration = Duration::from_secs(1);
/// No session lasts as long, whatever is done to it.
const LIMIT: Duration = Duration::from_secs(200);
