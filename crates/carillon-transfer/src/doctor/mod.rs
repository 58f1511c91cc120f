//! Diagnosis of the network between machines: `carillon doctor`.
//!
//! Each machine sends HELLO ([`carillon_wire::doctor`]) to the group, to all hosts of the link and to the named
//! machines, and answers HELLOs that it receives. Each HELLO lists the packets received from the others. The kinds of
//! packets that passed and did not pass in each direction locate the fault ([`Evidence::findings`]).

mod findings;
mod paths;
mod relays;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use carillon_core::AssociationId;
use carillon_net::{
    Arrival, OpenError, Probe, SendFailure, TrainMeter, TrainPacket, is_source_specific, sender_of_relay,
};
use carillon_wire::doctor::{Hello, HelloPath, MAX_HEARD, ORIGIN, ObservedMachine, UNWANTED};
use carillon_wire::envelope::drawn_association;
use carillon_wire::session::{OtherRelease, WIRE_VERSION};

pub use findings::{Evidence, Fault, Finding, MAX_HOPS, Machine, Peer};
pub use paths::PathFinding;
pub use relays::RelayFinding;

/// Configuration of an examination.
#[derive(Clone, Debug)]
pub struct DoctorConfig {
    /// The multicast group and its port.
    pub group: SocketAddr,
    /// The interface by name or address.
    pub interface: Option<String>,
    /// Sources of the multicasts that this machine receives (source-specific multicast); empty for all hosts.
    pub sources: Vec<IpAddr>,
    /// The hop limit of transfers.
    pub hops: u8,
    /// Name of this machine.
    pub name: String,
    /// Other machines that take part.
    pub named: Vec<IpAddr>,
    /// Time to collect evidence after the first machine, and all named ones, have answered.
    pub listen: Duration,
    /// Maximum time to wait for the first answer.
    pub wait: Duration,
}

/// A machine that takes part in an examination.
#[derive(Debug)]
pub struct Doctor {
    config: DoctorConfig,
    probe: Probe,
    id: AssociationId,
    /// Sequence number of the next HELLO to the group.
    number: u32,
    /// Number of rounds sent.
    turns: u32,
    /// Latest send error by destination.
    refused: BTreeMap<IpAddr, SendFailure>,
    known: BTreeMap<u32, KnownMachine>,
    /// Relays on this network, with the sender of each.
    relays: BTreeMap<IpAddr, SocketAddr>,
    /// Number of packet trains sent.
    trains: u8,
}

/// Another machine, with the evidence collected about it.
#[derive(Debug)]
struct KnownMachine {
    machine: Machine,
    /// Name that it states.
    name: String,
    address: IpAddr,
    heard: ObservedMachine,
    first: u32,
    last: u32,
    copies: u16,
    said: Option<ObservedMachine>,
    /// Throughput from it by multicast and by unicast.
    meters: [TrainMeter; 2],
}

impl Doctor {
    /// Opens the sockets.
    pub fn open(config: DoctorConfig) -> Result<Doctor, OpenError> {
        let probe = Probe::open(config.group, config.interface.as_deref(), &config.sources, WANTED_BUFFER)?;
        let mut id = [0; 4];
        // Without random numbers the address distinguishes machines.
        if getrandom::fill(&mut id).is_err()
            && let IpAddr::V4(address) = probe.interface().address
        {
            id = address.octets();
        }
        let id = drawn_association(u32::from_be_bytes(id));
        Ok(Doctor {
            config,
            probe,
            id,
            number: 0,
            turns: 0,
            refused: BTreeMap::new(),
            known: BTreeMap::new(),
            relays: BTreeMap::new(),
            trains: 0,
        })
    }

