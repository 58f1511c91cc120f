//! Fixture of one machine, with its incoming and outgoing packets as text.

use std::net::IpAddr;

use carillon_core::{
    Addresses, AssociationId, BitRate, BuildContext, Bytes, Config, Dest, DropReason, Duration, Event,
    GroupId, Host, Machine, MessageId, NodeId, PortId, Received, Role, Scope, Seeds, Time, Transmit, Verdict,
    drain,
};
use carillon_testkit::CheckedMachine;
use carillon_wire::pgm::{Body, Data, Nak, NakList, Options, Packet, Poll, Spm};

use crate::protocols::pgm::{ENTRY, identity};

/// Fixture with a single machine. The source is node 0, a receiver is node 5, and a network element is node 9.
pub(super) struct Fixture {
    pub(super) machine: Box<dyn Machine>,
    pub(super) now: Time,
    out: Out,
}

#[derive(Default)]
struct Out {
    sent: Vec<String>,
    events: Vec<Event>,
    fired: bool,
}

impl Host for Out {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        let packet = Packet::parse(bytes).expect("a machine sends packets").to_string();
        let packet = packet.trim_start_matches("pgm ");
        let original = if transmit.original.is_some() { "first " } else { "" };
        self.sent.push(format!("{original}{packet} to {}", name(&transmit.dest)));
    }
    fn event(&mut self, event: &Event) {
        self.events.push(event.clone());
    }
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

fn name(dest: &Dest) -> String {
    match dest {
        Dest::Node(node) => node.to_string(),
        Dest::Group { .. } => "all".to_owned(),
        Dest::Ports { ports, source, dest } => {
            let ports: Vec<String> = ports.iter().map(|port| port.to_string()).collect();
            format!("{} as {source} to {}", ports.join(" "), name(dest))
        }
    }
}

impl Fixture {
    pub(super) fn new(role: Role, settings: &[(&str, &str)]) -> Self {
        let mut config = Config::defaults(ENTRY.parameters);
        for (key, value) in settings {
            config.set(ENTRY.parameters, key, value).expect("a setting");
        }
        let node = match role {
            Role::Sender => SOURCE,
            Role::Relay => NodeId(9),
            _ => NodeId(5),
        };
        let machine = (ENTRY.build)(role, &context(node), &config).expect("the settings go together");
        let mut fixture =
            Fixture { machine: Box::new(CheckedMachine::new(machine)), now: Time::ZERO, out: Out::default() };
        fixture.machine.start(fixture.now);
        fixture.drain(false);
        fixture
    }

    /// Advances the time to `ms` milliseconds and fires the timers on the way.
    pub(super) fn at(&mut self, ms: u64) -> &mut Self {
        let end = time(ms);
        while let Some(due) = self.machine.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.machine.handle_timeout(self.now);
            self.drain(true);
        }
        assert!(end >= self.now, "time does not go back");
        self.now = end;
        self
    }

    /// Receives a packet from a node through port 0.
    pub(super) fn receive(&mut self, from: u32, body: Body<'_>, options: Options<'_>) -> &mut Self {
        self.receive_on(0, from, body, options)
    }

    /// Receives a packet from a node through the given port.
    pub(super) fn receive_on(
        &mut self,
        port: u16,
        from: u32,
        body: Body<'_>,
        options: Options<'_>,
    ) -> &mut Self {
        let bytes = bytes(body, options);
        let received = Received {
            source: NodeId(from),
            destination: &Dest::Node(NodeId(9)),
            ingress: PortId(port),
            scope: Scope::GLOBAL,
            bytes: &bytes,
        };
        self.machine.handle_datagram(self.now, received);
        self.drain(false);
        self
    }

    /// Passes a packet of the source to the group through the network element; returns the verdict as text.
    pub(super) fn pass(&mut self, port: u16, body: Body<'_>, options: Options<'_>) -> String {
        self.pass_to(&Dest::group(GroupId(0)), port, body, options)
    }

    /// Passes a unicast packet to another node through the network element.
    pub(super) fn pass_to_node(&mut self, port: u16, body: Body<'_>) -> String {
        self.pass_to(&Dest::Node(NodeId(8)), port, body, none())
    }

    fn pass_to(&mut self, destination: &Dest, port: u16, body: Body<'_>, options: Options<'_>) -> String {
        let bytes = bytes(body, options);
        let received = Received {
            source: SOURCE,
            destination,
            ingress: PortId(port),
            scope: Scope::GLOBAL,
            bytes: &bytes,
        };
        let verdict = self.machine.as_relay().expect("a network element").handle_transit(self.now, received);
        self.drain(false);
        match verdict {
            Verdict::Forward => "forward".to_owned(),
            Verdict::Absorb => "absorb".to_owned(),
            Verdict::ForwardOn(ports) => {
                let ports: Vec<String> = ports.iter().map(|port| port.to_string()).collect();
                format!("forward on {}", ports.join(" "))
            }
            Verdict::ForwardAs(bytes) => Packet::parse(&bytes).expect("a packet").to_string(),
        }
    }

    pub(super) fn offer(&mut self, payload: &'static str) -> bool {
        let sender = self.machine.as_sender().expect("a source");
        let taken = sender.offer(self.now, Bytes::from_static(payload.as_bytes())).is_ok();
        self.drain(false);
        taken
    }

    pub(super) fn finish(&mut self) -> &mut Self {
        self.machine.as_sender().expect("a source").finish(self.now);
        self.drain(false);
        self
    }

    fn drain(&mut self, fired: bool) {
        self.out.fired = fired;
        drain(self.machine.as_mut(), self.now, &mut Vec::new(), &mut self.out);
    }

    /// Takes the packets sent since the last call.
    pub(super) fn sent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.out.sent)
    }

    /// Takes the packets sent since the last call, without SPMs.
    pub(super) fn sent_but_spms(&mut self) -> Vec<String> {
        self.sent().into_iter().filter(|line| !line.starts_with("spm ")).collect()
    }

    /// Next timeout of the machine.
    pub(super) fn timer(&self) -> Option<Time> {
        self.machine.poll_timeout()
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.out.events)
    }

    /// Takes the events about messages, one phrase each.
    pub(super) fn message_events(&mut self) -> Vec<String> {
        let word = |event| match event {
            Event::Delivered { message, .. } => Some(format!("delivered {}", message.0)),
            Event::LossFound { message, .. } => Some(format!("found {}", message.0)),
            Event::LossRepaired { message, .. } => Some(format!("repaired {}", message.0)),
            Event::LossFinal { message, .. } => Some(format!("final {}", message.0)),
            Event::Requested { message, .. } => Some(format!("requested {}", message.0)),
            Event::RequestSuppressed { message } => Some(format!("suppressed {}", message.0)),
            _ => None,
        };
        self.events().into_iter().filter_map(word).collect()
    }

    pub(super) fn drops(&mut self) -> Vec<DropReason> {
        let reason = |event| match event {
            Event::Dropped { reason } => Some(reason),
            _ => None,
        };
        self.events().into_iter().filter_map(reason).collect()
    }
}

