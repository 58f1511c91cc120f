//! Endpoint of a host: sockets, peer table, fault injector, rate limit.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use std::time::Instant;

use carillon_core::{
    Addresses, BitRate, IntervalSampler, NodeId, Probability, RawIp, Seeds, Time, TokenBucket,
};
use ring::rand::{SecureRandom as _, SystemRandom};
use socket2::{Domain, Protocol, Socket, Type};

use crate::Dscp;
use crate::copies::{CopyServer, CopyStats, NearRelay, Path, Subscription};
use crate::failures::{SendFailure, SendFailures};
use crate::inbox::Inbox;
use crate::injector::Injector;
use crate::interface::is_broadcast;
use crate::options::{enlarge, set_hops};
use crate::outbox::Outbox;
use crate::peer_book::{PeerBook, SharedPeers};
use crate::port::Port;
use crate::raw::Raw;
use crate::seal::{Key, SEAL_BYTES, Seal};
use crate::sources::{Membership, effective_sources};
use crate::waker::{WakeReceiver, Waker};
use crate::{Choice, Fallback, Interface, OpenError, Stats, SubscriptionState};

/// Configuration of an [`Endpoint`].
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The multicast group and its UDP port, IPv4 or IPv6. With the address 255.255.255.255, the broadcasts to this
    /// port on the network of the interface take the place of a group.
    pub group: SocketAddr,
    /// Interface by name or address. `None` selects the interface of the route to the group, or loopback if no route
    /// leads to an interface with multicast.
    pub interface: Option<String>,
    /// Choice if no interface is named and no route leads to the group.
    pub fallback: Fallback,
    /// Hop limit of multicasts.
    pub ttl: u8,
    /// Joins the group and receives its datagrams. A sender that needs only unicast answers does not join.
    pub listen: bool,
    /// Port of the unicast socket; 0 selects a free one. Where a standard names the port, other programs send there.
    pub port: u16,
    /// Share of arriving datagrams that the fault injector drops.
    pub drop: Probability,
    /// Seeds of the fault injector.
    pub seeds: Seeds,
    /// Maximum send rate, IP and UDP headers included.
    pub rate: Option<BitRate>,
    /// Requested receive buffer per socket, in bytes.
    pub receive_buffer: usize,
    /// Key of the group. With it every datagram is sealed, and others are dropped.
    pub key: Option<Key>,
    /// Packets that are sent directly over IP, where permitted; all others use UDP.
    pub raw: Option<RawIp>,
    /// Sender that is asked for unicast copies of its multicasts. Joining the group is optional then.
    pub from: Option<SocketAddr>,
    /// Maximum rate of the copies for receivers that ask for them, headers included; `None` serves none.
    pub copies: Option<BitRate>,
    /// Gives copies to relays without the key too, which cannot read them.
    pub copies_without_key: bool,
    /// Code point of all packets that are sent, for the queues of network devices.
    pub dscp: Option<Dscp>,
    /// Sources of the multicasts that are received (source-specific multicast); empty for all hosts. In a group of
    /// source-specific multicast, `from` is the source if none is named.
    pub sources: Vec<IpAddr>,
}

impl EndpointConfig {
    /// Creates the configuration of a sending endpoint with defaults: interface by route, 16 hops, no faults, no rate
    /// limit, 4 MiB of receive buffer, no key, UDP only.
    pub fn new(group: SocketAddr) -> Self {
        EndpointConfig {
            group,
            interface: None,
            fallback: Fallback::Loopback,
            ttl: 16,
            listen: false,
            port: 0,
            drop: Probability::ZERO,
            seeds: Seeds::new(0),
            rate: None,
            receive_buffer: 4 << 20,
            key: None,
            raw: None,
            from: None,
            copies: None,
            copies_without_key: false,
            dscp: None,
            sources: Vec::new(),
        }
    }
}

/// The sockets of one host, with peer table, fault injector and rate limit.
///
/// A unicast socket with a port of its own sends everything and receives datagrams to this endpoint. A listening
/// endpoint has a second socket, which shares the group's port with other endpoints of the host; each of them
/// receives every multicast.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) group: SocketAddr,
    pub(crate) ttl: u8,
    pub(crate) config: EndpointConfig,
    pub(crate) interface: Interface,
    pub(crate) choice: Choice,
    pub(crate) limits: Limits,
    pub(crate) unicast: Port,
    pub(crate) multicast: Option<Port>,
    /// Boxed, because few endpoints have it.
    pub(crate) raw: Option<Box<Raw>>,
    pub(crate) peers: SharedPeers,
    pub(crate) injector: Injector,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    pub(crate) pace: TokenBucket,
    /// Zero of its drivers' clock.
    pub(crate) clock: Option<Instant>,
    pub(crate) stats: Stats,
    pub(crate) failures: SendFailures,
    pub(crate) seal: Option<Box<Seal>>,
    pub(crate) wakeups: WakeReceiver,
    pub(crate) copying: Copying,
}

