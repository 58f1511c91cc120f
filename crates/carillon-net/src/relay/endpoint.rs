//! Sockets of a relay: one that receives on all its interfaces, and a sending one per interface.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use bytes::Bytes;
use carillon_core::{Addresses, Dest, NodeId, PortId, Time};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, sendmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::packet::{self, Header};
use super::paths::Paths;
use super::port::{Port, send_packet};
use super::stats::RelayStats;
use crate::endpoint::PEERS;
use crate::failures::passes;
use crate::options::{enlarge, share_port};
use crate::peer_book::{PeerBook, SharedPeers};
use crate::sources::{Membership, effective_sources};
use crate::{DriveError, Fallback, Interface, OpenError, SELF};

/// Configuration of a [`RelayEndpoint`].
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The multicast group and its UDP port.
    pub group: SocketAddrV4,
    /// Interfaces by name or address, in the order of the relay's ports. The address of the first one identifies the
    /// relay: all members must be able to reach it.
    pub interfaces: Vec<String>,
    /// Sources of the multicasts that are forwarded (source-specific multicast); empty for all hosts.
    pub sources: Vec<IpAddr>,
    /// Requested receive buffer in bytes.
    pub receive_buffer: usize,
}

/// The sockets of a relay, and its table of peers.
#[derive(Debug)]
pub struct RelayEndpoint {
    pub(super) group: SocketAddrV4,
    config: RelayConfig,
    ports: Vec<Port>,
    /// Socket on the group's port, for the group and for unicast to the relay.
    socket: Socket,
    pub(super) peers: SharedPeers,
    paths: Paths,
    pub(super) stats: RelayStats,
    received: Vec<u8>,
    control: Vec<u8>,
    packet: Vec<u8>,
}

/// A datagram that has arrived.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) source: SocketAddrV4,
    pub(super) ingress: PortId,
    /// True if it was sent to the group, otherwise to the relay.
    pub(super) to_group: bool,
    pub(super) ttl: u8,
    pub(super) bytes: Bytes,
}

impl RelayEndpoint {
    /// Opens the sockets and joins the group on all interfaces. Requires the privilege for raw sockets.
    pub fn open(mut config: RelayConfig) -> Result<Self, OpenError> {
        let group = config.group;
        if !group.ip().is_multicast() {
            return Err(OpenError::NotMulticast { group: group.into() });
        }
        if group.port() == 0 {
            return Err(OpenError::NoPort { group: group.into() });
        }
        let mut ports: Vec<Port> = Vec::new();
        for name in &config.interfaces {
            let (interface, _) = Interface::choose(group.into(), Some(name), Fallback::Loopback)?;
            if ports.iter().all(|port| port.interface().index != interface.index) {
                ports.push(Port::open(interface)?);
            }
        }
        config.sources = effective_sources(group.into(), &config.sources, None)?;
        let socket = open_socket(group, &ports, &config.sources)?;
        enlarge(&socket, config.receive_buffer)?;
        Ok(RelayEndpoint {
            group,
            config,
            ports,
            socket,
            peers: SharedPeers::new(PEERS),
            paths: Paths::default(),
            stats: RelayStats::default(),
            received: vec![0; MAX_DATAGRAM],
            control: nix::cmsg_space!(libc::in_pktinfo, libc::c_int),
            packet: Vec::new(),
        })
    }

    /// Returns true if all interfaces still exist with their addresses and are up.
    pub fn is_current(&self) -> bool {
        self.ports.iter().all(|port| port.interface().is_present())
    }

    /// Moves to the current interfaces of the same names. Peers and counters are kept. After an error the endpoint is
    /// unchanged.
    pub fn reopen(&mut self) -> Result<(), OpenError> {
        let RelayEndpoint { ports, socket, paths, .. } = RelayEndpoint::open(self.config.clone())?;
        (self.ports, self.socket, self.paths) = (ports, socket, paths);
        Ok(())
    }

    /// Leaves and joins the group on each interface, so that switches learn the membership again.
    pub fn renew_membership(&mut self) {
        for port in &self.ports {
            let membership = Membership::new(self.group.into(), port.interface(), &self.config.sources);
            // A removed interface has no membership; [`RelayEndpoint::is_current`] detects that.
            let _ = membership.leave(&self.socket);
            let _ = membership.join(&self.socket);
        }
    }

