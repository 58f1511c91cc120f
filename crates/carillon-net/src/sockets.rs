//! Opening of the sockets of an endpoint.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use carillon_core::BitRate;
use ring::rand::{SecureRandom as _, SystemRandom};
use socket2::{Domain, Protocol, Socket, Type};

use crate::config::EndpointConfig;
use crate::copies::{CopyServer, Subscription};
use crate::interface::is_broadcast;
use crate::options::{set_hops, share_port};
use crate::port::Port;
use crate::raw::Raw;
use crate::sources::Membership;
use crate::{Dscp, Interface, OpenError};

/// Creates the server of copies.
pub(crate) fn new_server(rate: BitRate, config: &EndpointConfig) -> Result<Box<CopyServer>, OpenError> {
    let secret = random_bytes().map_err(OpenError::doing("draw a secret"))?;
    let server = CopyServer::new(rate, config.key.clone(), secret);
    Ok(Box::new(if config.copies_without_key { server.without_key() } else { server }))
}

/// Draws random bytes from the system.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(bytes)
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

/// Opens a socket at the address of an interface, which sends multicasts there.
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
    share_port(&socket).map_err(doing("share the port of"))?;
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

/// Opens a UDP socket for the IP version of the group.
pub(crate) fn new_socket(group: SocketAddr) -> Result<Socket, OpenError> {
    let domain = Domain::for_address(group);
    let socket =
        Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).map_err(OpenError::doing("open a socket"))?;
    if group.is_ipv6() {
        socket.set_only_v6(true).map_err(OpenError::doing("open an IPv6 socket"))?;
    }
    Ok(socket)
}

/// Bytes of IP and UDP headers.
pub(crate) fn header_bytes(group: SocketAddr) -> usize {
    if group.is_ipv4() { 28 } else { 48 }
}

/// Stands for the broadcast address of the network of the interface.
pub(crate) const BROADCAST: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

/// Maximum payload of UDP over IPv4, in bytes; also applied to IPv6.
const MAX_DATAGRAM: usize = 65_507;
