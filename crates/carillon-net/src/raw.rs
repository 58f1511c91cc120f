//! Packets directly over IP, for a protocol with a protocol number.
//!
//! Such packets have no ports, so a sender is known only by its host address: a packet is attributed to the peer
//! there that is known over UDP. A host therefore has one endpoint, and loopback with its single address none. Other
//! datagrams, such as session packets, use UDP.
//!
//! IPv4 only. Segmentation offload and batches need UDP: each packet takes a system call here.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use bytes::Bytes;
use carillon_core::RawIp;
use nix::sys::socket::{SockaddrIn, recvfrom};
use socket2::{Domain, Protocol, Socket, Type};

use crate::options::{enlarge, set_hops};
use crate::sources::Membership;
use crate::{Interface, OpenError};

/// Returns the protocol's packet in an IP packet with its header, if it is one.
fn packet_in(raw: RawIp, ip: &[u8]) -> Option<&[u8]> {
    let header = usize::from(ip.first()? & 0x0f) * 4;
    ip.get(header..).filter(|packet| (raw.carries)(packet))
}

/// Raw sockets of an endpoint.
#[derive(Debug)]
pub(crate) struct Raw {
    ip: RawIp,
    /// Sends, and receives unicast to this host.
    unicast: Socket,
    /// Receives the group.
    multicast: Option<Socket>,
    pub(crate) address: Ipv4Addr,
    group: SocketAddr,
    /// Current hop limit of the sending socket.
    hops: u8,
    buf: Vec<u8>,
}

impl Raw {
    pub(crate) fn open(
        ip: RawIp,
        group: SocketAddr,
        hops: u8,
        interface: &Interface,
    ) -> Result<Self, OpenError> {
        let (SocketAddr::V4(_), IpAddr::V4(address)) = (group, interface.address) else {
            return Err(OpenError::RawNeedsIpv4 { group });
        };
        if interface.loopback {
            return Err(OpenError::RawOnLoopback { name: interface.name.clone() });
        }
        let doing = |what: &str| OpenError::doing(format!("{what} on {interface}"));
        let unicast = new_socket(ip)?;
        unicast.set_multicast_if_v4(&address).map_err(doing("send multicast"))?;
        set_hops(&unicast, group, hops).map_err(doing("set the hop limit"))?;
        unicast.bind(&bindable(address)).map_err(doing("bind a raw socket"))?;
        Ok(Raw { ip, unicast, multicast: None, address, group, hops, buf: vec![0; MAX_PACKET] })
    }

    /// Joins the group unless it is joined.
    pub(crate) fn listen(&mut self, membership: &Membership<'_>) -> Result<(), OpenError> {
        let IpAddr::V4(group) = self.group.ip() else { return Ok(()) };
        if self.multicast.is_some() {
            return Ok(());
        }
        let interface = membership.interface();
        let doing = |what: &str| OpenError::doing(format!("{what} {group} on {interface}"));
        let socket = new_socket(self.ip)?;
        socket.bind(&bindable(group)).map_err(doing("bind a raw socket to"))?;
        membership.join(&socket).map_err(|error| membership.refused(error))?;
        // Otherwise Linux also delivers multicasts from interfaces that other sockets have joined on.
        #[cfg(target_os = "linux")]
        socket.set_multicast_all_v4(false).map_err(doing("listen only to"))?;
        self.multicast = Some(socket);
        Ok(())
    }

    pub(crate) fn stop_listening(&mut self) {
        self.multicast = None;
    }

    /// Requests a receive buffer per socket; returns the granted size in bytes.
    pub(crate) fn enlarge(&self, bytes: usize) -> Result<usize, OpenError> {
        let granted =
            std::iter::once(&self.unicast).chain(&self.multicast).map(|socket| enlarge(socket, bytes));
        granted.reduce(|one, other| Ok(one?.min(other?))).unwrap_or(Ok(bytes))
    }

    /// Returns true if this packet is sent directly over IP.
    pub(crate) fn carries(&self, bytes: &[u8]) -> bool {
        (self.ip.carries)(bytes)
    }

    /// Sends one packet, with a hop limit for a multicast.
    pub(crate) fn send(&mut self, to: SocketAddr, hops: Option<u8>, bytes: &[u8]) -> io::Result<()> {
        if let Some(hops) = hops.filter(|hops| *hops != self.hops) {
            set_hops(&self.unicast, self.group, hops)?;
            self.hops = hops;
        }
        // A port has no meaning here, and the system refuses some.
        let to = SocketAddr::new(to.ip(), 0);
        self.unicast.send_to(bytes, &to.into()).map(drop)
    }

    /// Returns the next packet to the group, or to this host, with its source host. Other packets of the protocol
    /// number are dropped.
    pub(crate) fn receive(&mut self, multicast: bool) -> io::Result<(Ipv4Addr, Bytes)> {
        let socket = if multicast { self.multicast.as_ref() } else { Some(&self.unicast) };
        let socket = socket.ok_or(io::ErrorKind::WouldBlock)?;
        loop {
            let (len, source) = recvfrom::<SockaddrIn>(socket.as_raw_fd(), &mut self.buf)?;
            if let Some((source, packet)) = source.zip(packet_in(self.ip, &self.buf[..len])) {
                return Ok((source.ip(), Bytes::copy_from_slice(packet)));
            }
        }
    }

    /// The socket that sends.
    pub(crate) fn sending(&self) -> &Socket {
        &self.unicast
    }

    /// Descriptors for waiting: the unicast socket, and that of the group.
    pub(crate) fn fds(&self) -> (BorrowedFd<'_>, Option<BorrowedFd<'_>>) {
        (self.unicast.as_fd(), self.multicast.as_ref().map(|socket| socket.as_fd()))
    }
}

fn new_socket(ip: RawIp) -> Result<Socket, OpenError> {
    let protocol = Protocol::from(i32::from(ip.protocol));
    let socket =
        Socket::new(Domain::IPV4, Type::RAW, Some(protocol)).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => OpenError::RawForbidden { protocol: ip.protocol },
            _ => OpenError::doing("open a raw socket")(error),
        })?;
    socket.set_nonblocking(true).map_err(OpenError::doing("set a raw socket up"))?;
    Ok(socket)
}

fn bindable(address: Ipv4Addr) -> socket2::SockAddr {
    SocketAddrV4::new(address, 0).into()
}

/// Maximum length of an IPv4 packet.
const MAX_PACKET: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_a_packet_if_the_protocol_number_matches() {
        let ip = RawIp { protocol: 36, carries: |packet| packet == b"abc" };
        let mut packet = vec![0x46];
        packet.resize(24, 0);
        packet.extend_from_slice(b"abc");
        assert_eq!(packet_in(ip, &packet), Some(&b"abc"[..]));
        packet.push(0);
        assert_eq!(packet_in(ip, &packet), None, "it is none of the protocol");
        let all = RawIp { carries: |_| true, ..ip };
        assert_eq!(packet_in(all, &packet[..24]), Some(&b""[..]));
        assert_eq!(packet_in(all, &packet[..23]), None, "it is shorter than its header");
        assert_eq!(packet_in(all, &[]), None);
    }
}