/// Limits of the sockets of an endpoint.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Bytes of the largest datagram, with its seal.
    pub(crate) max_datagram: usize,
    /// Datagrams to the group that have become too long for the interface count as lost.
    pub(crate) tolerates_shrinking: bool,
    /// Receive buffer that the system granted, in bytes.
    pub(crate) receive_buffer: usize,
    /// Current hop limit of the sending socket.
    pub(crate) hops: u8,
    /// True if several datagrams may leave in one system call.
    segmentation: bool,
}

/// Unicast copies of multicasts, at either end.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    /// Receivers that get copies.
    pub(crate) server: Option<Box<CopyServer>>,
    /// Subscription to the copies of a sender.
    pub(crate) subscription: Option<Box<Subscription>>,
    /// Relay from which a frame came.
    pub(crate) relay: Option<NearRelay>,
}

impl Endpoint {
    /// Opens the sockets and joins the group if configured.
    pub fn open(mut config: EndpointConfig) -> Result<Endpoint, OpenError> {
        let EndpointConfig { group, ttl, fallback, .. } = config;
        if !group.ip().is_multicast() && (group.ip() != BROADCAST || config.raw.is_some()) {
            return Err(OpenError::NotMulticast { group });
        }
        if group.port() == 0 {
            return Err(OpenError::NoPort { group });
        }
        let (interface, choice) = match (config.from, &config.interface) {
            (Some(from), None) => (Interface::towards(group, from)?, Choice::Routed),
            _ => Interface::choose(group, config.interface.as_deref(), fallback)?,
        };
        let group = interface.zoned(group);
        config.sources = effective_sources(group, &config.sources, config.from)?;
        let membership = Membership::new(group, &interface, &config.sources);
        let unicast = open_unicast(group, config.port, ttl, &interface)?;
        let max_datagram = max_datagram(config.from.unwrap_or(group), &interface)?;
        let seal =
            config.key.clone().map(|key| Seal::new(key, unicast.address, seal_group(group)).map(Box::new));
        let seal = seal.transpose().map_err(OpenError::doing("draw a salt"))?;
        let multicast = if config.listen { open_multicast(&membership).map(Some) } else { Ok(None) };
        // With copies, a network without multicast will do.
        let multicast =
            multicast.or_else(|error| if config.from.is_some() { Ok(None) } else { Err(error) })?;
        let copies = config.copies.map(|rate| new_server(rate, &config)).transpose()?;
        let subscription = match config.from {
            Some(from) => Some(subscribe(from, group, ttl, &interface, &config)?),
            None => None,
        };
        if config.raw.is_some() && seal.is_some() {
            return Err(OpenError::RawSealed);
        }
        let raw = config.raw.map(|ip| Raw::open(ip, group, ttl, &interface).map(Box::new));
        let mut raw = raw.transpose()?;
        mark(config.dscp, group, Some(&unicast), subscription.as_deref(), raw.as_deref())?;
        let mut receive_buffer = usize::MAX;
        if let Some(raw) = &mut raw {
            if config.listen {
                raw.listen(&membership)?;
            }
            receive_buffer = raw.enlarge(config.receive_buffer)?;
        }
        let copied = subscription.as_ref().map(|subscription| &subscription.port);
        for port in std::iter::once(&unicast).chain(&multicast).chain(copied) {
            receive_buffer = receive_buffer.min(enlarge(&port.socket, config.receive_buffer)?);
        }
        let injector = Injector::new(config.drop, &config.seeds);
        let pace = TokenBucket::new(config.rate, PACE_DEPTH);
        Ok(Endpoint {
            group,
            ttl,
            config,
            interface,
            choice,
            limits: Limits {
                max_datagram,
                tolerates_shrinking: false,
                receive_buffer,
                hops: ttl,
                segmentation: true,
            },
            unicast,
            multicast,
            raw,
            peers: SharedPeers::new(PEERS),
            injector,
            inbox: Inbox::new(),
            outbox: Outbox::default(),
            pace,
            clock: None,
            stats: Stats::default(),
            failures: SendFailures::default(),
            seal,
            wakeups: WakeReceiver::new().map_err(OpenError::doing("open a pair of sockets"))?,
            copying: Copying { server: copies, subscription, relay: None },
        })
    }

