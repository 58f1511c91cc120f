//! Sockets for diagnosing the paths between two machines.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use socket2::Socket;

use crate::options::{enlarge, set_hops, share_port};
use crate::sockets::{max_datagram, new_socket, open_multicast, open_unicast};
use crate::sources::{Membership, effective_sources};
use crate::{Choice, Fallback, Interface, OpenError};

/// Path by which a datagram arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// To the group.
    Group,
    /// To all hosts of the link.
    Link,
    /// To the group's port of this machine.
    Port,
    /// To the port that this machine sends from.
    Own,
}

/// Sockets of a host like those of an [`Endpoint`](crate::Endpoint). Additional ones receive the all-hosts groups of
/// the link and unicast on the group's port, in both address families if the interface has both.
#[derive(Debug)]
pub struct Probe {
    group: SocketAddr,
    interface: Interface,
    choice: Choice,
    datagram: usize,
    buffer: usize,
    /// Sending sockets, one per family, that of the group first.
    own: Vec<Socket>,
    listening: Vec<(Arrival, Socket)>,
    /// Addresses of the all-hosts groups of the link.
    links: Vec<SocketAddr>,
}

impl Probe {
    /// Opens the sockets with this receive buffer. Multicasts to the group are received from these sources only; none
    /// stands for all. Errors of the group's sockets are returned; the additional sockets
    /// are optional.
    pub fn open(
        group: SocketAddr,
        interface: Option<&str>,
        sources: &[IpAddr],
        buffer: usize,
    ) -> Result<Probe, OpenError> {
        if !group.ip().is_multicast() {
            return Err(OpenError::NotMulticast { group });
        }
        if group.port() == 0 {
            return Err(OpenError::NoPort { group });
        }
        let (interface, choice) = Interface::choose(group, interface, Fallback::Loopback)?;
        let group = interface.zoned(group);
        let own = open_unicast(group, 0, 1, &interface)?.socket;
        let datagram = max_datagram(group, &interface)?;
        let sources = effective_sources(group, sources, None)?;
        let hears = open_multicast(&Membership::new(group, &interface, &sources))?.socket;
        let buffer = enlarge(&own, buffer)?.min(enlarge(&hears, buffer)?);
        let mut probe = Probe {
            listening: vec![(Arrival::Group, hears)],
            own: vec![own],
            links: Vec::new(),
            group,
            interface,
            choice,
            datagram,
            buffer,
        };
        probe.hear_link(group.is_ipv4());
        probe.hear_link(!group.is_ipv4());
        for (_, socket) in &probe.listening {
            socket.set_nonblocking(true).map_err(OpenError::doing("set a socket up"))?;
        }
        for socket in &probe.own {
            socket.set_nonblocking(true).map_err(OpenError::doing("set a socket up"))?;
        }
        Ok(probe)
    }

    /// Opens the sockets for all hosts of the link and the group's port in one family, as far as possible.
    fn hear_link(&mut self, four: bool) {
        let port = self.group.port();
        let (all, any): (IpAddr, IpAddr) = match four {
            true => (Ipv4Addr::new(224, 0, 0, 1).into(), Ipv4Addr::UNSPECIFIED.into()),
            false => (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).into(), Ipv6Addr::UNSPECIFIED.into()),
        };
        let link = SocketAddr::new(all, port);
        let Ok((interface, _)) = Interface::choose(link, Some(&self.interface.name), Fallback::Loopback)
        else {
            return;
        };
        let link = interface.zoned(link);
        if four != self.group.is_ipv4() {
            let Ok(own) = open_unicast(link, 0, 1, &interface) else { return };
            self.own.push(own.socket);
        }
        if let Ok(port) = open_multicast(&Membership::new(link, &interface, &[])) {
            self.listening.push((Arrival::Link, port.socket));
            self.links.push(link);
        }
        if let Ok(socket) = hear_port(SocketAddr::new(any, port)) {
            self.listening.push((Arrival::Port, socket));
        }
    }

    /// The group.
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

    /// Maximum datagram of the interface in bytes.
    pub fn max_datagram(&self) -> usize {
        self.datagram
    }

    /// Receive buffer that the system granted, in bytes.
    pub fn receive_buffer(&self) -> usize {
        self.buffer
    }

    /// Addresses of the all-hosts groups of the link, one per family.
    pub fn links(&self) -> &[SocketAddr] {
        &self.links
    }

    /// Source address for datagrams to this address, with true if it belongs to the interface in use.
    pub fn source_for(&self, address: IpAddr) -> Option<(IpAddr, bool)> {
        let any: IpAddr = match address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((address, self.group.port())).ok()?;
        let source = socket.local_addr().ok()?.ip();
        Some((source, self.interface.addresses().is_ok_and(|own| own.contains(&source))))
    }

    /// Sends from the port that receives answers, with this hop limit for a multicast.
    pub fn send(&self, to: SocketAddr, hops: u8, bytes: &[u8]) -> io::Result<()> {
        let four = self.group.is_ipv4() == to.is_ipv4();
        let socket = self.own.get(usize::from(!four)).ok_or(io::ErrorKind::AddrNotAvailable)?;
        if to.ip().is_multicast() {
            set_hops(socket, to, hops)?;
        }
        socket.send_to(bytes, &to.into()).map(drop)
    }

    /// Receives the next datagram before the deadline: its path, its source, and the bytes written to `buf`.
    pub fn receive(
        &self,
        until: Instant,
        buf: &mut [u8],
    ) -> io::Result<Option<(Arrival, SocketAddr, usize)>> {
        let own = self.own.iter().map(|socket| (Arrival::Own, socket));
        let all: Vec<_> =
            self.listening.iter().map(|(arrival, socket)| (*arrival, socket)).chain(own).collect();
        loop {
            for (arrival, socket) in &all {
                // The socket type reads into uninitialised memory; the standard type takes a plain buffer.
                match nix::sys::socket::recvfrom::<nix::sys::socket::SockaddrStorage>(fd(socket), buf) {
                    Ok((len, Some(from))) => {
                        if let Some(from) = address(&from) {
                            return Ok(Some((*arrival, from, len)));
                        }
                    }
                    // An ICMP answer to an earlier datagram may report that the port is closed.
                    Ok((_, None)) | Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let mut fds: Vec<PollFd<'_>> =
                all.iter().map(|(_, socket)| PollFd::new(socket.as_fd(), PollFlags::POLLIN)).collect();
            let left = left.min(Duration::from_secs(1)) + Duration::from_millis(1);
            match nix::poll::poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn fd(socket: &Socket) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(socket)
}

fn address(from: &nix::sys::socket::SockaddrStorage) -> Option<SocketAddr> {
    let four = from.as_sockaddr_in().map(|four| SocketAddr::new(four.ip().into(), four.port()));
    four.or_else(|| from.as_sockaddr_in6().map(|six| SocketAddr::V6((*six).into())))
}

/// Opens a socket for unicast to this port; the group's own socket receives only multicast.
fn hear_port(address: SocketAddr) -> Result<Socket, OpenError> {
    let socket = new_socket(address)?;
    let doing = || OpenError::doing(format!("hear {address}"));
    share_port(&socket).map_err(doing())?;
    socket.bind(&address.into()).map_err(doing())?;
    #[cfg(target_os = "linux")]
    match address {
        SocketAddr::V4(_) => socket.set_multicast_all_v4(false),
        SocketAddr::V6(_) => socket.set_multicast_all_v6(false),
    }
    .map_err(doing())?;
    Ok(socket)
}
