//! World of one sender, three receivers, and two helpers if the protocol has any, in virtual time. The session passes
//! through its phases, each long enough for an attack.

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
use carillon_session::{
    Gather, HelperSelection, LOCAL_NODE, Member, MemberOutcome, MemberRole, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, SenderPhase, SenderSession, SenderSessionConfig,
};
use carillon_testkit::{TREE, heap};
use carillon_wire::session::{Body, Packet};

use super::attacker::{Attacker, has_peers};

pub const GROUP: GroupId = GroupId(0);
pub const SENDER: NodeId = NodeId(0);
/// Names of the receivers; the last one may be the attacker.
pub const NAMES: [&str; 3] = ["a", "b", "c"];
/// Names of the helpers. The second reports to the first, and receivers report to the second.
pub const HELPERS: [&str; 2] = ["h", "i"];
pub const NODES: usize = 1 + NAMES.len() + HELPERS.len();

/// Protocols under attack: the registry, and one with helpers.
pub fn protocols() -> &'static [&'static ProtocolEntry] {
    static SELECTED_PROTOCOLS: LazyLock<Vec<&'static ProtocolEntry>> =
        LazyLock::new(|| REGISTRY.iter().copied().chain([&TREE]).collect());
    &SELECTED_PROTOCOLS
}
/// Number of messages.
pub const MESSAGES: u64 = 150;
pub const PAYLOAD: usize = 1000;
/// Memory of a receiver's machine, in bytes.
pub const MEMORY: usize = 256 << 10;

/// Phase of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No sender yet.
    Seeking,
    /// The sender gathers receivers; no WELCOME arrives.
    Joining,
    /// Two receivers are members; the third has not joined.
    Welcomed,
    /// Every receiver is a member and nothing was sent; peers are not ready.
    Assembling,
    Running,
    /// Data was delivered completely, and the sender awaits reports.
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

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub entry: &'static ProtocolEntry,
    pub association: AssociationId,
    pub seed: u64,
    /// Loss probability of a datagram.
    pub loss: f64,
}

/// A datagram in flight.
#[derive(Clone, Debug)]
pub struct SentDatagram {
    pub from: NodeId,
    /// Destination node; `None` for the group.
    pub to: Option<NodeId>,
    pub bytes: Vec<u8>,
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Bytes sent by each machine.
    pub sent: [usize; NODES],
    /// Bytes sent by each machine and by the attacker before the first WELCOME.
    pub before: ([usize; NODES], usize),
    /// Peak heap of each machine, in bytes.
    pub peak: [usize; NODES],
    /// Bytes sent by the attacker.
    pub attack: usize,
    pub time: Duration,
    /// Reason for which the sender aborted.
    pub failure: Option<String>,
    pub members: Vec<Member>,
    #[allow(dead_code, reason = "printed with the rest")]
    pub receivers: Vec<ReceiverPhase>,
    /// Number of messages that each receiver got correctly and in order.
    pub got: Vec<u64>,
    pub over: bool,
}

impl Outcome {
    /// Returns true if this receiver did not meet all others before the transfer.
    pub fn missed_assembly(&self, receiver: usize) -> bool {
        let node = NodeId(receiver as u32 + 1);
        let did_not_hear = |outcome: &MemberOutcome| matches!(outcome, MemberOutcome::Lost(why) if why.starts_with("did not hear all"));
        self.members.iter().any(|m| m.node == node && did_not_hear(&m.outcome))
    }

    /// Returns true if the sender counts this receiver as verified.
    pub fn is_verified(&self, receiver: usize) -> bool {
        let node = NodeId(receiver as u32 + 1);
        self.members.iter().any(|m| m.node == node && m.outcome == MemberOutcome::Verified)
    }
}