    /// The interfaces, in the order of the relay's ports.
    pub fn interfaces(&self) -> impl Iterator<Item = &Interface> {
        self.ports.iter().map(Port::interface)
    }

    /// Address that identifies the relay.
    pub fn address(&self) -> Ipv4Addr {
        match self.ports.first().map(Port::address) {
            Some(IpAddr::V4(address)) => address,
            _ => Ipv4Addr::UNSPECIFIED,
        }
    }

    /// The addresses of the relay, its peers and its group, for a machine that calls itself [`SELF`].
    pub fn addresses(&self) -> Addresses {
        let address = SocketAddr::new(self.address().into(), 0);
        Addresses::new(PeerBook { peers: self.peers.clone(), own: SELF, address, group: self.group.into() })
    }

    /// Counters.
    pub fn stats(&self) -> &RelayStats {
        &self.stats
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Ports through which a multicast from `ingress` may leave.
    pub(super) fn others(&self, ingress: PortId) -> impl Iterator<Item = PortId> + use<> {
        (0..self.ports.len() as u16).map(PortId).filter(move |&port| port != ingress)
    }

    /// Returns the next datagram that must not be ignored; `None` if there is none.
    pub(super) fn receive(&mut self, now: Time) -> Result<Option<Arrival>, DriveError> {
        for _ in 0..MAX_IGNORED_READS {
            match self.read() {
                Ok(Some(arrival)) if !arrival.to_group || self.is_on_path(now, &arrival) => {
                    return Ok(Some(arrival));
                }
                Ok(Some(_)) => self.stats.off_path += 1,
                Ok(None) => {}
                Err(Errno::EAGAIN) => return Ok(None),
                Err(error) if passes(&error.into()) => self.stats.errors += 1,
                Err(error) => {
                    return Err(DriveError::Receive { address: self.group.into(), source: error.into() });
                }
            }
        }
        Ok(None)
    }

    /// Reads one datagram; `None` if it arrived through none of the ports.
    fn read(&mut self) -> Result<Option<Arrival>, Errno> {
        let mut space = [IoSliceMut::new(&mut self.received)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let message =
            recvmsg::<SockaddrIn>(self.socket.as_raw_fd(), &mut space, Some(&mut self.control), flags)?;
        let (mut came, mut ttl) = (None, 0);
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::Ipv4PacketInfo(info) => came = Some(info),
                ControlMessageOwned::Ipv4Ttl(hops) => ttl = u8::try_from(hops).unwrap_or(0),
                _ => {}
            }
        }
        let (Some(source), Some(info), len) = (message.address, came, message.bytes) else { return Ok(None) };
        let ingress = self
            .ports
            .iter()
            .position(|port| i64::from(port.interface().index) == i64::from(info.ipi_ifindex));
        let Some(ingress) = ingress else { return Ok(None) };
        let to = Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr));
        // Datagrams from port 0 cannot be answered, and other groups are not handled here.
        if source.port() == 0 || to.is_multicast() && to != *self.group.ip() {
            return Ok(None);
        }
        Ok(Some(Arrival {
            source: SocketAddrV4::new(source.ip(), source.port()),
            ingress: PortId(ingress as u16),
            to_group: to.is_multicast(),
            ttl,
            bytes: Bytes::copy_from_slice(&self.received[..len]),
        }))
    }

    /// Reverse-path check: returns true if a multicast arrived through the interface towards its source, and not from
    /// this host.
    fn is_on_path(&mut self, now: Time, arrival: &Arrival) -> bool {
        let is_own = |port: &Port| port.has_address((*arrival.source.ip()).into());
        if self.ports.iter().any(is_own) {
            return false;
        }
        let own = self.paths.towards(now, *arrival.source.ip());
        own.is_some_and(|own| self.ports[usize::from(arrival.ingress.0)].has_address(own))
    }

    /// Forwards a multicast through these ports with its original source; returns the number of ports that accepted
    /// it.
    pub(super) fn forward(
        &mut self,
        source: SocketAddrV4,
        ttl: u8,
        bytes: &[u8],
        ports: impl Iterator<Item = PortId>,
    ) -> u64 {
        let header = Header { source: source.into(), destination: self.group.into(), ttl };
        ports.map(|port| u64::from(self.send_raw(port, header, bytes))).sum()
    }

    /// Sends a datagram of the machine.
    pub(super) fn send(&mut self, now: Time, dest: &Dest, bytes: &[u8]) {
        let reach = |node: NodeId| match self.peers.reach(now, node) {
            Some(SocketAddr::V4(address)) => Some(address),
            _ => None,
        };
        let own = SocketAddrV4::new(self.address(), self.group.port());
        let (source, ports, dest) = match dest {
            Dest::Node(node) => match reach(*node) {
                Some(address) => return self.send_to(address, bytes),
                None => return self.stats.unroutable += 1,
            },
            Dest::Group { .. } => (Some(own), self.others(NO_PORT).collect(), dest),
            Dest::Ports { ports, source, dest } => {
                let source = if *source == SELF { Some(own) } else { reach(*source) };
                (source, ports.iter().collect::<Vec<_>>(), &**dest)
            }
        };
        let (destination, ttl) = match dest {
            Dest::Group { scope, .. } => (Some(self.group), scope.0.min(TTL)),
            Dest::Node(node) => (reach(*node), TTL),
            Dest::Ports { .. } => (None, 0),
        };
        let (Some(source), Some(destination)) = (source, destination) else {
            return self.stats.unroutable += 1;
        };
        for port in ports {
            let header = Header { source: source.into(), destination: destination.into(), ttl };
            if self.send_raw(port, header, bytes) {
                self.stats.directed += 1;
            }
        }
    }

    /// Sends to one node from the relay's address.
    fn send_to(&mut self, to: SocketAddrV4, bytes: &[u8]) {
        let from = libc::in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: libc::in_addr { s_addr: u32::from(self.address()).to_be() },
            ipi_addr: libc::in_addr { s_addr: 0 },
        };
        let control = [ControlMessage::Ipv4PacketInfo(&from)];
        let (flags, to) = (MsgFlags::MSG_DONTWAIT, SockaddrIn::from(to));
        match sendmsg(self.socket.as_raw_fd(), &[IoSlice::new(bytes)], &control, flags, Some(&to)) {
            Ok(_) => self.stats.sent += 1,
            Err(Errno::EMSGSIZE) => self.stats.too_large += 1,
            Err(_) => self.stats.errors += 1,
        }
    }

    fn send_raw(&mut self, port: PortId, header: Header, bytes: &[u8]) -> bool {
        let Some(port) = self.ports.get(usize::from(port.0)) else {
            self.stats.unroutable += 1;
            return false;
        };
        if !packet::write(header, bytes, &mut self.packet) {
            self.stats.too_large += 1;
            return false;
        }
        match send_packet(port, &self.packet, header.destination) {
            Ok(()) => return true,
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => self.stats.too_large += 1,
            // A full queue drops a datagram, as in any router.
            Err(_) => self.stats.errors += 1,
        }
        false
    }
}

