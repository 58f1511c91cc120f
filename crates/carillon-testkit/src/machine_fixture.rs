//! Fixture of one machine alone, with packets in and out at stated times.

use bytes::Bytes;
use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, Delivery, Dest, DropReason, Event, Format, GroupId, Host,
    Machine, NodeId, OfferError, PortId, ProtocolEntry, Received, Role, Scope, Seeds, Time, Transmit, drain,
};

use crate::checked_machine::CheckedMachine;
use crate::group::SENDER;

/// Fixture of one machine. Times are bit times at 10 Mbit/s, as in the sources: see [`bits`].
///
/// The sender is node 0 and the receivers are 1 to r. A receiver under test is node 1, a peer node 0 of 0 to r.
/// Packets are text or bytes; the fixture keeps its output until the test asks for it.
#[derive(Debug)]
pub struct MachineFixture {
    machine: Box<dyn Machine>,
    format: &'static Format,
    now: Time,
    out: Output,
}

/// Time this many bit times after the start, at 10 Mbit/s.
pub fn bits(bits: u64) -> Time {
    Time::ZERO + BitRate::mbps(10).time_for_bits(bits)
}

/// Session of a machine in a fixture.
pub const ASSOCIATION: AssociationId = AssociationId(1);

#[derive(Debug, Default)]
struct Output {
    sent: Vec<(Transmit, Vec<u8>)>,
    events: Vec<Event>,
    fired: bool,
}

impl Host for Output {
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

impl MachineFixture {
    /// Builds the machine of a role, with these settings on top of the defaults. Data packets have 1518 bytes on a
    /// network that adds 18, with headers of any size.
    ///
    /// # Panics
    ///
    /// Panics if the protocol does not take the settings.
    pub fn new(
        entry: &'static ProtocolEntry,
        role: Role,
        receivers: u32,
        settings: &[(&str, &str)],
        header_len: usize,
        seed: u64,
    ) -> Self {
        let mut config = Config::defaults(entry.parameters);
        for (key, value) in settings {
            config.set(entry.parameters, key, value).unwrap_or_else(|error| panic!("{error}"));
        }
        let node = if role == Role::Receiver { NodeId(1) } else { SENDER };
        let first_member = if role == Role::Peer { 0 } else { 1 };
        let context = BuildContext {
            association: ASSOCIATION,
            node,
            sender: SENDER,
            members: (first_member..=receivers).map(NodeId).collect(),
            helpers: Default::default(),
            identities: Default::default(),
            addresses: Default::default(),
            group: GroupId(0),
            seeds: Seeds::new(seed).node(node),
            bit_rate: BitRate::mbps(10),
            link_overhead: 18,
            max_payload: 1500 - header_len as u32,
            memory: usize::MAX,
            rejoining: false,
        };
        let machine = (entry.build)(role, &context, &config).unwrap_or_else(|error| panic!("{error}"));
        let mut machine = CheckedMachine::new(machine);
        machine.start(Time::ZERO);
        MachineFixture {
            machine: Box::new(machine),
            format: entry.packets.format,
            now: Time::ZERO,
            out: Output::default(),
        }
    }

    /// Advances time to this many bit times after the start and fires due timers.
    pub fn at(&mut self, when: u64) -> &mut Self {
        let end = bits(when);
        assert!(end >= self.now, "time does not go back");
        while let Some(due) = self.machine.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.machine.handle_timeout(self.now);
            self.drain(true);
        }
        self.now = end;
        self
    }

    /// Offers a message.
    pub fn offer(&mut self, payload: &str) -> Result<u64, OfferError> {
        let payload = Bytes::copy_from_slice(payload.as_bytes());
        let sender = self.machine.as_sender().expect("the machine is a sender");
        let id = sender.offer(self.now, payload);
        self.drain(false);
        id.map(|id| id.0)
    }

    /// Ends the stream of messages.
    pub fn finish(&mut self) {
        self.machine.as_sender().expect("the machine is a sender").finish(self.now);
        self.drain(false);
    }

    /// Returns true if the sender has finished.
    pub fn is_finished(&mut self) -> bool {
        self.machine.as_sender().expect("the machine is a sender").is_finished()
    }

    /// Expels a member.
    pub fn expel(&mut self, member: u32) -> &mut Self {
        self.machine.as_sender().expect("the machine is a sender").expel(self.now, NodeId(member));
        self.drain(false);
        self
    }

    /// Members among these for which the sender waits.
    pub fn awaited(&mut self, members: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let sender = self.machine.as_sender().expect("the machine is a sender");
        members.into_iter().filter(|&member| sender.awaits(NodeId(member))).collect()
    }

    /// Receives a datagram from a node.
    pub fn receive(&mut self, from: u32, bytes: &[u8]) -> &mut Self {
        let bytes = Bytes::copy_from_slice(bytes);
        let destination = Dest::group(GroupId(0));
        self.machine.handle_datagram(
            self.now,
            Received {
                source: NodeId(from),
                destination: &destination,
                ingress: PortId(0),
                scope: Scope::GLOBAL,
                bytes: &bytes,
            },
        );
        self.drain(false);
        self
    }

    /// Takes the next delivered message.
    pub fn take(&mut self) -> Option<Delivery> {
        let delivery = self.machine.as_receiver().expect("the machine is a receiver").poll_delivery();
        self.drain(false);
        delivery
    }

    fn drain(&mut self, fired: bool) {
        self.out.fired = fired;
        drain(self.machine.as_mut(), self.now, &mut Vec::new(), &mut self.out);
    }

    /// Takes the packets sent since the last call, each as a line with its destination.
    pub fn sent(&mut self) -> Vec<String> {
        self.datagrams().iter().map(|(transmit, bytes)| self.line(transmit, bytes)).collect()
    }

    fn line(&self, transmit: &Transmit, bytes: &[u8]) -> String {
        let packet =
            (self.format.read)(bytes).map_or_else(|_| format!("{bytes:02x?}"), |reading| reading.line);
        let to = match transmit.dest {
            Dest::Node(node) => node.to_string(),
            Dest::Group { .. } => "all".to_owned(),
            Dest::Ports { .. } => "ports".to_owned(),
        };
        format!("{packet} to {to}")
    }

    /// Takes the datagrams sent since the last call.
    pub fn datagrams(&mut self) -> Vec<(Transmit, Vec<u8>)> {
        std::mem::take(&mut self.out.sent)
    }

    /// Takes the events since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.out.events)
    }

    /// Takes the events since the last call and returns the reasons of drops.
    pub fn drops(&mut self) -> Vec<DropReason> {
        let reason = |event| match event {
            Event::Dropped { reason } => Some(reason),
            _ => None,
        };
        self.events().into_iter().filter_map(reason).collect()
    }

    /// Time of the next timer, in bit times after the start.
    pub fn timer(&self) -> Option<u64> {
        self.machine.poll_timeout().map(|at| BitRate::mbps(10).bits_in(at - Time::ZERO))
    }
}
