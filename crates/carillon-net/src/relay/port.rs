//! An interface of a relay: a socket that sends packets with complete headers there.

use std::io;
use std::net::{IpAddr, SocketAddr};

use nix::libc;
use socket2::{Domain, Protocol, Socket, Type};

use crate::{Interface, OpenError};

/// An interface of the relay.
#[derive(Debug)]
pub(super) struct Port {
    interface: Interface,
    all_addresses: Vec<IpAddr>,
    /// Sends datagrams with complete headers through this interface.
    raw: Socket,
}

impl Port {
    /// Opens the socket, for the IP version of the interface's address.
    pub(super) fn open(interface: Interface) -> Result<Port, OpenError> {
        let domain = if interface.address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        // With this protocol number the socket takes complete headers and receives nothing (raw(7)).
        let raw = Socket::new(domain, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))
            .map_err(OpenError::doing("open a raw socket, for which a relay needs root or CAP_NET_RAW"))?;
        let doing = || OpenError::doing(format!("send on {interface}"));
        raw.bind_device(Some(interface.name.as_bytes())).map_err(doing())?;
        match interface.address {
            IpAddr::V4(address) => raw.set_multicast_if_v4(&address),
            IpAddr::V6(_) => raw.set_multicast_if_v6(interface.index),
        }
        .map_err(doing())?;
        raw.set_nonblocking(true).map_err(doing())?;
        // Bursts of forwarded datagrams wait in this buffer.
        raw.set_send_buffer_size(SEND_BUFFER).map_err(doing())?;
        let all_addresses = interface.addresses().map_err(OpenError::doing("list the network interfaces"))?;
        let port = Port { interface, all_addresses, raw };
        port.loop_back(false).map_err(OpenError::doing("turn multicast loopback off"))?;
        Ok(port)
    }

    pub(super) fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Address of the interface, by which the relay makes itself known.
    pub(super) fn address(&self) -> IpAddr {
        self.interface.address
    }

    /// Returns true for each address of the interface.
    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        self.all_addresses.contains(&address)
    }

    /// Decides whether other sockets of this host receive what is sent.
    pub(super) fn loop_back(&self, on: bool) -> io::Result<()> {
        match self.interface.address {
            IpAddr::V4(_) => self.raw.set_multicast_loop_v4(on),
            IpAddr::V6(_) => self.raw.set_multicast_loop_v6(on),
        }
    }
}

/// Sends a packet with complete headers through an interface.
pub(super) fn send_packet(port: &Port, packet: &[u8], mut to: SocketAddr) -> io::Result<()> {
    if to.is_ipv6() {
        // The port of a raw IPv6 socket is a protocol number (raw(7), ipv6(7)).
        to.set_port(0);
    }
    port.raw.send_to(packet, &to.into()).map(drop)
}

/// Bytes of the send buffer of an interface.
const SEND_BUFFER: usize = 4 << 20;
