//! Sockets, peers and faults: everything of a host but the machine.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;
use std::time::Instant;

use carillon_core::{
    Addresses, BitRate, GroupId, IntervalSampler, NodeId, Probability, RawIp, Seeds, Time, TokenBucket,
};
use quinn_udp::UdpSocketState;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

use crate::failures::{SendFailure, SendFailures};
use crate::inbox::Inbox;
use crate::injector::Injector;
use crate::options::{enlarge, refuse_ancillary_data, set_hops};
use crate::outbox::Outbox;
use crate::peer_book::{PeerBook, SharedPeers};
use crate::raw::Raw;
use crate::seal::{Key, SEAL_BYTES, Seal};
use crate::waker::{WakeReceiver, Waker};
use crate::{Choice, Fallback, Interface, OpenError, Stats};

/// What an [`Endpoint`] is to be.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The multicast group and its UDP port, IPv4 or IPv6.
    pub group: SocketAddr,
    /// The interface by name or address. `None` is the one the system would use for the group, or
    /// loopback if no interface with multicast has a route for it.
    pub interface: Option<String>,
    /// What is used when no interface is named and no route leads to the group.
    pub fallback: Fallback,
    /// Router hops a multicast may travel at most.
    pub ttl: u8,
    /// Whether to join the group and hear what is sent to it. A sender that hears only what is
    /// sent to itself need not.
    pub listen: bool,
    /// How many of the datagrams that arrive the fault injector drops.
    pub drop: Probability,
    /// Where the fault injector's random stream comes from.
    pub seeds: Seeds,
    /// The rate at which to send at most, IP and UDP headers included.
    pub rate: Option<BitRate>,
    /// Bytes of receive buffer to ask the system for, per socket.
    pub receive_buffer: usize,
    /// What the group shares: with it everything is sealed, and what is not sealed with it is dropped.
    pub key: Option<Key>,
    /// Packets that go right over IP, where that is permitted; all else goes over UDP.
    pub raw: Option<RawIp>,
}

impl EndpointConfig {
    /// A sending endpoint for this group, everything else as usual: interface by route, 16 hops,
    /// no faults, no rate limit, 4 MiB of receive buffer, no key, everything over UDP.
    pub fn new(group: SocketAddr) -> Self {
        EndpointConfig {
            group,
            interface: None,
            fallback: Fallback::Loopback,
            ttl: 16,
            listen: false,
            drop: Probability::ZERO,
            seeds: Seeds::new(0),
            rate: None,
            receive_buffer: 4 << 20,
            key: None,
            raw: None,
        }
    }
}

/// The sockets of one host, its table of peers, its fault injector and rate limit.
///
/// One socket has a port of its own: it sends everything and receives what is sent to this host
/// alone. If the endpoint listens, another one shares the group's port with every other endpoint of
/// this host that listens to the group; each of them gets every multicast.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) group: SocketAddr,
    pub(crate) ttl: u8,
    pub(crate) config: EndpointConfig,
    pub(crate) interface: Interface,
    pub(crate) choice: Choice,
    pub(crate) max_datagram: usize,
    pub(crate) receive_buffer: usize,
    pub(crate) unicast: Port,
    pub(crate) multicast: Option<Port>,
    /// Boxed: few have it.
    pub(crate) raw: Option<Box<Raw>>,
    pub(crate) peers: SharedPeers,
    pub(crate) injector: Injector,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    pub(crate) pace: TokenBucket,
    /// When the clock of its drivers was zero.
    pub(crate) clock: Option<Instant>,
    pub(crate) stats: Stats,
    pub(crate) failures: SendFailures,
    pub(crate) seal: Option<Box<Seal>>,
    pub(crate) wakeups: WakeReceiver,
    /// The hop limit the sending socket has now.
    pub(crate) hops: u8,
    segmentation: bool,
}

/// A socket with its batching state.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) socket: Socket,
    pub(crate) state: UdpSocketState,
    pub(crate) address: SocketAddr,
}

/// The number a driver's own node has; peers are numbered from 1 in the order they are heard.
pub const SELF: NodeId = NodeId(0);

/// The number of a node as the driver of `host` calls it, if nodes are numbered from without, and back: a driver calls
/// its own node [`SELF`], which is also the number of the first one, so that each exchanges the two.
pub fn swapped(host: NodeId, node: NodeId) -> NodeId {
    match node {
        SELF => host,
        _ if node == host => SELF,
        other => other,
    }
}

/// The number the endpoint's one group has in what machines receive.
pub const GROUP: GroupId = GroupId(0);

