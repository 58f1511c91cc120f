//! Plain sources of PGM at a receiver: what is opened, passed on, bounded and dropped.

use carillon_core::{
    AssociationId, BitRate, Dest, GroupId, Host, NumberedAddresses, PortId, Role, Scope, Seeds, drain,
};
use carillon_wire::pgm::{Body, Data, Options, Packet, Spm, Tsi};

use super::*;

/// Nodes 1 to 9 are ports of one host; every other node is a host of its own.
#[derive(Debug)]
struct Ports;

const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

impl AddressBook for Ports {
    fn of_node(&self, node: NodeId) -> Option<IpAddr> {
        let node = if node.0 < 10 { NodeId(1) } else { node };
        NumberedAddresses.of_node(node)
    }

    fn node_at(&self, address: IpAddr) -> Option<NodeId> {
        NumberedAddresses.node_at(address)
    }

    fn of_group(&self, group: GroupId) -> IpAddr {
        NumberedAddresses.of_group(group)
    }
}

struct Fixture {
    machine: PlainReceiver,
    now: Time,
    sent: Sent,
}

/// Output of the machine: packets with their destinations, and bytes with the headers of IPv4 and UDP.
#[derive(Default)]
struct Sent {
    packets: Vec<String>,
    bytes: usize,
    dropped: Vec<DropReason>,
    fired: bool,
}

impl Host for Sent {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        let Dest::Node(node) = transmit.dest else { panic!("requests go to one node") };
        self.packets.push(format!("{} to {node}", Packet::parse(bytes).expect("a packet")));
        self.bytes += bytes.len() + 28;
    }
    fn event(&mut self, event: &Event) {
        if let Event::Dropped { reason } = event {
            self.dropped.push(*reason);
        }
    }
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

impl Fixture {
    fn new(limits: PlainLimits) -> Fixture {
        let entry = crate::find("pgm").expect("it is in the registry");
        let mut config = Config::defaults(entry.parameters);
        for (key, value) in entry.settings.delivery.iter().chain(entry.plain.expect("it has them").settings) {
            config.set(entry.parameters, key, value).expect("a setting");
        }
        let machine = PlainReceiver::new(entry, &context(), &config, limits).expect("valid settings");
        let mut fixture = Fixture { machine, now: Time::ZERO, sent: Sent::default() };
        fixture.machine.start(fixture.now);
        fixture
    }

    fn receive(&mut self, from: u32, tsi: Tsi, body: Body<'_>, options: Options<'_>) {
        let mut bytes = Vec::new();
        Packet { tsi, destination_port: 7500, body, options }.emit(&mut bytes);
        let received = Received {
            source: NodeId(from),
            destination: &Dest::group(GroupId(0)),
            ingress: PortId(0),
            scope: Scope::GLOBAL,
            bytes: &bytes.into(),
        };
        self.machine.handle_datagram(self.now, received);
        self.drain(false);
    }

    fn wait(&mut self, wait: Duration) {
        let end = self.now + wait;
        while let Some(due) = self.machine.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.machine.handle_timeout(self.now);
            self.drain(true);
        }
        self.now = end;
    }

    fn drain(&mut self, fired: bool) {
        self.sent.fired = fired;
        drain(&mut self.machine, self.now, &mut Vec::new(), &mut self.sent);
    }

    fn news(&mut self) -> Vec<String> {
        let news = std::iter::from_fn(|| self.machine.poll_news()).map(|news| match news {
            PlainNews::Opened(source) => format!("opened {source}"),
            PlainNews::Message { number, payload, .. } => {
                format!("{number} {}", String::from_utf8_lossy(&payload))
            }
            PlainNews::File { .. } => "a file".to_owned(),
            PlainNews::Closed { lost, ended, .. } => format!("closed, {lost} lost, ended {ended}"),
        });
        news.collect()
    }
}

fn context() -> BuildContext {
    BuildContext {
        association: AssociationId(0),
        node: NodeId(20),
        sender: NodeId(20),
        members: [].into(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Addresses::new(Ports),
        group: GroupId(0),
        seeds: Seeds::new(1).node(NodeId(20)),
        bit_rate: BitRate::mbps(100),
        link_overhead: 0,
        max_payload: 1400,
        memory: 8 << 20,
        rejoining: false,
    }
}

fn tsi(number: u16) -> Tsi {
    Tsi { gsi: *b"abcdef", port: number }
}

fn spm(sqn: u32, trail: u32, lead: u32) -> Body<'static> {
    Body::Spm(Spm { sqn, trail, lead, path: HOST })
}

fn data(sqn: u32, payload: &str) -> Body<'_> {
    Body::Odata(Data { sqn, trail: 0, payload: payload.as_bytes() })
}

fn none() -> Options<'static> {
    Options::default()
}

fn fin() -> Options<'static> {
    Options { fin: true, ..none() }
}

/// Like OpenPGM, the source sends SPMs from port 2 and data from port 3, and receives NAKs at port 1.
#[test]
fn packets_from_all_ports_of_a_host_are_one_source() {
    let mut fixture = Fixture::new(PlainLimits::default());
    fixture.receive(2, tsi(1), spm(0, 0, u32::MAX), none());
    fixture.receive(3, tsi(1), data(0, "a"), none());
    fixture.receive(3, tsi(1), data(2, "c"), none());
    fixture.wait(Duration::from_millis(20));
    assert_eq!(fixture.sent.packets, ["pgm nak 1 to n1"]);
    fixture.receive(2, tsi(1), Body::Rdata(Data { sqn: 1, trail: 0, payload: b"b" }), none());
    assert_eq!(fixture.news(), ["opened 10.0.0.2-6162636465660001", "0 a", "1 b", "2 c"]);
}