    /// Joins the group, unless it is a member already.
    pub fn listen(&mut self) -> Result<(), OpenError> {
        let membership = Membership::new(self.group, &self.interface, &self.config.sources);
        if self.multicast.is_none() {
            self.multicast = Some(open_multicast(&membership)?);
        }
        if let Some(raw) = &mut self.raw {
            raw.listen(&membership)?;
        }
        Ok(())
    }

    /// Returns true if broadcasts take the place of a group.
    pub fn broadcasts(&self) -> bool {
        is_broadcast(self.group)
    }

    /// Returns true if the endpoint is a member of the group.
    pub fn listens(&self) -> bool {
        self.multicast.is_some()
    }

    /// Sources of the multicasts that are received; empty for all hosts.
    pub fn sources(&self) -> &[IpAddr] {
        &self.config.sources
    }

    /// Membership of the sockets that receive the group.
    pub(crate) fn membership(&self) -> Membership<'_> {
        Membership::new(self.group, &self.interface, &self.config.sources)
    }

    /// Returns true if the multicasts of this host are received.
    pub(crate) fn has_source(&self, host: IpAddr) -> bool {
        self.config.sources.is_empty() || self.config.sources.contains(&host)
    }

    /// Leaves the group: only unicast to this endpoint is received.
    pub fn stop_listening(&mut self) {
        self.multicast = None;
        if let Some(raw) = &mut self.raw {
            raw.stop_listening();
        }
    }

    /// Assigns a number to a peer before its first datagram and keeps it: it is not replaced while it sends now and
    /// then. `None` if the table is full of such peers.
    pub fn keep_peer(&mut self, now: Time, address: SocketAddr) -> Option<NodeId> {
        self.peers.keep(now, address)
    }

    /// Waker of this endpoint's driver, for other threads.
    pub fn waker(&self) -> Waker {
        self.wakeups.waker()
    }

    /// Turns segmentation offload off or on, for measurements and for faulty network hardware.
    pub fn set_segmentation(&mut self, on: bool) {
        self.limits.segmentation = on;
    }

    /// Drops arriving datagrams at these intervals as well.
    pub fn drop_one_in(&mut self, one_in: IntervalSampler) {
        self.injector.drop_one_in(one_in);
    }

    /// The address of a peer, as long as it is known.
    pub fn peer(&self, node: NodeId) -> Option<SocketAddr> {
        self.peers.address(node)
    }

    /// Addresses of this endpoint, its peers and its group, for the machine of a node that calls itself `own`. An
    /// unknown host counts as a relay, which receives on the group's port.
    pub fn addresses(&self, own: NodeId) -> Addresses {
        Addresses::new(PeerBook {
            peers: self.peers.clone(),
            own,
            address: self.interface.bindable(0),
            group: self.group,
        })
    }

    /// Returns true if packets of a protocol are sent directly over IP.
    pub fn is_raw(&self) -> bool {
        self.raw.is_some()
    }

    /// Path of the data to the member with this address, if it has asked for copies.
    pub fn path(&self, member: SocketAddr) -> Option<Path> {
        self.copying.server.as_ref()?.path(member)
    }

    /// Counters of the copies, if this endpoint serves them.
    pub fn copy_stats(&self) -> Option<CopyStats> {
        self.copying.server.as_ref().map(|copies| copies.stats())
    }

    /// State of the subscription to copies, if a sender is asked for them.
    pub fn subscription(&self) -> Option<SubscriptionState> {
        self.copying.subscription.as_ref().map(|subscription| subscription.state())
    }

    /// Number of known peers.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// The group and its port.
    pub fn group(&self) -> SocketAddr {
        self.group
    }

    /// The interface in use.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Way in which the interface was chosen.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Source address of this endpoint.
    pub fn local_addr(&self) -> SocketAddr {
        self.unicast.address
    }

    /// Maximum datagram of a machine in bytes: the interface's MTU without IP and UDP headers and without the seal. A
    /// packet directly over IP may be longer by a UDP header.
    pub fn max_datagram(&self) -> usize {
        self.limits.max_datagram.saturating_sub(self.seal_bytes())
    }

    /// Decides what happens to datagrams to the group that become too long because the MTU of the interface shrinks:
    /// they count as lost, or end the driver with [`DriveError::TooLarge`](crate::DriveError::TooLarge), the default.
    /// For hosts that find out what reaches others and send shorter datagrams then.
    pub fn tolerate_shrinking(&mut self, on: bool) {
        self.limits.tolerates_shrinking = on;
    }

    /// Maximum datagram to the group in bytes that the interface carries now, if the system tells it.
    pub(crate) fn max_datagram_now(&self) -> Option<usize> {
        let interface =
            Interface::choose(self.group, Some(&self.interface.name), self.config.fallback).ok()?.0;
        let max = max_datagram(self.group, &interface).ok()?;
        Some(max.saturating_sub(self.seal_bytes()))
    }

    /// MTU of the interface or of the route to the group, in bytes with all headers, at most the longest UDP
    /// datagram.
    pub fn mtu(&self) -> usize {
        self.limits.max_datagram + header_bytes(self.group)
    }

    /// Bytes that the seal adds to each datagram; 0 without a key.
    pub fn seal_bytes(&self) -> usize {
        if self.seal.is_some() { SEAL_BYTES } else { 0 }
    }

    /// Receive buffer per socket that the system granted, in bytes; possibly less than requested.
    pub fn receive_buffer(&self) -> usize {
        self.limits.receive_buffer
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Latest send error to this host or group, unless a later datagram was accepted.
    pub fn send_failure(&self, host: IpAddr) -> Option<SendFailure> {
        self.failures.to_host(host)
    }

    /// Datagrams that the system dropped because a receive buffer was full, since the sockets were opened. `None` if
    /// the system does not report it. Reads a file, so not for every turn.
    pub fn kernel_drops(&self) -> Option<u64> {
        std::iter::once(&self.unicast).chain(&self.multicast).map(Port::kernel_drops).sum()
    }

    /// Maximum number of datagrams per system call.
    pub(crate) fn max_segments(&self) -> usize {
        if self.limits.segmentation { self.unicast.state.max_gso_segments().clamp(1, 64) } else { 1 }
    }

    /// Bytes of IP and UDP headers.
    pub(crate) fn header_bytes(&self) -> usize {
        header_bytes(self.group)
    }

    /// Configured hop limit of multicasts: 1 stays on the network of the interface.
    pub fn hops(&self) -> u8 {
        self.ttl
    }

    /// Sets the hop limit of the following multicasts.
    pub(crate) fn set_hops(&mut self, hops: u8) -> io::Result<()> {
        if self.limits.hops != hops {
            set_hops(&self.unicast.socket, self.group, hops)?;
            self.limits.hops = hops;
        }
        Ok(())
    }
}