pub(super) fn context(node: NodeId) -> BuildContext {
    BuildContext {
        association: ASSOCIATION,
        node,
        sender: SOURCE,
        members: [NodeId(5)].into(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Default::default(),
        group: GroupId(0),
        seeds: Seeds::new(1).node(node),
        bit_rate: BitRate::mbps(10),
        link_overhead: 28,
        max_payload: 1000,
        memory: usize::MAX,
        rejoining: false,
    }
}

fn bytes(body: Body<'_>, options: Options<'_>) -> Bytes {
    let mut buf = Vec::new();
    Packet { tsi: identity::tsi(ASSOCIATION), destination_port: 7500, body, options }.emit(&mut buf);
    buf.into()
}

pub(super) fn time(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

pub(super) fn address(node: u32) -> IpAddr {
    Addresses::default().of_node(NodeId(node)).expect("every node has one")
}

/// SPM of the source with its sequence number, path node, trailing edge, and one past the leading edge.
pub(super) fn spm(sqn: u32, path: u32, trail: u32, end: u32) -> Body<'static> {
    Body::Spm(Spm { sqn, trail, lead: end.wrapping_sub(1), path: address(path) })
}

pub(super) fn odata(sqn: u32) -> Body<'static> {
    Body::Odata(Data { sqn, trail: 0, payload: b"data" })
}

pub(super) fn rdata(sqn: u32) -> Body<'static> {
    Body::Rdata(Data { sqn, trail: 0, payload: b"data" })
}

fn request(sqn: u32) -> Nak {
    Nak { sqn, source: address(0), group: Addresses::default().of_group(GroupId(0)) }
}

pub(super) fn nak(sqn: u32) -> Body<'static> {
    Body::Nak(request(sqn))
}

pub(super) fn ncf(sqn: u32) -> Body<'static> {
    Body::Ncf(request(sqn))
}

pub(super) fn nnak(sqn: u32) -> Body<'static> {
    Body::Nnak(request(sqn))
}

/// POLL for designated local repairers from the parent at a node, with a back-off of 50 ms.
pub(super) fn poll(sqn: u32, round: u16, path: u32) -> Poll {
    let (subtype, path) = (Poll::REPAIRERS, address(path));
    Poll { sqn, round, subtype, path, back_off_us: 50_000, random: 0, mask: 0 }
}

/// OPT_REDIRECT with the address of a designated local repairer.
pub(super) fn redirect(node: u32) -> Options<'static> {
    Options { redirect: Some(address(node)), ..none() }
}

pub(super) fn list(bytes: &[u8]) -> Options<'_> {
    Options { nak_list: NakList::from_bytes(bytes).expect("whole numbers"), ..Options::default() }
}

pub(super) fn none() -> Options<'static> {
    Options::default()
}

pub(super) const SOURCE: NodeId = NodeId(0);
const ASSOCIATION: AssociationId = AssociationId(1);

pub(super) fn message(number: u64) -> MessageId {
    MessageId(number)
}
