//! A switch with sessions at its ports: datagrams of Ethernet's size, loss at every port in both
//! directions, a delay, and the interface's rate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;

use bytes::Bytes;
use carillon_core::{
    AddressBook, Addresses, AssociationId, BitRate, Dest, Duration, Event, Forgery, GroupId, Host, Machine,
    NodeId, NumberedAddresses, OfferError, PortId, ProtocolEntry, Received, Receiver as _, Rng, Scope, Seeds,
    Sender as _, Time, Transmit, drain,
};
use carillon_proto::session::{
    Gather, Helping, LOCAL_NODE, MemberOutcome, MemberRole, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, SenderPhase, SenderSession, SenderSessionConfig,
};

/// What is delivered, and through what.
#[derive(Clone, Debug)]
pub struct Cell {
    pub protocol: &'static ProtocolEntry,
    /// The chance to lose a datagram at each of the two ports it passes.
    pub loss: f64,
    pub receivers: usize,
    /// Each way.
    pub delay: Duration,
    pub bytes: usize,
    pub seed: u64,
    /// Settings on top of those for delivery.
    pub settings: Vec<(String, String)>,
    /// The sender's own rate, in bits per second; otherwise the interface's.
    pub rate: Option<u64>,
    /// What befalls the last receiver, or who else it says.
    pub fault: Fault,
    /// The fault comes when the last receiver has got a quarter of the messages, and not when a quarter was offered.
    pub midway: bool,
    /// Helpers, in a chain; the receivers turn to the last of them.
    pub helpers: usize,
}

/// What befalls the last receiver, from a quarter of the messages on, if nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// It is gone.
    Kill,
    /// It stands still for so long, once.
    Freeze(Duration),
    /// It stands still for so long, again and again.
    Trickle(Duration),
    /// It leaves.
    Leave,
    /// It leaves when it has everything and has said so.
    LeaveVerified,
    /// It lies, from the beginning on.
    Forgery(Forgery),
    /// This helper is gone, from 0.
    KillHelper(usize),
    /// This helper is gone, and the last receiver with it.
    KillBoth(usize),
    /// One more receiver hears the group only from then on.
    Late,
}

/// How it ended.
#[derive(Debug)]
pub struct Outcome {
    /// Members that have reported everything verified.
    pub verified: usize,
    /// From the first message to the end of the session.
    pub time: Duration,
    /// Bytes that the sender handed to its interface, headers included.
    pub sent: u64,
    /// The same for all others together.
    pub returned: u64,
    /// Messages repaired.
    pub repairs: u64,
    /// Those that the sender's report has for each member.
    pub rows: Vec<u64>,
    /// The most that one receiver said it lacked, and other words on a failure.
    #[allow(dead_code, reason = "printed with the rest")]
    pub notes: Vec<String>,
    /// Whether the session came to an end.
    pub over: bool,
    pub messages: u64,
    /// When the fault came, and from then on the time until the last member was given up.
    pub expelled_after: Option<Duration>,
    /// The end, from the fault on.
    pub ended: Option<Duration>,
    /// The sender's end, from the fault on.
    pub closed: Option<Duration>,
    /// From the fault on, until the last of the other receivers had everything.
    pub others: Option<Duration>,
    /// What became of the last receiver, and how long it was waited for.
    pub last: Option<(MemberOutcome, Duration)>,
    /// Messages that each receiver has got, and whether the sender takes it to have everything.
    pub got: Vec<(u64, bool)>,
    /// Who was not let in, and why.
    pub unserved: Vec<String>,
}

/// The largest datagram of a frame of 1500 bytes, and what is around it on the wire.
const DATAGRAM: u32 = 1472;
const FRAME_OVERHEAD: u64 = 28 + 18;
/// Datagrams that a node standing still can hold.
const MAX_HELD_DATAGRAMS: usize = 4096;
/// How long one that trickles is awake.
const AWAKE_TIME: Duration = Duration::from_millis(5);
/// A gigabit in a second.
const NANOS_PER_BYTE: u64 = 8;
/// What `carillon send` lets be under way: two megabytes.
const WINDOW_DATAGRAMS: u64 = (2 << 20) / DATAGRAM as u64;
const GROUP: GroupId = GroupId(0);
const SENDER: NodeId = NodeId(0);

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