impl Endpoint {
    /// Opens the sockets and, if it is to listen, joins the group.
    pub fn open(config: EndpointConfig) -> Result<Endpoint, OpenError> {
        let EndpointConfig { group, ttl, fallback, .. } = config;
        if !group.ip().is_multicast() {
            return Err(OpenError::NotMulticast { group });
        }
        if group.port() == 0 {
            return Err(OpenError::NoPort { group });
        }
        let (interface, choice) = Interface::choose(group, config.interface.as_deref(), fallback)?;
        let group = interface.zoned(group);
        let unicast = open_unicast(group, ttl, &interface)?;
        let max_datagram = max_datagram(group, &interface)?;
        let seal = config.key.clone().map(|key| Seal::new(key, unicast.address, group).map(Box::new));
        let seal = seal.transpose().map_err(OpenError::doing("draw a salt"))?;
        let multicast = if config.listen { Some(open_multicast(group, &interface)?) } else { None };
        if config.raw.is_some() && seal.is_some() {
            return Err(OpenError::RawSealed);
        }
        let raw = config.raw.map(|ip| Raw::open(ip, group, ttl, &interface).map(Box::new));
        let mut raw = raw.transpose()?;
        let mut receive_buffer = usize::MAX;
        if let Some(raw) = &mut raw {
            if config.listen {
                raw.listen(&interface)?;
            }
            receive_buffer = raw.enlarge(config.receive_buffer)?;
        }
        for port in std::iter::once(&unicast).chain(&multicast) {
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
            max_datagram,
            receive_buffer,
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
            hops: ttl,
            segmentation: true,
        })
    }

    /// Joins the group and hears what is sent to it from now on, if it does not already.
    pub fn listen(&mut self) -> Result<(), OpenError> {
        if self.multicast.is_none() {
            self.multicast = Some(open_multicast(self.group, &self.interface)?);
        }
        if let Some(raw) = &mut self.raw {
            raw.listen(&self.interface)?;
        }
        Ok(())
    }

    /// Leaves the group: from now on only what is sent to this endpoint alone is heard.
    pub fn stop_listening(&mut self) {
        self.multicast = None;
        if let Some(raw) = &mut self.raw {
            raw.stop_listening();
        }
    }

    /// Gives a peer its number before it is heard, and keeps it: it is not replaced by others while
    /// it is heard now and then. `None` if the table is full of such peers.
    pub fn keep_peer(&mut self, now: Time, address: SocketAddr) -> Option<NodeId> {
        self.peers.keep(now, address)
    }

    /// What makes a driver of this endpoint take a turn, for other threads.
    pub fn waker(&self) -> Waker {
        self.wakeups.waker()
    }

    /// Turns segmentation offload off, or on again: for measurements, and for networks whose
    /// hardware does it wrong.
    pub fn set_segmentation(&mut self, on: bool) {
        self.segmentation = on;
    }

    /// Has the fault injector drop these too, of the datagrams that arrive.
    pub fn drop_one_in(&mut self, one_in: IntervalSampler) {
        self.injector.drop_one_in(one_in);
    }

    /// The address of a peer, as long as it is known.
    pub fn peer(&self, node: NodeId) -> Option<SocketAddr> {
        self.peers.address(node)
    }

    /// The addresses of this endpoint, its peers and its group, for the machine of a node that calls
    /// itself `own`. A host that is not among the peers is taken for a relay, which hears on the
    /// group's port.
    pub fn addresses(&self, own: NodeId) -> Addresses {
        Addresses::new(PeerBook {
            peers: self.peers.clone(),
            own,
            address: self.interface.bindable(0),
            group: self.group,
        })
    }

    /// Whether packets of a protocol go right over IP.
    pub fn is_raw(&self) -> bool {
        self.raw.is_some()
    }

    /// How many peers are known.
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

    /// How the interface was chosen.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The address this endpoint sends from and can be sent to.
    pub fn local_addr(&self) -> SocketAddr {
        self.unicast.address
    }

    /// The largest datagram that a machine may send: what the interface carries in one piece, its MTU less IP and UDP
    /// headers, less the seal if there is one. A packet that goes right over IP may be longer by a UDP header.
    pub fn max_datagram(&self) -> usize {
        self.max_datagram.saturating_sub(self.seal_bytes())
    }

    /// What the interface, or the route to the group, carries at once, all headers included; no more than the longest datagram and its.
    pub fn mtu(&self) -> usize {
        self.max_datagram + header_bytes(self.group)
    }

    /// Bytes that the seal adds to each datagram; none without a key.
    pub fn seal_bytes(&self) -> usize {
        if self.seal.is_some() { SEAL_BYTES } else { 0 }
    }

    /// The receive buffer the system granted per socket, in bytes; it may be less than asked for.
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// What was counted so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What the system said last when it did not take a datagram to this host or group, unless it has taken one since.
    pub fn send_failure(&self, host: IpAddr) -> Option<SendFailure> {
        self.failures.to_host(host)
    }

    /// Datagrams the system dropped because a receive buffer was full, since the sockets were
    /// opened. `None` where the system does not tell. Reads a file: not for every turn.
    pub fn kernel_drops(&self) -> Option<u64> {
        std::iter::once(&self.unicast).chain(&self.multicast).map(Port::kernel_drops).sum()
    }

    /// How many datagrams may share a system call.
    pub(crate) fn max_segments(&self) -> usize {
        if self.segmentation { self.unicast.state.max_gso_segments().clamp(1, 64) } else { 1 }
    }

    /// Bytes of IP and UDP headers.
    pub(crate) fn header_bytes(&self) -> usize {
        header_bytes(self.group)
    }

    /// Sets the hop limit of the multicasts that follow.
    pub(crate) fn set_hops(&mut self, hops: u8) -> io::Result<()> {
        if self.hops != hops {
            set_hops(&self.unicast.socket, self.group, hops)?;
            self.hops = hops;
        }
        Ok(())
    }
}

