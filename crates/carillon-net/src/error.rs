//! What can go wrong: one line each that says which and what to do.

use std::io;
use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;
use thiserror::Error;

/// Why an endpoint could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The group is a unicast address.
    #[error(
        "{group} is not a multicast group: choose an address from 224.0.0.0/4, such as 239.255.77.77, or from ff00::/8"
    )]
    NotMulticast {
        /// The address given.
        group: SocketAddr,
    },
    /// The group names port 0, which cannot be shared.
    #[error("group {group} has no port: give one from 1 to 65535")]
    NoPort {
        /// The address given.
        group: SocketAddr,
    },
    /// No interface has this name or address.
    #[error("no interface has the name or address `{wanted}`: this system has {available}")]
    NoSuchInterface {
        /// What was asked for.
        wanted: String,
        /// The names that exist.
        available: String,
    },
    /// The group is link-local, so that each network has one of its own, and no interface was named.
    #[error("group {group} is another one on each network: say which with --interface (here: {available})")]
    NeedsInterface {
        /// The group.
        group: SocketAddr,
        /// The interfaces that could be named.
        available: String,
    },
    /// The interface exists but is not up.
    #[error("interface {name} is down: bring it up (`ip link set {name} up`) or choose another")]
    InterfaceDown {
        /// Its name.
        name: String,
    },
    /// The interface exists but cannot do multicast.
    #[error("interface {name} does not do multicast: choose another")]
    InterfaceWithoutMulticast {
        /// Its name.
        name: String,
    },
    /// The interface has no address of the group's family.
    #[error("interface {name} has no {family} address: choose another, or a group of the other IP version")]
    NoAddress {
        /// Its name.
        name: String,
        /// `IPv4` or `IPv6`.
        family: &'static str,
    },
    /// The interface's address cannot be used yet: IPv6 checks a new address for a second or two.
    #[error("address {address} of interface {name} is not ready for use: try again in a few seconds")]
    AddressNotReady {
        /// The interface's name.
        name: String,
        /// Its address.
        address: IpAddr,
    },
    /// The system has no route for the group out of the interface.
    #[error("no multicast route to {group} on interface {name}: {advice}")]
    NoRoute {
        /// The group.
        group: SocketAddr,
        /// The interface's name.
        name: String,
        /// What would help.
        advice: String,
    },
    /// No interface was named, and none leads to the group yet.
    #[error("there is no route to {}: {advice}", group.ip())]
    NoNetwork {
        /// The group.
        group: SocketAddr,
        /// What is missing, or what would help.
        advice: String,
    },
    /// Another program has the port and does not share it.
    #[error(
        "port {} is taken by a program that does not share it (group {address}): stop it or choose another port",
        address.port()
    )]
    PortTaken {
        /// The address that could not be bound.
        address: SocketAddr,
    },
    /// What is sealed is no packet of the protocol any more.
    #[error("packets right over IP cannot be sealed: leave out the key, or let them go over UDP")]
    RawSealed,
    /// Raw packets are of IPv4.
    #[error("packets right over IP are of IPv4 here, and {group} is not: choose a group from 224.0.0.0/4")]
    RawNeedsIpv4 {
        /// The group.
        group: SocketAddr,
    },
    /// On loopback all ends have one address.
    #[error(
        "packets right over IP have no ports, so that ends on {name} cannot be told apart: choose another interface"
    )]
    RawOnLoopback {
        /// The interface's name.
        name: String,
    },
    /// Raw sockets need a privilege.
    #[error(
        "no permission to send packets right over IP (protocol {protocol}), which takes the capability CAP_NET_RAW: run as root, or let them go over UDP"
    )]
    RawForbidden {
        /// The number of the protocol.
        protocol: u8,
    },
    /// The system does not allow it.
    #[error("no permission to {doing}: run as a user who may, or choose another port or interface")]
    Permission {
        /// What was attempted.
        doing: String,
    },
    /// Anything else.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was attempted.
        doing: String,
        /// What the system says.
        source: io::Error,
    },
}

impl OpenError {
    /// Whether the reason is a network that is not there yet, or not there any more, so that waiting can help.
    #[must_use]
    pub fn is_absent_network(&self) -> bool {
        match self {
            OpenError::NoSuchInterface { .. }
            | OpenError::InterfaceDown { .. }
            | OpenError::NoAddress { .. }
            | OpenError::AddressNotReady { .. }
            | OpenError::NoRoute { .. }
            | OpenError::NoNetwork { .. } => true,
            OpenError::Io { source, .. } => matches!(
                source.raw_os_error().map(Errno::from_raw),
                Some(
                    Errno::ENODEV
                        | Errno::ENXIO
                        | Errno::EADDRNOTAVAIL
                        | Errno::ENETDOWN
                        | Errno::ENETUNREACH
                        | Errno::EHOSTUNREACH
                )
            ),
            _ => false,
        }
    }

    /// For mapping the result of one system call.
    pub(crate) fn doing(doing: impl Into<String>) -> impl FnOnce(io::Error) -> OpenError {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => OpenError::Permission { doing: doing.into() },
            _ => OpenError::Io { doing: doing.into(), source },
        }
    }
}

/// Why a driver cannot go on. What passes by itself (an unreachable peer, a full queue) is counted
/// in [`Stats`](crate::Stats) instead.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The machine made a datagram that the interface cannot carry.
    #[error(
        "a datagram of {len} bytes does not fit interface {interface}, which carries {max}: choose smaller messages"
    )]
    TooLarge {
        /// Its bytes.
        len: usize,
        /// The most possible.
        max: usize,
        /// The interface's name.
        interface: String,
    },
    /// Sending is broken.
    #[error("cannot send to {to}: {source}")]
    Send {
        /// Where to.
        to: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Receiving is broken.
    #[error("cannot receive on {address}: {source}")]
    Receive {
        /// The socket's address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Waiting is broken.
    #[error("cannot wait for the sockets: {0}")]
    Wait(#[source] io::Error),
}