/// What a node's port does with what comes out of its machine.
struct Port<'a> {
    now: Time,
    nanos_per_byte: u64,
    expelled_at: &'a mut Option<Time>,
    free: &'a mut Time,
    out: Vec<(Time, Dest, Bytes)>,
    repairs: &'a mut u64,
    lost: &'a mut Vec<String>,
    timers_fired: bool,
}

impl Host for Port<'_> {
    fn timers_fired(&self) -> bool {
        self.timers_fired
    }

    fn is_ready(&mut self) -> bool {
        *self.free <= self.now
    }

    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        assert!(bytes.len() <= DATAGRAM as usize, "a datagram of {} bytes fits no frame", bytes.len());
        let at = transmit.departure.map_or(self.now, |at| at.max(self.now));
        let nanos = (bytes.len() as u64 + FRAME_OVERHEAD) * self.nanos_per_byte;
        *self.free = self.now + Duration::from_nanos(nanos);
        self.out.push((at, transmit.dest, Bytes::from(std::mem::take(bytes))));
    }

    fn event(&mut self, event: &Event) {
        if let Event::MemberLost { .. } = event {
            *self.expelled_at = Some(self.now);
        }
        match event {
            Event::RepairSent { .. } | Event::Forwarded { repair: true, .. } => *self.repairs += 1,
            Event::MemberLost { .. } | Event::LossFinal { .. } | Event::Note(_) if self.lost.len() < 20 => {
                self.lost.push(format!("{} {event:?}", self.now));
            }
            _ => {}
        }
    }
}

/// A node.
struct Node {
    machine: Machinery,
    free: Time,
    loss: Rng,
    /// What it got, for a receiver.
    got: u64,
    reported: Option<Time>,
    left: bool,
    /// When it is next to be looked at.
    wake: Time,
}

enum Machinery {
    Sender(Box<SenderSession>),
    Receiver(Box<ReceiverSession>),
}

impl Machinery {
    fn machine(&mut self) -> &mut dyn Machine {
        match self {
            Machinery::Sender(session) => &mut **session,
            Machinery::Receiver(session) => &mut **session,
        }
    }
}

/// What happens next: a datagram arrives, or a node wakes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Arrive { to: usize, from: NodeId, group: bool, bytes: Bytes },
    Wake(usize),
}

pub struct World {
    cell: Cell,
    now: Time,
    nodes: Vec<Node>,
    queue: BinaryHeap<Reverse<(Time, u64, Step)>>,
    serial: u64,
    messages: u64,
    offered: u64,
    payload: usize,
    first_offer_at: Option<Time>,
    sent: u64,
    returned: u64,
    repairs: u64,
    notes: Vec<String>,
    /// When the fault came.
    fault_at: Option<Time>,
    /// Until when the last receiver stands still, and what arrives there meanwhile.
    frozen: Option<Time>,
    /// When a member was last given up.
    expelled_at: Option<Time>,
    held: usize,
    /// When the sender was done.
    closed: Option<Time>,
}

impl World {
    /// A session of this cell, as `carillon send` and `recv` set one up.
    pub fn new(cell: &Cell) -> World {
        let seeds = Seeds::new(cell.seed);
        let mut config = SenderSessionConfig::new(AssociationId(7), "source", GROUP, cell.protocol, DATAGRAM);
        config.set_host_values(WINDOW_DATAGRAMS, u64::MAX).expect("the host's values are good");
        for (key, value) in &cell.settings {
            config.config.set(cell.protocol.parameters, key, value).expect("a setting");
        }
        config.gather = Gather::Count(cell.receivers);
        if cell.helpers > 0 {
            (config.helping, config.fanout) = (Helping::Count(cell.helpers), Some(1));
        }
        config.bit_rate = cell.rate.and_then(BitRate::new).unwrap_or(config.bit_rate);
        config.addresses = Addresses::new(Book(SENDER));
        config.max_payload = config.payload_in(DATAGRAM as usize);
        let payload = config.max_payload as usize;
        let sender = SenderSession::new(config, seeds.node(SENDER)).expect("a session");
        let mut nodes = vec![Machinery::Sender(Box::new(sender))];
        let protocols: &'static [_] = vec![cell.protocol].leak();
        let late = usize::from(cell.fault == Fault::Late);
        for index in 1..=cell.receivers + cell.helpers + late {
            let node = NodeId(index as u32);
            let mut config = ReceiverSessionConfig::new(format!("r{index}"), GROUP, protocols);
            if index > cell.receivers && index <= cell.receivers + cell.helpers {
                config.part = MemberRole::Helps;
            }
            config.addresses = Addresses::new(Book(node));
            nodes.push(Machinery::Receiver(Box::new(ReceiverSession::new(config, seeds.node(node)))));
        }
        nodes.iter_mut().for_each(|node| node.machine().start(Time::ZERO));
        let node = |(index, machine)| Node {
            machine,
            free: Time::ZERO,
            loss: seeds.node(NodeId(index as u32)).stream("delivery.loss"),
            got: 0,
            reported: None,
            left: false,
            wake: Time::from_nanos(u64::MAX),
        };
        World {
            cell: cell.clone(),
            now: Time::ZERO,
            nodes: nodes.into_iter().enumerate().map(node).collect(),
            queue: BinaryHeap::new(),
            serial: 0,
            messages: cell.bytes.div_ceil(payload) as u64,
            offered: 0,
            payload,
            first_offer_at: None,
            sent: 0,
            returned: 0,
            repairs: 0,
            notes: Vec::new(),
            fault_at: None,
            frozen: None,
            expelled_at: None,
            held: 0,
            closed: None,
        }
    }

