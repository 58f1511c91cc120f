//! Fixture: one machine alone, with times in milliseconds.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, DropReason, Event, GroupId, Host, Machine, NodeId, PortId,
    Received, Role, Scope, Seeds, Time, Transmit, Verdict, drain,
};
use carillon_core::{Dest, MessageId};
use carillon_testkit::CheckedMachine;
use carillon_wire::lms::{Data, Offer, Packet, Progress, Request, TurningPoint};

use super::super::ENTRY;

/// The machine: the source is node 0, the others have the numbers that the tests say. 28 bytes of
/// headers on the network, messages of up to 100.
pub(super) struct Fixture {
    machine: Box<dyn Machine>,
    node: NodeId,
    now: Time,
    out: Out,
}

#[derive(Default)]
struct Out {
    sent: Vec<(Transmit, Vec<u8>)>,
    events: Vec<Event>,
    fired: bool,
}

impl Host for Out {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.sent.push((transmit, std::mem::take(bytes)));
    }
    fn event(&mut self, event: &Event) {
        self.events.push(event.clone());
    }
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

pub(super) fn context(node: u32) -> BuildContext {
    BuildContext {
        association: ASSOCIATION,
        node: NodeId(node),
        sender: NodeId(0),
        members: [].into(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Default::default(),
        group: GroupId(0),
        seeds: Seeds::new(1),
        bit_rate: BitRate::mbps(10),
        link_overhead: 28,
        max_payload: 100,
        memory: usize::MAX,
        rejoining: false,
    }
}

pub(super) fn config(settings: &[(&str, &str)]) -> Config {
    let mut config = Config::defaults(ENTRY.parameters);
    for (key, value) in settings {
        config.set(ENTRY.parameters, key, value).expect("a valid setting");
    }
    config
}

impl Fixture {
    pub(super) fn new(role: Role, node: u32, settings: &[(&str, &str)]) -> Self {
        let machine = (ENTRY.build)(role, &context(node), &config(settings)).expect("valid settings");
        let machine = Box::new(CheckedMachine::new(machine));
        let mut fixture = Fixture { machine, node: NodeId(node), now: Time::ZERO, out: Out::default() };
        fixture.machine.start(fixture.now);
        fixture.drain(false);
        fixture
    }

    /// Advances the time to `millis` after the start.
    pub(super) fn at(&mut self, millis: u64) -> &mut Self {
        let end = Time::ZERO + Duration::from_millis(millis);
        while let Some(due) = self.machine.poll_timeout().filter(|&due| due <= end) {
            self.now = due;
            self.machine.handle_timeout(due);
            self.drain(true);
        }
        self.now = end;
        self
    }

    /// Receives a packet for this node on a port.
    pub(super) fn receive(&mut self, from: u32, port: u16, packet: Packet<'_>) -> &mut Self {
        let bytes = bytes(packet);
        let destination = Dest::Node(self.node);
        self.machine.handle_datagram(self.now, received(from, port, &destination, &bytes));
        self.drain(false);
        self
    }

    /// Receives a packet of the source to the group.
    pub(super) fn multicast(&mut self, packet: Packet<'_>) -> &mut Self {
        let bytes = bytes(packet);
        let destination = Dest::group(GroupId(0));
        self.machine.handle_datagram(self.now, received(0, 0, &destination, &bytes));
        self.drain(false);
        self
    }

    /// A packet of a node to the group passes: what becomes of it.
    pub(super) fn pass(&mut self, from: u32, port: u16, packet: Packet<'_>) -> String {
        let mut bytes = bytes(packet).to_vec();
        bytes.resize(bytes.len().max(80), 0);
        let destination = Dest::group(GroupId(0));
        let relay = self.machine.as_relay().expect("a router");
        let verdict = relay.handle_transit(self.now, received(from, port, &destination, &bytes.into()));
        self.drain(false);
        match verdict {
            Verdict::ForwardAs(bytes) => {
                assert_eq!(bytes.len(), 80, "it is as long as it was");
                let (association, packet) = Packet::parse(&bytes).expect("a packet");
                assert_eq!(association, ASSOCIATION);
                packet.to_string()
            }
            other => format!("{other:?}"),
        }
    }

    /// The application offers messages.
    pub(super) fn offer(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            let sender = self.machine.as_sender().expect("a source");
            sender.offer(self.now, Bytes::from_static(b"message")).expect("there is room");
            self.drain(false);
        }
        self
    }

    pub(super) fn machine(&mut self) -> &mut dyn Machine {
        self.machine.as_mut()
    }

    pub(super) fn drain(&mut self, fired: bool) {
        self.out.fired = fired;
        drain(self.machine.as_mut(), self.now, &mut Vec::new(), &mut self.out);
    }

    /// Takes the packets sent since the last call, one line each.
    pub(super) fn sent(&mut self) -> Vec<String> {
        self.datagrams().into_iter().map(|(dest, bytes)| line(&dest, &bytes)).collect()
    }

    /// Takes the lengths in bytes of the packets sent since the last call.
    pub(super) fn lengths(&mut self) -> Vec<usize> {
        self.datagrams().iter().map(|(_, bytes)| bytes.len()).collect()
    }

    /// The messages that they carried for the first time.
    pub(super) fn originals(&mut self) -> Vec<Option<u64>> {
        let sent = std::mem::take(&mut self.out.sent);
        sent.iter().map(|(transmit, _)| transmit.original.map(|message| message.0)).collect()
    }

    fn datagrams(&mut self) -> Vec<(Dest, Vec<u8>)> {
        let sent = std::mem::take(&mut self.out.sent);
        sent.into_iter().map(|(transmit, bytes)| (transmit.dest, bytes)).collect()
    }

    /// The events since they were last asked for.
    pub(super) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.out.events)
    }

    /// Why packets were dropped since events were last asked for.
    pub(super) fn drops(&mut self) -> Vec<DropReason> {
        let reason = |event| match event {
            Event::Dropped { reason } => Some(reason),
            _ => None,
        };
        self.events().into_iter().filter_map(reason).collect()
    }

    /// Takes the losses found, repaired (`true`) and final since the last call.
    pub(super) fn fates(&mut self) -> Vec<String> {
        let fate = |event| match event {
            Event::LossFound { message: MessageId(number), .. } => Some(format!("found {number}")),
            Event::LossRepaired { message: MessageId(number), .. } => Some(format!("repaired {number}")),
            Event::LossFinal { message: MessageId(number), .. } => Some(format!("final {number}")),
            Event::Delivered { message: MessageId(number), .. } => Some(format!("delivered {number}")),
            _ => None,
        };
        self.events().into_iter().filter_map(fate).collect()
    }
}

