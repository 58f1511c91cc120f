//! Endpoint of a host: sockets, peer table, fault injector, rate limit.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use std::time::Instant;

use carillon_core::{Addresses, IntervalSampler, NodeId, Time, TokenBucket};

use crate::branch::Branches;
use crate::config::EndpointConfig;
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
use crate::seal::{SEAL_BYTES, Seal};
use crate::sockets::{
    BROADCAST, header_bytes, mark, max_datagram, new_server, open_multicast, open_unicast, random_bytes,
    seal_group,
};
use crate::sources::{Membership, effective_sources};
use crate::waker::{WakeReceiver, Waker};
use crate::{Choice, Fallback, Interface, OpenError, Stats, SubscriptionState};

/// The sockets of one host, with peer table, fault injector and rate limit.
///
/// A unicast socket with a port of its own sends everything and receives datagrams to this endpoint. A listening
/// endpoint has a second socket, which shares the group's port with other endpoints of the host; each of them
/// receives every multicast.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) group: SocketAddr,
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
    /// Boxed, because few endpoints have several interfaces.
    pub(crate) branches: Box<Branches>,
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
        let EndpointConfig { group, ttl, .. } = config;
        if !group.ip().is_multicast() && (group.ip() != BROADCAST || config.raw.is_some()) {
            return Err(OpenError::NotMulticast { group });
        }
        if group.port() == 0 {
            return Err(OpenError::NoPort { group });
        }
        let (interface, choice) = first_interface(&mut config)?;
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
        let branches = Branches::open(&interface, &config)?;
        let max_datagram = max_datagram.min(branches.max_datagram());
        receive_buffer = receive_buffer.min(branches.receive_buffer());
        let injector = Injector::new(config.drop, &config.seeds);
        let pace = TokenBucket::new(config.rate, PACE_DEPTH);
        Ok(Endpoint {
            group,
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
            branches: Box::new(branches),
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
        self.config.listen = true;
        self.branches.listen(&self.config)
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
        self.config.listen = false;
        self.branches.stop_listening();
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
    /// endpoint with several interfaces has no address for it. An unknown host counts as a relay, which receives on the
    /// group's port.
    pub fn addresses(&self, own: NodeId) -> Addresses {
        Addresses::new(PeerBook {
            peers: self.peers.clone(),
            own,
            // Each interface has an address of its own.
            address: match self.branches.is_empty() {
                true => self.interface.bindable(0),
                false => SocketAddr::new(self.unspecified(), 0),
            },
            group: self.group,
        })
    }

    fn unspecified(&self) -> IpAddr {
        if self.group.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            std::net::Ipv6Addr::UNSPECIFIED.into()
        }
    }

    /// Returns true if packets of a protocol are sent directly over IP.
    pub fn is_raw(&self) -> bool {
        self.raw.is_some()
    }

    /// Path of the data to the member with this address, if it has asked for copies.
    pub fn path(&self, member: SocketAddr) -> Option<Path> {
        let further = self.branches.all().filter_map(|(_, sockets)| sockets.copies.as_deref());
        let mut servers = self.copying.server.as_deref().into_iter().chain(further);
        servers.find_map(|server| server.path(member))
    }

    /// Counters of the copies, if this endpoint serves them.
    pub fn copy_stats(&self) -> Option<CopyStats> {
        let further = self.branches.all().filter_map(|(_, sockets)| sockets.copies.as_deref());
        let servers = self.copying.server.as_deref().into_iter().chain(further);
        servers.map(CopyServer::stats).reduce(|all, one| CopyStats {
            sent: all.sent + one.sent,
            bytes: all.bytes + one.bytes,
            dropped: all.dropped + one.dropped,
            unproven: all.unproven + one.unproven,
        })
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
        let further =
            self.branches.all().flat_map(|(_, one)| std::iter::once(&one.unicast).chain(&one.multicast));
        std::iter::once(&self.unicast).chain(&self.multicast).chain(further).map(Port::kernel_drops).sum()
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
        self.config.ttl
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

/// Chooses the first interface of an endpoint.
fn first_interface(config: &mut EndpointConfig) -> Result<(Interface, Choice), OpenError> {
    refuse_several_interfaces(config)?;
    choose_first(config);
    match (config.from, &config.interface) {
        (Some(from), None) => Ok((Interface::towards(config.group, from)?, Choice::Routed)),
        _ => Interface::choose(config.group, config.interface.as_deref(), config.fallback),
    }
}

/// Refuses options that need a single interface.
fn refuse_several_interfaces(config: &EndpointConfig) -> Result<(), OpenError> {
    let several = !config.further_interfaces.is_empty();
    let needs_one = [(config.raw.is_some(), "raw IP"), (config.from.is_some(), "asking a sender for copies")];
    match needs_one.into_iter().find(|(is_used, _)| several && *is_used) {
        Some((_, option)) => Err(OpenError::OneInterface { option }),
        None => Ok(()),
    }
}

/// Makes the first usable interface of a service the first of all.
fn choose_first(config: &mut EndpointConfig) {
    let usable = |wanted: &str| Interface::choose(config.group, Some(wanted), config.fallback).is_ok();
    if config.fallback == Fallback::OnlyInterface
        && let Some(first) = config.interface.as_deref()
        && !usable(first)
        && let Some(at) = config.further_interfaces.iter().position(|wanted| usable(wanted))
    {
        let wanted = std::mem::take(&mut config.further_interfaces[at]);
        config.further_interfaces[at] = config.interface.replace(wanted).unwrap_or_default();
    }
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

/// Depth of the token bucket in time: more than usual scheduling delays, less than the buffer of a switch port.
const PACE_DEPTH: Duration = Duration::from_millis(1);

/// Maximum number of known peers.
pub(crate) const PEERS: usize = 65_536;