    /// Whom the fault befalls.
    fn victim(&self) -> usize {
        match self.cell.fault {
            Fault::KillHelper(number) | Fault::KillBoth(number) => self.cell.receivers + 1 + number,
            Fault::Late => self.cell.receivers + self.cell.helpers + 1,
            _ => self.cell.receivers,
        }
    }

    fn is_victim(&self, node: usize) -> bool {
        let both = matches!(self.cell.fault, Fault::KillBoth(_)) && node == self.cell.receivers;
        node == self.victim() || both
    }

    /// Whether this node is gone, or stands still, which is then to be tried again later.
    fn is_down(&mut self, node: usize, step: &Step) -> bool {
        if !self.is_victim(node) {
            return false;
        }
        if self.cell.fault == Fault::Late {
            return self.fault_at.is_none();
        }
        let Some(fault_at) = self.fault_at else { return false };
        let until = match self.cell.fault {
            Fault::None | Fault::Leave | Fault::LeaveVerified | Fault::Forgery(_) | Fault::Late => {
                return false;
            }
            Fault::Kill | Fault::KillHelper(_) | Fault::KillBoth(_) => return true,
            Fault::Freeze(span) => fault_at + span,
            Fault::Trickle(span) => {
                // It wakes for a moment now and then.
                let at = self.now.since(fault_at).as_nanos() % (span + AWAKE_TIME).as_nanos();
                self.now + span.saturating_sub(Duration::from_nanos(at as u64))
            }
        };
        if self.now >= until {
            return false;
        }
        // As by a socket's buffer.
        if matches!(step, Step::Wake(_)) || self.frozen != Some(until) || self.held < MAX_HELD_DATAGRAMS {
            self.held = if self.frozen == Some(until) { self.held + 1 } else { 0 };
            self.frozen = Some(until);
            let again = match step {
                Step::Wake(node) => Step::Wake(*node),
                Step::Arrive { to, from, group, bytes } => {
                    Step::Arrive { to: *to, from: *from, group: *group, bytes: bytes.clone() }
                }
            };
            self.push(until, again);
        }
        true
    }

    /// Runs until the session is over, or this time.
    pub fn run(mut self, limit: Duration) -> Outcome {
        for node in 0..self.nodes.len() {
            self.serve(node, false);
        }
        while !self.is_over()
            && let Some(Reverse((at, _, step))) = self.queue.pop()
        {
            self.now = at;
            if self.now > Time::ZERO + limit {
                break;
            }
            let (Step::Wake(node) | Step::Arrive { to: node, .. }) = step;
            if self.is_down(node, &step) {
                continue;
            }
            match step {
                Step::Wake(node) => {
                    if self.nodes[node].wake > at {
                        continue;
                    }
                    self.nodes[node].wake = Time::from_nanos(u64::MAX);
                    self.nodes[node].machine.machine().handle_timeout(at);
                    self.serve(node, true);
                }
                Step::Arrive { to, from, group, bytes } => {
                    let destination = if group { Dest::group(GROUP) } else { Dest::Node(LOCAL_NODE) };
                    let datagram = Received {
                        source: from,
                        destination: &destination,
                        ingress: PortId(0),
                        scope: Scope::GLOBAL,
                        bytes: &bytes,
                    };
                    self.nodes[to].machine.machine().handle_datagram(at, datagram);
                    self.serve(to, false);
                }
            }
        }
        self.outcome()
    }