    /// The sockets.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    /// Exchanges HELLOs until the evidence suffices or `stop` returns true. `tell` receives the name of each new
    /// machine.
    pub fn examine(&mut self, stop: &dyn Fn() -> bool, tell: &mut dyn FnMut(&str)) -> io::Result<Evidence> {
        let begun = Instant::now();
        let mut end = begun + self.config.wait;
        let (mut met, mut buf) = (false, vec![0; 1 << 16]);
        while Instant::now() < end && !stop() {
            self.send_round();
            let next = Instant::now() + HELLO_INTERVAL;
            while let Some((arrival, from, len)) = self.probe.receive(next.min(end), &mut buf)? {
                let known = self.known.len();
                self.on_other(arrival, from, &buf[..len]);
                self.on_hello(arrival, from, &buf[..len]);
                if self.known.len() > known
                    && let Some(new) = self.known.values().find(|one| one.address == from.ip())
                {
                    tell(&new.machine.name);
                }
                if Instant::now() >= next {
                    break;
                }
            }
            if !met && !self.known.is_empty() && self.missing().is_empty() {
                met = true;
                end = Instant::now() + self.config.listen;
            }
            // All machines have met by then, on each side.
            let listened = self.config.listen.saturating_sub(end.saturating_duration_since(Instant::now()));
            if met && listened >= self.config.listen * (u32::from(self.trains) + 1) / (TRAINS + 1) {
                self.send_trains();
            }
        }
        Ok(self.evidence(begun.elapsed()))
    }

    /// Sends the HELLOs of one round.
    fn send_round(&mut self) {
        let (group, hops) = (self.probe.group(), self.config.hops);
        let all: Vec<ObservedMachine> =
            self.known.iter().take(MAX_HEARD).map(|(_, known)| known.heard).collect();
        self.send_hello(group, HelloPath::Group, hops, 0, all.clone());
        self.number = self.number.wrapping_add(1);
        for link in self.probe.links().to_vec() {
            self.send_hello(link, HelloPath::Link, 1, 0, all.clone());
        }
        self.send_hello(group, HelloPath::Long, hops, self.probe.max_datagram(), Vec::new());
        let far = PROBE_HOP_LIMITS[self.turns as usize % PROBE_HOP_LIMITS.len()];
        if far > hops && hops > 0 {
            self.send_hello(group, HelloPath::Group, far, 0, all.clone());
        }
        if self.turns.is_multiple_of(2) {
            for address in self.config.named.clone() {
                self.send_hello(SocketAddr::new(address, group.port()), HelloPath::Port, 64, 0, all.clone());
            }
        }
        self.turns += 1;
    }