fn line(dest: &Dest, bytes: &[u8]) -> String {
    let (_, packet) = Packet::parse(bytes).expect("a packet");
    let to = match dest {
        Dest::Node(node) => node.to_string(),
        Dest::Group { .. } => "all".to_owned(),
        Dest::Ports { ports, source, dest } => {
            assert_eq!(**dest, Dest::group(GroupId(0)));
            let ports: Vec<String> = ports.iter().map(|port| port.to_string()).collect();
            format!("{} as {source}", ports.join(" "))
        }
    };
    format!("{packet} to {to}")
}

fn bytes(packet: Packet<'_>) -> Bytes {
    let mut buf = Vec::new();
    packet.emit(ASSOCIATION, &mut buf);
    buf.into()
}

fn received<'a>(from: u32, port: u16, destination: &'a Dest, bytes: &'a Bytes) -> Received<'a> {
    Received { source: NodeId(from), destination, ingress: PortId(port), scope: Scope::GLOBAL, bytes }
}

/// The address of a node.
pub(super) fn address(node: u8) -> IpAddr {
    [10, 0, 0, node + 1].into()
}

pub(super) fn setup<'a>(previous: Option<u8>) -> Packet<'a> {
    let progress = Progress { next: 0, oldest: 0 };
    Packet::Setup { previous: previous.map(address), progress, timestamp: 0 }
}

pub(super) fn spm<'a>(next: u32, oldest: u32) -> Packet<'a> {
    Packet::Spm { previous: Some(address(9)), progress: Progress { next, oldest } }
}

pub(super) fn refresh<'a>(cost: u32, hops: u16) -> Packet<'a> {
    Packet::Refresh(Offer { cost, hops })
}

/// A first request.
pub(super) fn request(lo: u32, hi: u32) -> Request {
    Request { turning_point: None, direct: false, past: 0, hops_left: 20, lo, hi, attempt: 0 }
}

/// Request for these messages that was turned at a router.
pub(super) fn turned(lo: u32, hi: u32, router: u8, port: u16) -> Request {
    let point = TurningPoint { address: address(router), interface: PortId(port) };
    Request { turning_point: Some(point), ..request(lo, hi) }
}

pub(super) fn data<'a>(sequence: u32) -> Packet<'a> {
    Packet::Data(Data { sequence, oldest: 0, payload: b"message" })
}

pub(super) fn repair<'a>(sequence: u32) -> Packet<'a> {
    Packet::Repair(Data { sequence, oldest: 0, payload: b"message" })
}

const ASSOCIATION: AssociationId = AssociationId(1);