/// Creates the server of copies.
fn new_server(rate: BitRate, config: &EndpointConfig) -> Result<Box<CopyServer>, OpenError> {
    let secret = random_bytes().map_err(OpenError::doing("draw a secret"))?;
    let server = CopyServer::new(rate, config.key.clone(), secret);
    Ok(Box::new(if config.copies_without_key { server.without_key() } else { server }))
}

/// Opens the socket for copies of this sender.
pub(crate) fn subscribe(
    from: SocketAddr,
    group: SocketAddr,
    ttl: u8,
    interface: &Interface,
    config: &EndpointConfig,
) -> Result<Box<Subscription>, OpenError> {
    let port = open_unicast(group, 0, ttl, interface)?;
    let token = random_bytes().map_err(OpenError::doing("draw a token"))?;
    Ok(Box::new(Subscription::new(from, port, config.key.clone(), u64::from_be_bytes(token))))
}

/// Marks what the sockets send with this code point, if there is one.
pub(crate) fn mark(
    dscp: Option<Dscp>,
    group: SocketAddr,
    unicast: Option<&Port>,
    subscription: Option<&Subscription>,
    raw: Option<&Raw>,
) -> Result<(), OpenError> {
    let Some(dscp) = dscp else { return Ok(()) };
    let ports = unicast.into_iter().chain(subscription.map(|subscription| &subscription.port));
    for socket in ports.map(|port| &port.socket).chain(raw.map(Raw::sending)) {
        dscp.mark(socket, group).map_err(OpenError::doing(format!("set the DSCP {dscp}")))?;
    }
    Ok(())
}

/// Draws random bytes from the system.
fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(bytes)
}