    /// Sends a HELLO and records a send error.
    fn send_hello(
        &mut self,
        to: SocketAddr,
        way: HelloPath,
        ttl: u8,
        len: usize,
        heard: Vec<ObservedMachine>,
    ) {
        let hello = Hello {
            way,
            ttl,
            hops: self.config.hops,
            number: self.number,
            datagram: self.probe.max_datagram() as u32,
            buffer: u32::try_from(self.probe.receive_buffer()).unwrap_or(u32::MAX),
            group: self.probe.group(),
            name: &self.config.name,
            heard,
            origin: Some(ORIGIN),
        };
        let mut bytes = Vec::new();
        hello.emit(self.id, len, &mut bytes);
        let Err(error) = self.probe.send(to, ttl, &bytes) else {
            self.refused.remove(&to.ip());
            return;
        };
        // A full queue, or an ICMP answer to an earlier datagram, tells nothing about the path.
        let passing = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused);
        if let Some(failure) = SendFailure::new(to, &error).filter(|_| !passing && way != HelloPath::Long) {
            self.refused.insert(to.ip(), failure);
        }
    }

    /// Sends a packet train to the group and to each known machine.
    fn send_trains(&mut self) {
        if u32::from(self.trains) >= TRAINS {
            return;
        }
        let (group, hops) = (self.probe.group(), self.config.hops);
        let machines: Vec<SocketAddr> =
            self.known.values().map(|known| SocketAddr::new(known.address, group.port())).collect();
        for to in std::iter::once(group).chain(machines) {
            for index in 0..TRAIN_PACKETS {
                let packet = TrainPacket { id: self.id.0, train: self.trains, index };
                // What the system does not take is missing from the train.
                let _ =
                    self.probe.send(to, hops, &packet.emit(self.probe.max_datagram().min(TRAIN_DATAGRAM)));
            }
        }
        self.trains += 1;
    }

    /// Handles datagrams other than HELLO: those of packet trains, and of relays.
    fn on_other(&mut self, arrival: Arrival, from: SocketAddr, bytes: &[u8]) {
        if arrival == Arrival::Group
            // Relays send such frames in the name of their sender too.
            && let Some(sender) = sender_of_relay(bytes).filter(|sender| sender.ip() != from.ip())
            && (self.relays.len() < MAX_HEARD || self.relays.contains_key(&from.ip()))
        {
            self.relays.insert(from.ip(), sender);
        }
        let Some(packet) = TrainPacket::parse(bytes) else { return };
        let meter = match arrival {
            Arrival::Group => 0,
            Arrival::Port => 1,
            Arrival::Link | Arrival::Own => return,
        };
        if let Some(known) = self.known.get_mut(&packet.id).filter(|known| known.address == from.ip()) {
            known.meters[meter].take(packet, bytes.len() + HEADERS, Instant::now());
        }
    }

    /// Records a received HELLO and answers it.
    fn on_hello(&mut self, arrival: Arrival, from: SocketAddr, bytes: &[u8]) {
        let Ok((AssociationId(id), hello)) = Hello::parse(bytes) else { return };
        let fits = match hello.way {
            HelloPath::Group | HelloPath::Long => arrival == Arrival::Group,
            HelloPath::Link => arrival == Arrival::Link,
            HelloPath::Port | HelloPath::PortAnswer => arrival == Arrival::Port,
            HelloPath::Answer => arrival == Arrival::Own,
        };
        let is_new = !self.known.contains_key(&id);
        if id == self.id.0 || !fits || (is_new && self.known.len() >= MAX_HEARD) {
            return;
        }
        let known = self.known.entry(id).or_insert_with(|| KnownMachine::new(id, from.ip(), &hello));
        known.note_address(from.ip(), self.probe.group().ip());
        known.take(&hello);
        known.want(wants(&self.config.sources, self.probe.group().ip(), known.address));
        if let Some(said) = hello.heard.iter().find(|said| said.id == self.id.0) {
            known.said = Some(*said);
        }
        let heard = known.heard;
        // At most one answer per HELLO, and none to answers.
        let answered = match hello.way {
            HelloPath::Group => hello.ttl == hello.hops,
            HelloPath::Link => !heard.was_received_by(HelloPath::Group),
            HelloPath::Port => true,
            HelloPath::PortAnswer | HelloPath::Answer | HelloPath::Long => false,
        };
        if answered {
            self.send_hello(from, HelloPath::Answer, 64, 0, vec![heard]);
            let port = SocketAddr::new(from.ip(), self.probe.group().port());
            self.send_hello(port, HelloPath::PortAnswer, 64, 0, vec![heard]);
        }
    }

    /// Named machines without an answer so far.
    fn missing(&self) -> Vec<IpAddr> {
        let heard = |address: &IpAddr| self.known.values().any(|known| known.address == *address);
        self.config.named.iter().copied().filter(|address| !heard(address)).collect()
    }

    fn evidence(&self, time: Duration) -> Evidence {
        let routed = self.config.named.iter().map(|&address| (address, self.probe.source_for(address)));
        let elsewhere = routed.filter(|(_, source)| source.is_none_or(|(_, is_own)| !is_own));
        Evidence {
            here: Machine {
                name: self.config.name.clone(),
                group: self.probe.group(),
                hops: self.config.hops,
                datagram: self.probe.max_datagram() as u32,
                buffer: u32::try_from(self.probe.receive_buffer()).unwrap_or(u32::MAX),
                other_release: None,
            },
            confined: None,
            interface: self.probe.interface().to_string(),
            address: self.probe.interface().address,
            wanted_buffer: WANTED_BUFFER as u32,
            peers: self.known.values().map(KnownMachine::peer).collect(),
            elsewhere: elsewhere.map(|(address, source)| (address, source.map(|(ip, _)| ip))).collect(),
            relays: self.relays.iter().map(|(&address, &from)| RelayFinding { address, from }).collect(),
            missing: self.missing(),
            refused: self.refused.clone(),
            seconds: time.as_secs(),
        }
    }
}

impl KnownMachine {
    fn new(id: u32, address: IpAddr, hello: &Hello<'_>) -> KnownMachine {
        KnownMachine {
            machine: Machine {
                name: shown(hello.name, address),
                group: hello.group,
                hops: hello.hops,
                datagram: hello.datagram,
                buffer: hello.buffer,
                other_release: match hello.origin {
                    None => Some(OtherRelease::Earlier(0)),
                    Some((WIRE_VERSION, _)) => None,
                    Some((wire, release)) => Some(OtherRelease::Version { release, wire }),
                },
            },
            name: hello.name.to_owned(),
            address,
            heard: ObservedMachine { id, ..ObservedMachine::default() },
            first: 0,
            last: 0,
            copies: 0,
            said: None,
            meters: [TrainMeter::default(); 2],
        }
    }