#[test]
fn sources_of_one_host_are_received_apart() {
    let mut fixture = Fixture::new(PlainLimits::default());
    for number in [1, 2] {
        fixture.receive(2, tsi(number), spm(0, 0, u32::MAX), none());
        fixture.receive(3, tsi(number), data(0, "x"), none());
    }
    assert_eq!(fixture.news().iter().filter(|news| *news == "0 x").count(), 2);
    assert_eq!(fixture.machine.sources(), 2);
}

#[test]
fn source_is_closed_when_all_before_its_end_is_there() {
    let mut fixture = Fixture::new(PlainLimits::default());
    fixture.receive(2, tsi(1), spm(0, 0, u32::MAX), none());
    fixture.receive(2, tsi(1), spm(1, 0, 0), fin());
    assert_eq!(fixture.news(), ["opened 10.0.0.2-6162636465660001"], "message 0 is missing");
    fixture.receive(3, tsi(1), data(0, "a"), none());
    assert_eq!(fixture.news(), ["0 a", "closed, 0 lost, ended true"]);
    // Repetitions of the end open nothing.
    fixture.receive(2, tsi(1), spm(2, 0, 0), fin());
    assert_eq!((fixture.news().len(), fixture.sent.dropped.pop()), (0, Some(DropReason::Redundant)));
    fixture.wait(Duration::from_secs(61));
    assert_eq!((fixture.machine.sources(), fixture.machine.poll_timeout()), (0, None));
}

#[test]
fn silent_source_is_closed() {
    let mut fixture = Fixture::new(PlainLimits::default());
    fixture.receive(2, tsi(1), spm(0, 0, u32::MAX), none());
    fixture.wait(Duration::from_secs(59));
    assert_eq!(fixture.news().len(), 1);
    fixture.wait(Duration::from_secs(2));
    assert_eq!(fixture.news(), ["closed, 0 lost, ended false"]);
    assert_eq!(fixture.machine.poll_timeout(), None);
}

#[test]
fn sessions_of_carillon_and_other_ports_are_foreign() {
    let mut fixture = Fixture::new(PlainLimits::default());
    let session = Tsi { gsi: [b'C', b'L', 0, 0, 0, 7], port: 20_007 };
    fixture.receive(2, session, spm(0, 0, u32::MAX), none());
    let mut other = Vec::new();
    Packet { tsi: tsi(1), destination_port: 5555, body: spm(0, 0, 0), options: none() }.emit(&mut other);
    let received = Received {
        source: NodeId(2),
        destination: &Dest::group(GroupId(0)),
        ingress: PortId(0),
        scope: Scope::GLOBAL,
        bytes: &other.into(),
    };
    fixture.machine.handle_datagram(fixture.now, received);
    fixture.drain(false);
    assert_eq!(fixture.sent.dropped, [DropReason::Foreign; 2]);
    assert_eq!(fixture.machine.sources(), 0);
}

/// Any host can claim to be any number of sources: the table stays bounded, and no source that sends is displaced.
#[test]
fn flood_of_sources_is_bounded_and_displaces_none() {
    let mut fixture = Fixture::new(PlainLimits::default());
    fixture.receive(2, tsi(1), spm(0, 0, u32::MAX), none());
    let mut received = 0;
    for number in 0..20_000u32 {
        fixture.receive(100 + number, tsi(number as u16), spm(0, 0, 16_000), none());
        if number % 100 == 0 {
            fixture.receive(3, tsi(1), data(number / 100, "x"), none());
            received += 1;
            fixture.wait(Duration::from_millis(50));
        }
        assert!(fixture.machine.sources() <= MAX_SOURCES);
    }
    assert_eq!(fixture.news().iter().filter(|news| news.ends_with(" x")).count(), received);
    assert!(fixture.sent.dropped.contains(&DropReason::BufferFull));
    let held = fixture.machine.held().expect("it reports that");
    assert!(held <= 8, "{held} messages are held for sources that sent none");
}

/// A forged source names a victim as the destination of requests for its whole window.
#[test]
fn requests_to_a_forged_source_stay_within_the_budget() {
    let mut fixture = Fixture::new(PlainLimits::default());
    let join = Options { join: Some(0), ..none() };
    let mut received = 0;
    for sqn in 0..20 {
        fixture.receive(50, tsi(1), spm(sqn, 0, 30_000), join);
        received += 44;
        fixture.wait(Duration::from_millis(100));
    }
    fixture.wait(Duration::from_secs(120));
    let bound = received + 512 * 13 + 512;
    assert!(fixture.sent.bytes > 1000, "it requests: {} bytes", fixture.sent.bytes);
    assert!(fixture.sent.bytes <= bound, "{} bytes of requests, {bound} allowed", fixture.sent.bytes);
}

#[test]
fn other_hosts_than_the_listed_are_not_received() {
    let from = vec![HOST];
    let mut fixture = Fixture::new(PlainLimits { from, ..PlainLimits::default() });
    fixture.receive(50, tsi(1), spm(0, 0, u32::MAX), none());
    fixture.receive(2, tsi(1), spm(0, 0, u32::MAX), none());
    assert_eq!(fixture.news(), ["opened 10.0.0.2-6162636465660001"]);
}

/// Names which protocols have plain sessions: a protocol without them is refused with that list.
#[test]
fn protocol_without_plain_sessions_is_refused() {
    let entry = crate::find("srm").expect("it is in the registry");
    assert!(entry.roles.contains(&Role::Peer));
    let config = Config::defaults(entry.parameters);
    let refused = PlainReceiver::new(entry, &context(), &config, PlainLimits::default());
    let error = refused.expect_err("it has none").to_string();
    let expected = "the protocol \"srm\" has no plain sessions; these have: pgm, norm, flute";
    assert!(error.contains(expected), "{error}");
}