    fn outcome(mut self) -> Outcome {
        let over = self.is_over();
        let Machinery::Sender(session) = &self.nodes[0].machine else { panic!("the first is the sender") };
        let last = session.members().iter().find(|member| member.node.index() == self.cell.receivers);
        let last = last.map(|member| (member.outcome.clone(), member.waited));
        let since = |at: Option<Time>| Some(at?.since(self.fault_at?));
        let (expelled_after, ended) = (since(self.expelled_at), since(Some(self.now)));
        let closed = since(self.closed);
        // One that has nothing to report makes the whole `None`.
        let others = &self.nodes[1..self.cell.receivers];
        let all = others.iter().map(|node| node.reported).collect::<Option<Vec<Time>>>();
        let others = since(all.and_then(|all| all.into_iter().max()));
        let verified =
            session.members().iter().filter(|member| member.outcome == MemberOutcome::Verified).count();
        for member in session.members() {
            if member.outcome != MemberOutcome::Verified {
                self.notes.push(format!("{}: {:?}", member.name, member.outcome));
            }
        }
        if let Some(failure) = session.failure() {
            self.notes.push(format!("session: {failure}"));
        }
        if verified < self.cell.receivers {
            for node in &self.nodes[1..=self.cell.receivers] {
                let Machinery::Receiver(session) = &node.machine else { continue };
                self.notes.push(format!("got {} of {}, {:?}", node.got, self.messages, session.phase()));
            }
        }
        let verified_at = |index| {
            let member = session.members().iter().find(|member| member.node.index() == index);
            member.is_some_and(|member| member.outcome == MemberOutcome::Verified)
        };
        let got =
            (1..=self.cell.receivers).map(|index| (self.nodes[index].got, verified_at(index))).collect();
        let unserved = session.unserved().iter().map(|one| format!("{} {}", one.name, one.reason)).collect();
        let rows = session.members().iter().map(|member| member.repairs).collect();
        Outcome {
            verified,
            rows,
            time: self.now.since(self.first_offer_at.unwrap_or(self.now)),
            sent: self.sent,
            returned: self.returned,
            repairs: self.repairs,
            notes: self.notes,
            over,
            messages: self.messages,
            expelled_after,
            ended,
            closed,
            others,
            last,
            got,
            unserved,
        }
    }

    fn is_over(&self) -> bool {
        let killed = matches!(self.cell.fault, Fault::Kill | Fault::KillHelper(_) | Fault::KillBoth(_));
        let is_gone = |index: usize| killed && self.fault_at.is_some() && self.is_victim(index);
        let mut there = self.nodes.iter().enumerate().filter(|(index, _)| !is_gone(*index));
        there.all(|(_, node)| match &node.machine {
            Machinery::Sender(session) => {
                matches!(session.phase(), SenderPhase::Finished | SenderPhase::Aborted)
            }
            Machinery::Receiver(session) => {
                matches!(session.phase(), ReceiverPhase::Finished | ReceiverPhase::Failed(_))
            }
        })
    }

    /// Drains a machine and polls its application until nothing moves. After its timers have fired none of them may
    /// be due, busy as its port may be: it would be woken without end.
    fn serve(&mut self, node: usize, mut timers_fired: bool) {
        loop {
            let (now, place) = (self.now, &mut self.nodes[node]);
            let nanos_per_byte = match self.cell.rate {
                Some(rate) if node == 0 => 8_000_000_000 / rate,
                _ => NANOS_PER_BYTE,
            };
            let mut port = Port {
                now,
                nanos_per_byte,
                expelled_at: &mut self.expelled_at,
                free: &mut place.free,
                out: Vec::new(),
                repairs: &mut self.repairs,
                lost: &mut self.notes,
                timers_fired: std::mem::take(&mut timers_fired),
            };
            let timeout = drain(place.machine.machine(), now, &mut Vec::new(), &mut port);
            let mut out = port.out;
            if let (Fault::Forgery(lie), Some(forge_feedback)) =
                (self.cell.fault, self.cell.protocol.forge_feedback)
                && node == self.cell.receivers
            {
                for (_, _, bytes) in &mut out {
                    let mut told = bytes.to_vec();
                    forge_feedback(lie, &mut told);
                    *bytes = told.into();
                }
            }
            // A busy port may have kept something back.
            let busy = Some(place.free).filter(|&free| free > now);
            let wake = timeout.into_iter().chain(busy).min();
            if let Some(at) = wake.map(|at| at.max(now))
                && at < place.wake
            {
                place.wake = at;
                self.push(at, Step::Wake(node));
            }
            if let Machinery::Sender(session) = &self.nodes[node].machine
                && matches!(session.phase(), SenderPhase::Finished | SenderPhase::Aborted)
            {
                self.closed.get_or_insert(now);
            }
            for (at, dest, bytes) in out {
                self.launch(node, at, &dest, bytes);
            }
            if !self.poll_application(node) {
                return;
            }
        }
    }