impl Port {
    pub(crate) fn new(socket: Socket) -> io::Result<Port> {
        let state = UdpSocketState::new((&socket).into())?;
        let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        refuse_ancillary_data(&socket, address);
        Ok(Port { socket, state, address })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The last column of the socket's line in the kernel's table, found by its inode.
    fn kernel_drops(&self) -> Option<u64> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", self.socket.as_raw_fd())).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned();
        let table = if self.address.is_ipv4() { "udp" } else { "udp6" };
        let look = || {
            let table = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).ok()?;
            table.lines().find_map(|line| {
                let mut fields = line.split_ascii_whitespace().skip(9);
                (fields.next()? == inode).then(|| fields.last()?.parse().ok())?
            })
        };
        // The system goes through the table piece by piece, and misses lines when others are removed meanwhile.
        (0..3).find_map(|_| look())
    }
}

pub(crate) fn open_unicast(group: SocketAddr, ttl: u8, interface: &Interface) -> Result<Port, OpenError> {
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
    socket.bind(&interface.bindable(0).into()).map_err(|error| match error.kind() {
        io::ErrorKind::AddrNotAvailable => {
            OpenError::AddressNotReady { name: interface.name.clone(), address: interface.address }
        }
        _ => doing("bind a port")(error),
    })?;
    Port::new(socket).map_err(doing("set a socket up"))
}

pub(crate) fn open_multicast(group: SocketAddr, interface: &Interface) -> Result<Port, OpenError> {
    let socket = new_socket(group)?;
    let doing = |what: &str| OpenError::doing(format!("{what} {group} on {interface}"));
    socket.set_reuse_address(true).map_err(doing("share the port of"))?;
    socket.set_reuse_port(true).map_err(doing("share the port of"))?;
    // Bound to the group, not to the wildcard: what is sent to this port otherwise stays out.
    socket.bind(&group.into()).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => OpenError::PortTaken { address: group },
        _ => doing("bind the port of")(error),
    })?;
    let joined = match group {
        SocketAddr::V4(v4) => {
            socket.join_multicast_v4_n(v4.ip(), &InterfaceIndexOrAddress::Index(interface.index))
        }
        SocketAddr::V6(v6) => socket.join_multicast_v6(v6.ip(), interface.index),
    };
    joined.map_err(doing("join group"))?;
    // Without this, Linux also hands over what came in on interfaces that others have joined on.
    #[cfg(target_os = "linux")]
    match group {
        SocketAddr::V4(_) => socket.set_multicast_all_v4(false),
        SocketAddr::V6(_) => socket.set_multicast_all_v6(false),
    }
    .map_err(doing("listen only to"))?;
    Port::new(socket).map_err(doing("set a socket up for"))
}

/// The largest datagram that goes to the group in one piece; finds out whether there is a route.
pub(crate) fn max_datagram(group: SocketAddr, interface: &Interface) -> Result<usize, OpenError> {
    let probe = open_unicast(group, 0, interface)?.socket;
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

/// Linux gives every interface that does multicast an IPv6 route for it, but not loopback.
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

/// Time's worth of bytes that may go out at once: more than a scheduler is usually late, less than the buffer of a
/// switch port.
const PACE_DEPTH: Duration = Duration::from_millis(1);

/// Peers known at a time.
pub(crate) const PEERS: usize = 65_536;

/// The most a UDP datagram over IPv4 can carry; IPv6 is held to the same.
const MAX_DATAGRAM: usize = 65_507;
