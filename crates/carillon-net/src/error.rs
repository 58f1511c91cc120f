//! Errors of endpoints and drivers: one line each, with a remedy where one is known.

use std::io;
use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;
use thiserror::Error;

/// Reason why an endpoint could not be opened.
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
        /// The requested name or address.
        wanted: String,
        /// Existing names.
        available: String,
    },
    /// The group is link-local, so that each network has one of its own, and no interface was named.
    #[error(
        "group {group} exists on each network separately: name an interface with --interface (here: {available})"
    )]
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
    #[error("interface {name} does not support multicast: choose another")]
    InterfaceWithoutMulticast {
        /// Its name.
        name: String,
    },
    /// The interface has no IPv4 network with broadcasts.
    #[error("interface {name} has no IPv4 broadcast address: choose another, or use multicast")]
    NoBroadcast {
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
        /// The remedy.
        advice: String,
    },
    /// No interface was named, and none leads to the group yet.
    #[error("there is no route to {}: {advice}", group.ip())]
    NoNetwork {
        /// The group.
        group: SocketAddr,
        /// The cause or the remedy.
        advice: String,
    },
    /// No route leads to the sender that was named.
    #[error("there is no route to {host}: check the address and the network")]
    NoPath {
        /// The sender's address.
        host: IpAddr,
    },
    /// The sender that was named has an address of the other IP version.
    #[error("the sender {host} and the group {group} have different IP versions: choose another --group")]
    OtherFamily {
        /// The group.
        group: SocketAddr,
        /// The sender's address.
        host: SocketAddr,
    },
    /// Receivers behind a relay cannot answer the sender that was named.
    #[error(
        "receivers behind a relay cannot answer {host}, which is valid on one link only: give another address of the sender"
    )]
    LinkLocalSender {
        /// The sender's address.
        host: IpAddr,
    },
    /// Too many interfaces are named.
    #[error("{count} interfaces are too many: name at most {limit}")]
    TooManyInterfaces {
        /// Number of interfaces.
        count: usize,
        /// Maximum number.
        limit: usize,
    },
    /// The option needs a single interface.
    #[error("{option} works with one interface: name one")]
    OneInterface {
        /// The option.
        option: &'static str,
    },
    /// The address cannot be the source of multicasts to the group.
    #[error(
        "{host} cannot be a source of group {group}: give the address of a sender, of the IP version of the group"
    )]
    UnfitSource {
        /// The group.
        group: SocketAddr,
        /// The address given.
        host: IpAddr,
    },
    /// The system limits the sources of a group.
    #[error(
        "the system does not take {count} sources of group {group}: raise its limit (`sysctl {setting}={count}`)"
    )]
    TooManySources {
        /// The group.
        group: SocketAddr,
        /// Number of sources.
        count: usize,
        /// Name of the limit.
        setting: &'static str,
    },
    /// Another program uses the port without sharing it.
    #[error(
        "port {} is taken by a program that does not share it (group {address}): stop it or choose another port",
        address.port()
    )]
    PortTaken {
        /// The address that could not be bound.
        address: SocketAddr,
    },
    /// A sealed datagram is not a packet of the protocol.
    #[error("packets sent directly over IP cannot be sealed: leave out the key, or use UDP")]
    RawSealed,
    /// Raw packets are supported for IPv4 only.
    #[error(
        "packets can be sent directly over IPv4 only, and {group} is not IPv4: choose a group from 224.0.0.0/4"
    )]
    RawNeedsIpv4 {
        /// The group.
        group: SocketAddr,
    },
    /// Endpoints on loopback all have the same address.
    #[error(
        "packets sent directly over IP have no ports, so endpoints on {name} cannot be distinguished: choose another interface"
    )]
    RawOnLoopback {
        /// The interface's name.
        name: String,
    },
    /// Raw sockets need a privilege.
    #[error(
        "no permission to send packets directly over IP (protocol {protocol}), which needs the capability CAP_NET_RAW: run as root, or use UDP"
    )]
    RawForbidden {
        /// The number of the protocol.
        protocol: u8,
    },
    /// The system denied permission.
    #[error(
        "no permission to {doing}: run as a user with that permission, or choose another port or interface"
    )]
    Permission {
        /// The attempted operation.
        doing: String,
    },
    /// Any other error.
    #[error("cannot {doing}: {source}")]
    Io {
        /// The attempted operation.
        doing: String,
        /// Error of the system.
        source: io::Error,
    },
}

impl OpenError {
    /// Returns true if the network is absent, so that waiting may help.
    #[must_use]
    pub fn is_absent_network(&self) -> bool {
        match self {
            OpenError::NoSuchInterface { .. }
            | OpenError::InterfaceDown { .. }
            | OpenError::NoAddress { .. }
            | OpenError::NoBroadcast { .. }
            | OpenError::AddressNotReady { .. }
            | OpenError::NoRoute { .. }
            | OpenError::NoPath { .. }
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

    /// Converts the error of one system call.
    pub(crate) fn doing(doing: impl Into<String>) -> impl FnOnce(io::Error) -> OpenError {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => OpenError::Permission { doing: doing.into() },
            _ => OpenError::Io { doing: doing.into(), source },
        }
    }
}

/// Reason why a driver cannot continue. Temporary errors (an unreachable peer, a full queue) are counted in
/// [`Stats`](crate::Stats) instead.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The machine emitted a datagram that the interface cannot carry.
    #[error(
        "a datagram of {len} bytes does not fit interface {interface}, which carries {max}: choose smaller messages"
    )]
    TooLarge {
        /// Length of the datagram in bytes.
        len: usize,
        /// Maximum length in bytes.
        max: usize,
        /// The interface's name.
        interface: String,
    },
    /// Sending failed.
    #[error("cannot send to {to}: {source}")]
    Send {
        /// Destination.
        to: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// Receiving failed.
    #[error("cannot receive on {address}: {source}")]
    Receive {
        /// The socket's address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// Waiting failed.
    #[error("cannot wait for the sockets: {0}")]
    Wait(#[source] io::Error),
}
