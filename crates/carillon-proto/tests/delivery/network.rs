//! Switched Ethernet with sessions at its ports: frames of 1500 bytes, loss at every port in both directions, a
//! delay, and the interface's rate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;

use bytes::Bytes;
use carillon_core::{
    AddressBook, Addresses, AssociationId, BitRate, Dest, Duration, Event, GroupId, Host, Machine, NodeId,
    NumberedAddresses, OfferError, PortId, Received, Receiver as _, Rng, Scope, Seeds, Sender as _, Time,
    Transmit, drain,
};
use carillon_session::{
    Gather, HelperSelection, LOCAL_NODE, MemberOutcome, MemberRole, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, SenderPhase, SenderSession, SenderSessionConfig,
};
use carillon_testkit::protocol_tests;

use super::cell::{Cell, Fault, Outcome};

/// Payload of the largest UDP datagram in a frame of 1500 bytes.
const DATAGRAM: u32 = 1472;

const FRAME_OVERHEAD: u64 = 28 + 18;

/// Maximum number of datagrams buffered for a frozen node.
const MAX_HELD_DATAGRAMS: usize = 4096;

/// Time that a trickling node is awake between freezes.
const AWAKE_TIME: Duration = Duration::from_millis(5);

/// Nanoseconds per byte at 1 Gbit/s.
const NANOS_PER_BYTE: u64 = 8;

/// Window of `carillon send` in datagrams: 2 MiB.
const WINDOW_DATAGRAMS: u64 = (2 << 20) / DATAGRAM as u64;

const GROUP: GroupId = GroupId(0);

const SENDER: NodeId = NodeId(0);

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

/// Port of a node, which handles its machine's output.
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

/// A node and its application.
struct Node {
    machine: Machinery,
    free: Time,
    loss: Rng,
    /// Number of messages received.
    got: u64,
    reported: Option<Time>,
    left: bool,
    /// Time of the next wake-up.
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

/// Next step: a datagram arrives, or a node wakes up.
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
    /// Time of the fault.
    fault_at: Option<Time>,
    /// Time until which the victim is frozen; datagrams to it are buffered.
    frozen: Option<Time>,
    /// Time of the last expulsion.
    expelled_at: Option<Time>,
    held: usize,
    /// Time when the sender finished.
    closed: Option<Time>,
}

impl World {
    /// Creates a session of this cell like `carillon send` and `recv` do.
    pub fn new(cell: &Cell) -> World {
        let seeds = Seeds::new(cell.seed);
        let mut config = SenderSessionConfig::new(AssociationId(7), "source", GROUP, cell.protocol, DATAGRAM);
        config.set_host_values(WINDOW_DATAGRAMS, u64::MAX).expect("the host's values are good");
        for (key, value) in &cell.settings {
            config.config.set(cell.protocol.parameters, key, value).expect("a setting");
        }
        config.gather = Gather::Count(cell.receivers);
        if cell.helpers > 0 {
            (config.helpers.wanted, config.helpers.fanout) = (HelperSelection::Count(cell.helpers), Some(1));
        }
        config.network.bit_rate = cell.rate.and_then(BitRate::new).unwrap_or(config.network.bit_rate);
        config.network.addresses = Addresses::new(Book(SENDER));
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
            config.network.addresses = Addresses::new(Book(node));
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

    /// Node with the fault.
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

    /// Returns true if the node is down. A frozen node gets its step again later.
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
                // A trickling node wakes up briefly.
                let at = self.now.since(fault_at).as_nanos() % (span + AWAKE_TIME).as_nanos();
                self.now + span.saturating_sub(Duration::from_nanos(at as u64))
            }
        };
        if self.now >= until {
            return false;
        }
        // As in a socket's receive buffer.
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

    /// Runs until the session is over or the time limit.
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
        // A receiver without a report makes the result `None`.
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
        let mut live_nodes = self.nodes.iter().enumerate().filter(|(index, _)| !is_gone(*index));
        live_nodes.all(|(_, node)| match &node.machine {
            Machinery::Sender(session) => {
                matches!(session.phase(), SenderPhase::Finished | SenderPhase::Aborted)
            }
            Machinery::Receiver(session) => {
                matches!(session.phase(), ReceiverPhase::Finished | ReceiverPhase::Failed(_))
            }
        })
    }

    /// Drains a machine and polls its application until nothing happens. After its timers have fired none may be due,
    /// even with a busy port, or the host would wake it endlessly.
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
            if let (Fault::Forgery(forgery), Some(forge_feedback)) =
                (self.cell.fault, protocol_tests(self.cell.protocol).forge_feedback)
                && node == self.cell.receivers
            {
                for (_, _, bytes) in &mut out {
                    let mut forged = bytes.to_vec();
                    forge_feedback(forgery, &mut forged);
                    *bytes = forged.into();
                }
            }
            // A busy port may have withheld a packet.
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
                    // An application that verifies fails on a gap.
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

    /// Sends a datagram, which may be lost at the outgoing port and at each incoming one.
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

/// Full message that names its number.
fn content(number: u64, len: usize) -> Bytes {
    let mut bytes = vec![number as u8; len];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}