fn open_socket(group: SocketAddrV4, ports: &[Port], sources: &[IpAddr]) -> Result<Socket, OpenError> {
    let doing = || OpenError::doing(format!("listen to {group}"));
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).map_err(doing())?;
    share_port(&socket).map_err(doing())?;
    setsockopt(&socket, sockopt::Ipv4PacketInfo, &true).map_err(io::Error::from).map_err(doing())?;
    setsockopt(&socket, sockopt::Ipv4RecvTtl, &true).map_err(io::Error::from).map_err(doing())?;
    // Only the groups joined below are received.
    socket.set_multicast_all_v4(false).map_err(doing())?;
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, group.port()));
    socket.bind(&any.into()).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => OpenError::PortTaken { address: any },
        _ => doing()(error),
    })?;
    for port in ports {
        let membership = Membership::new(group.into(), port.interface(), sources);
        membership.join(&socket).map_err(|error| membership.refused(error))?;
    }
    Ok(socket)
}

/// Maximum number of ignored datagrams read in a row.
const MAX_IGNORED_READS: usize = 64;

/// Hop limit of datagrams that the relay originates.
const TTL: u8 = 64;

/// Port number that no relay has.
const NO_PORT: PortId = PortId(u16::MAX);

/// Maximum bytes of a datagram.
const MAX_DATAGRAM: usize = 65_535;