    /// Notes whether its multicasts are to arrive here.
    fn want(&mut self, wanted: bool) {
        self.heard.ways = if wanted { self.heard.ways & !UNWANTED } else { self.heard.ways | UNWANTED };
    }

    /// Replaces the address by one of the family of the group. The first HELLO may arrive over the link by IPv6 to a
    /// group of IPv4; named machines, packet trains and reports have addresses of the group's family.
    fn note_address(&mut self, address: IpAddr, group: IpAddr) {
        if self.address.is_ipv4() != group.is_ipv4() && address.is_ipv4() == group.is_ipv4() {
            self.address = address;
            self.machine.name = shown(&self.name, address);
        }
    }

    fn take(&mut self, hello: &Hello<'_>) {
        let heard = &mut self.heard;
        heard.ways |= hello.way.bit();
        if hello.way != HelloPath::Group {
            return;
        }
        if heard.least_ttl == 0 || hello.ttl < heard.least_ttl {
            heard.least_ttl = hello.ttl.max(1);
        }
        if hello.ttl != hello.hops {
            return;
        }
        if heard.came == 0 {
            self.first = hello.number;
        } else if hello.number.wrapping_sub(self.last) as i32 <= 0 {
            self.copies = self.copies.saturating_add(1);
            return;
        }
        self.last = hello.number;
        heard.came = heard.came.saturating_add(1);
        let sent = self.last.wrapping_sub(self.first).saturating_add(1);
        heard.sent = u16::try_from(sent).unwrap_or(u16::MAX);
    }

    fn peer(&self) -> Peer {
        Peer {
            machine: self.machine.clone(),
            address: self.address,
            heard: self.heard,
            copies: self.copies,
            said: self.said,
            rates: self.meters.map(|meter| meter.rate()),
        }
    }
}

/// Returns true if the multicasts of a host are to arrive at a member of the group with these sources. In a group of
/// source-specific multicast, routers pass nothing to members that name no source.
fn wants(sources: &[IpAddr], group: IpAddr, host: IpAddr) -> bool {
    if sources.is_empty() { !is_source_specific(group) } else { sources.contains(&host) }
}

/// Name and address of a machine in reports.
fn shown(name: &str, address: IpAddr) -> String {
    format!("{name} ({address})")
}

/// Interval between two rounds.
const HELLO_INTERVAL: Duration = Duration::from_millis(100);
/// Hop limits that are probed in addition to the configured one.
const PROBE_HOP_LIMITS: [u8; 6] = [2, 3, 4, 8, 16, MAX_HOPS];
/// Number of packet trains to each machine.
const TRAINS: u32 = 3;
/// Number of datagrams of a train.
const TRAIN_PACKETS: u16 = 64;
/// Maximum length of a datagram of a train, in bytes.
const TRAIN_DATAGRAM: usize = 1472;
/// Bytes of IPv4, UDP and Ethernet headers.
const HEADERS: usize = 28 + 14;
/// Receive buffer that `send` and `recv` request, in bytes.
const WANTED_BUFFER: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_the_family_of_the_group_is_kept() {
        let group: IpAddr = [239, 255, 0, 1].into();
        let hello = Hello {
            way: HelloPath::Link,
            ttl: 1,
            hops: 1,
            number: 0,
            datagram: 1472,
            buffer: 0,
            group: SocketAddr::new(group, 7654),
            name: "r1",
            heard: Vec::new(),
            origin: Some(ORIGIN),
        };
        let (link, four, other) = (
            "fe80::1".parse().expect("an address"),
            IpAddr::from([10, 0, 0, 1]),
            IpAddr::from([10, 0, 0, 2]),
        );
        let mut known = KnownMachine::new(7, link, &hello);
        let mut shown_after = |address| {
            known.note_address(address, group);
            known.machine.name.clone()
        };
        assert_eq!(shown_after(link), "r1 (fe80::1)");
        assert_eq!(shown_after(four), "r1 (10.0.0.1)");
        // A copy by a relay or over the link changes nothing.
        assert_eq!(shown_after(other), "r1 (10.0.0.1)");
        assert_eq!(shown_after(link), "r1 (10.0.0.1)");
        assert_eq!(known.address, four);
    }
}