pub(crate) fn open_unicast(
    group: SocketAddr,
    port: u16,
    ttl: u8,
    interface: &Interface,
) -> Result<Port, OpenError> {
    let socket = new_socket(group)?;
    let doing = |what: &str| OpenError::doing(format!("{what} on {interface}"));
    let to_interface = match (group, interface.address) {
        (SocketAddr::V4(_), IpAddr::V4(address)) => socket.set_multicast_if_v4(&address),
        _ => socket.set_multicast_if_v6(interface.index),
    };
    to_interface.map_err(doing("send multicast"))?;
    let looped = match group {
        SocketAddr::V4(_) => socket.set_multicast_loop_v4(true),
        SocketAddr::V6(_) => socket.set_multicast_loop_v6(true),
    };
    looped.map_err(doing("turn multicast loopback on"))?;
    set_hops(&socket, group, ttl).map_err(doing("set the hop limit"))?;
    if is_broadcast(group) {
        socket.set_broadcast(true).map_err(doing("send broadcasts"))?;
    }
    let address = interface.bindable(port);
    socket.bind(&address.into()).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => OpenError::PortTaken { address },
        io::ErrorKind::AddrNotAvailable => {
            OpenError::AddressNotReady { name: interface.name.clone(), address: interface.address }
        }
        _ => doing("bind a port")(error),
    })?;
    Port::new(socket).map_err(doing("set a socket up"))
}

/// The group as seals name it. Broadcasts have the same name on every network, as a receiver may be on another one and
/// get copies.
pub(crate) fn seal_group(group: SocketAddr) -> SocketAddr {
    if is_broadcast(group) { SocketAddr::new(BROADCAST, group.port()) } else { group }
}

/// Opens a socket that shares the port of the group and receives it.
pub(crate) fn open_multicast(membership: &Membership<'_>) -> Result<Port, OpenError> {
    let (group, interface) = (membership.group(), membership.interface());
    let socket = new_socket(group)?;
    let doing = |what: &str| OpenError::doing(format!("{what} {group} on {interface}"));
    socket.set_reuse_address(true).map_err(doing("share the port of"))?;
    socket.set_reuse_port(true).map_err(doing("share the port of"))?;
    // Binding to the group instead of the wildcard address excludes unicast to this port.
    socket.bind(&group.into()).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => OpenError::PortTaken { address: group },
        _ => doing("bind the port of")(error),
    })?;
    membership.join(&socket).map_err(|error| membership.refused(error))?;
    // Otherwise Linux also delivers multicasts from interfaces that other sockets have joined on.
    #[cfg(target_os = "linux")]
    match group {
        SocketAddr::V4(_) => socket.set_multicast_all_v4(false),
        SocketAddr::V6(_) => socket.set_multicast_all_v6(false),
    }
    .map_err(doing("listen only to"))?;
    Port::new(socket).map_err(doing("set a socket up for"))
}

/// Returns the largest datagram that fits the path to the group, and checks that there is a route.
pub(crate) fn max_datagram(group: SocketAddr, interface: &Interface) -> Result<usize, OpenError> {
    let probe = open_unicast(group, 0, 0, interface)?.socket;
    probe.connect(&group.into()).map_err(|error| match error.kind() {
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            OpenError::NoRoute { group, name: interface.name.clone(), advice: route_advice(group, interface) }
        }
        _ => OpenError::doing(format!("reach {group} on {interface}"))(error),
    })?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let routed = if group.is_ipv4() {
        nix::sys::socket::getsockopt(&probe, nix::sys::socket::sockopt::IpMtu).ok()
    } else {
        None
    };
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let routed: Option<i32> = None;
    let mtu = routed.and_then(|mtu| usize::try_from(mtu).ok()).unwrap_or_else(|| interface.mtu());
    Ok(mtu.saturating_sub(header_bytes(group)).min(MAX_DATAGRAM))
}

/// Linux creates an IPv6 multicast route for every multicast interface except loopback.
fn route_advice(group: SocketAddr, interface: &Interface) -> String {
    if group.is_ipv6() && interface.loopback {
        let name = &interface.name;
        format!("use an IPv4 group, or add one (`ip -6 route add local ff00::/8 dev {name} table local`)")
    } else {
        format!("add one (`ip route add {} dev {}`) or choose another interface", group.ip(), interface.name)
    }
}

pub(crate) fn new_socket(group: SocketAddr) -> Result<Socket, OpenError> {
    let domain = Domain::for_address(group);
    let socket =
        Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).map_err(OpenError::doing("open a socket"))?;
    if group.is_ipv6() {
        socket.set_only_v6(true).map_err(OpenError::doing("open an IPv6 socket"))?;
    }
    Ok(socket)
}

fn header_bytes(group: SocketAddr) -> usize {
    if group.is_ipv4() { 28 } else { 48 }
}

/// Stands for the broadcast address of the network of the interface.
const BROADCAST: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

/// Depth of the token bucket in time: more than usual scheduling delays, less than the buffer of a switch port.
const PACE_DEPTH: Duration = Duration::from_millis(1);

/// Maximum number of known peers.
pub(crate) const PEERS: usize = 65_536;

/// Maximum payload of UDP over IPv4, in bytes; also applied to IPv6.
const MAX_DATAGRAM: usize = 65_507;