pub struct World {
    /// True once the sender has started, which is later than the receivers.
    started: bool,
    pub now: Time,
    setting: Setting,
    pub sender: Box<SenderSession>,
    /// The receivers, followed by the helpers.
    receivers: Vec<ReceiverState>,
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

struct ReceiverState {
    session: Box<ReceiverSession>,
    got: u64,
    wrong: bool,
    /// Time of the receiver's report.
    report: Option<Time>,
}

/// Address book like that of the UDP driver, in which the node itself has an address.
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
        // Datagrams in flight are charged to no machine.
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
            config.limits.limit = Some(GATHER_LIMIT);
            config.gather = Gather::Names(NAMES.iter().map(|name| (*name).to_owned()).collect());
            if !helpers.is_empty() {
                config.helpers.wanted =
                    HelperSelection::Names(helpers.iter().map(|name| (*name).to_owned()).collect());
                config.helpers.fanout = Some(1);
            }
            let host = |(index, name): (usize, &&str)| {
                ((*name).to_owned(), NumberedAddresses::node(NodeId(index as u32 + 1)).into())
            };
            config.hosts = others.iter().enumerate().map(host).collect();
            config.network.addresses = Addresses::new(Book(SENDER));
            config.memory = MEMORY;
            if !has_peers(entry) && entry.helpers == Helpers::None {
                let longest = PAYLOAD + (entry.packets.header_bytes)(&config.config).max;
                config.sizes = vec![longest as u16, (longest - PAYLOAD / 2) as u16];
            }
            Box::new(SenderSession::new(config, seeds.node(SENDER)).expect("a session"))
        });
        let known = if protocols().iter().any(|entry| std::ptr::eq(*entry, setting.entry)) {
            protocols()
        } else {
            // A stand-in for the registered protocol of this name.
            &*Box::leak(Box::new([setting.entry]))
        };
        let receiver = |(index, name): (usize, &&str)| {
            let node = NodeId(index as u32 + 1);
            let session = heap::charge(index + 2, || {
                let mut config = ReceiverSessionConfig::new(*name, GROUP, known);
                if index >= NAMES.len() {
                    config.part = MemberRole::Helps;
                }
                config.network.addresses = Addresses::new(Book(node));
                config.memory = MEMORY;
                Box::new(ReceiverSession::new(config, seeds.node(node)))
            });
            ReceiverState { session, got: 0, wrong: false, report: None }
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

    /// Runs until the session is over, and for one second more.
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
                let (datagram, to) = entry.remove();
                self.arrive(&datagram, to.index());
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

    /// Returns true if all sessions have ended, except for receivers that never became members.
    fn is_over(&self) -> bool {
        let ended = |place: &ReceiverState| match place.session.phase() {
            ReceiverPhase::Finished | ReceiverPhase::Failed(_) | ReceiverPhase::Seeking => true,
            ReceiverPhase::Joining => place.session.member_number().is_none(),
            ReceiverPhase::Assembling | ReceiverPhase::Running | ReceiverPhase::Reporting => false,
        };
        self.sender.is_finished() && self.receivers.iter().all(ended)
    }

    fn send_attacks(&mut self, attacker: &mut Attacker) {
        for datagram in attacker.datagrams(self.phase()) {
            self.attack += datagram.bytes.len();
            let targets = match datagram.to {
                Some(to) => vec![to],
                None => (0..self.nodes() as u32).map(NodeId).filter(|&to| to != datagram.from).collect(),
            };
            let nodes = self.nodes();
            for to in targets.into_iter().filter(|to| to.index() < nodes) {
                self.in_flight.insert((self.now + DELAY, self.serial), (datagram.clone(), to));
                self.serial += 1;
            }
        }
    }

    /// Calls a machine and charges its heap use to it.
    fn with<T>(&mut self, node: usize, call: impl FnOnce(&mut dyn Machine, Time) -> T) -> T {
        let machine: &mut dyn Machine = match node.checked_sub(1) {
            None => &mut *self.sender,
            Some(receiver) => &mut *self.receivers[receiver].session,
        };
        let result = heap::charge(node + 1, || call(machine, self.now));
        self.peak[node] = self.peak[node].max(heap::held(node + 1));
        result
    }

    fn arrive(&mut self, datagram: &SentDatagram, to: usize) {
        if to == 0 && self.now < SENDER_STARTS {
            return;
        }
        let destination = if datagram.to.is_none() { Dest::group(GROUP) } else { Dest::Node(LOCAL_NODE) };
        let source = datagram.from;
        self.with(to, |machine, now| {
            let bytes = Bytes::copy_from_slice(&datagram.bytes);
            let (ingress, scope) = (PortId(0), Scope::GLOBAL);
            let datagram = Received { source, destination: &destination, ingress, scope, bytes: &bytes };
            machine.handle_datagram(now, datagram);
        });
    }

    /// Drains a machine and polls its application until nothing happens.
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
        // Members may have reported a smaller path MTU.
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
            // Data of other senders is not checked here.
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
        let datagram = SentDatagram { from: NodeId(from as u32), to, bytes };
        attacker.overhear(&datagram);
        let targets = match to {
            Some(to) => vec![to],
            None => (0..self.nodes() as u32).map(NodeId).filter(|&to| to != datagram.from).collect(),
        };
        let nodes = self.nodes();
        for to in targets.into_iter().filter(|to| to.index() < nodes) {
            if self.is_withheld(&datagram) || self.loss.chance(self.setting.loss) {
                continue;
            }
            self.in_flight.insert((self.now + DELAY, self.serial), (datagram.clone(), to));
            self.serial += 1;
        }
    }

    /// Returns true if a packet is withheld to keep the session in its phase.
    fn is_withheld(&self, datagram: &SentDatagram) -> bool {
        match Packet::parse(&datagram.bytes).map(|packet| packet.body) {
            Ok(Body::Welcome { .. } | Body::Refuse { .. }) => self.now < WELCOMES_ARRIVE,
            Ok(Body::Join { .. }) => datagram.from.index() == NAMES.len() && self.now < LAST_JOIN_ARRIVES,
            Ok(Body::Ready { .. }) => self.now < OFFERS_BEGIN,
            _ => false,
        }
    }
}

/// Content of a message: names the association and number, `len` bytes long.
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
/// Interval between messages of the sender.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(7);
/// Delay between the last message and the report of it.
const REPORT_DELAY: Duration = Duration::from_millis(500);
/// Maximum wait for receivers that do not join.
const GATHER_LIMIT: Duration = Duration::from_secs(20);
const DELAY: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_millis(1);
const SLOW_TICK: Duration = Duration::from_millis(100);
/// End of the planned events.
const PLANNED_EVENTS_END: Time = at(8000);
/// Time that a run continues after the end of the session.
const WATCH_TIME: Duration = Duration::from_secs(1);
/// Maximum duration of a session under attack.
const LIMIT: Duration = Duration::from_secs(200);