    fn poll_application(&mut self, node: usize) -> bool {
        let (now, messages, payload) = (self.now, self.messages, self.payload);
        let place = &mut self.nodes[node];
        match &mut place.machine {
            Machinery::Sender(session) => {
                while session.as_receiver().and_then(|receiver| receiver.poll_delivery()).is_some() {}
                if self.offered == messages {
                    return false;
                }
                match session.offer(now, content(self.offered, payload)) {
                    Ok(_) => {
                        self.first_offer_at.get_or_insert(now);
                        self.offered += 1;
                        if self.offered == messages.div_ceil(4) && !self.cell.midway {
                            self.fault_at = Some(now);
                        }
                        if self.offered == messages {
                            session.finish(now);
                        }
                        true
                    }
                    Err(OfferError::Full | OfferError::Finished) => false,
                    Err(error) => panic!("{error}"),
                }
            }
            Machinery::Receiver(session) => {
                let leaves = node == self.cell.receivers
                    && match self.cell.fault {
                        Fault::Leave => self.fault_at.is_some(),
                        Fault::LeaveVerified => place.reported.is_some(),
                        _ => false,
                    };
                if leaves && !std::mem::replace(&mut place.left, true) {
                    session.leave(now, "no time");
                    return true;
                }
                let Some(delivery) = session.poll_delivery() else { return false };
                if delivery.payload != content(place.got, payload) {
                    // As an application that verifies: a gap is a failure.
                    session.report(now, place.got, Err(format!("message {} is not next", place.got)));
                    return true;
                }
                place.got += 1;
                if self.cell.midway && node == self.cell.receivers && place.got == messages.div_ceil(4) {
                    self.fault_at = Some(now);
                }
                session.progress(place.got * payload as u64);
                if place.got == messages && place.reported.is_none() {
                    place.reported = Some(now);
                    session.report(now, messages * payload as u64, Ok(()));
                }
                true
            }
        }
    }

    /// A datagram leaves: it may be lost at the port it leaves by, and at each that it comes to.
    fn launch(&mut self, from: usize, at: Time, dest: &Dest, bytes: Bytes) {
        let wire = bytes.len() as u64 + FRAME_OVERHEAD;
        *(if from == 0 { &mut self.sent } else { &mut self.returned }) += wire;
        if self.nodes[from].loss.chance(self.cell.loss) {
            return;
        }
        let arrives = at + Duration::from_nanos(wire * NANOS_PER_BYTE) + self.cell.delay;
        let (targets, group) = match dest {
            Dest::Node(node) => (vec![node.index()], false),
            Dest::Group { .. } => ((0..self.nodes.len()).filter(|&to| to != from).collect(), true),
            Dest::Ports { .. } => panic!("nobody here is a relay"),
        };
        for to in targets {
            assert!(to < self.nodes.len(), "a datagram to node {to}, which there is not");
            if !self.nodes[to].loss.chance(self.cell.loss) {
                let source = NodeId(from as u32);
                self.push(arrives, Step::Arrive { to, from: source, group, bytes: bytes.clone() });
            }
        }
    }

    fn push(&mut self, at: Time, step: Step) {
        self.queue.push(Reverse((at, self.serial, step)));
        self.serial += 1;
    }
}

/// A full message that says which one it is.
fn content(number: u64, len: usize) -> Bytes {
    let mut bytes = vec![number as u8; len];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}
