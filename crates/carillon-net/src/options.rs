//! Socket options.

use std::io;
use std::net::SocketAddr;

use socket2::Socket;

use crate::OpenError;

/// Requests a receive buffer, beyond the system's limit if privileges permit; returns the granted size in bytes.
pub(crate) fn enlarge(socket: &Socket, bytes: usize) -> Result<usize, OpenError> {
    let doing = || OpenError::doing("set the receive buffer");
    socket.set_recv_buffer_size(bytes).map_err(doing())?;
    // Linux grants and reports twice the requested size, for its own bookkeeping.
    let doubled = if cfg!(any(target_os = "linux", target_os = "android")) { 2 } else { 1 };
    let granted = || socket.recv_buffer_size().map(|size| size / doubled);
    let first = granted().map_err(doing())?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if first < bytes {
        use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
        if setsockopt(socket, RcvBufForce, &bytes).is_ok() {
            return granted().map_err(doing());
        }
    }
    Ok(first)
}

/// Lets several sockets of this host receive what comes to the same group and port.
///
/// SO_REUSEADDR does that alone on Linux. With SO_REUSEPORT, Linux 6.18 passes a multicast for one socket to any socket
/// with this option and address, even if that joined the group on another interface.
pub(crate) fn share_port(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_address(true)?;
    #[cfg(not(target_os = "linux"))]
    socket.set_reuse_port(true)?;
    Ok(())
}

/// Sets the hop limit of the following multicasts.
pub(crate) fn set_hops(socket: &Socket, group: SocketAddr, hops: u8) -> io::Result<()> {
    match group {
        SocketAddr::V4(_) => socket.set_multicast_ttl_v4(hops.into()),
        SocketAddr::V6(_) => socket.set_multicast_hops_v6(hops.into()),
    }
}

/// Disables the ancillary data that batched reading requests and this driver does not use: destination address,
/// traffic class and arrival time. Each costs time per datagram. Errors are ignored, as they only cost that time.
pub(crate) fn refuse_ancillary_data(socket: &Socket, family: SocketAddr) {
    let _ = socket.set_recv_tos_v4(false);
    if family.is_ipv6() {
        let _ = socket.set_recv_tclass_v6(false);
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use nix::sys::socket::setsockopt;
        use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo, ReceiveTimestampns};
        let _ = setsockopt(socket, ReceiveTimestampns, &false);
        let _ = match family {
            SocketAddr::V4(_) => setsockopt(socket, Ipv4PacketInfo, &false),
            SocketAddr::V6(_) => setsockopt(socket, Ipv6RecvPacketInfo, &false),
        };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::fd::{AsFd as _, BorrowedFd};

    use nix::sys::socket::getsockopt;
    use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo, ReceiveTimestampns};
    use quinn_udp::UdpSocketState;
    use socket2::{Domain, SockRef, Type};

    use super::*;
    use crate::port::Port;

    #[test]
    fn unused_ancillary_data_is_not_received() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let address: SocketAddr = address.parse().expect("an address");
            let Ok(socket) = Socket::new(Domain::for_address(address), Type::DGRAM, None) else { continue };
            let given = |fd: BorrowedFd<'_>| {
                let socket = SockRef::from(&fd);
                [
                    getsockopt(&fd, ReceiveTimestampns).expect("an option"),
                    socket.recv_tos_v4().expect("an option"),
                    match address {
                        SocketAddr::V4(_) => getsockopt(&fd, Ipv4PacketInfo).expect("an option"),
                        SocketAddr::V6(_) => getsockopt(&fd, Ipv6RecvPacketInfo).expect("an option"),
                    },
                    address.is_ipv6() && socket.recv_tclass_v6().expect("an option"),
                ]
            };
            UdpSocketState::new((&socket).into()).expect("a socket");
            let asked = [true, true, true, address.is_ipv6()];
            assert_eq!(given(socket.as_fd()), asked, "what is to be taken back is there");
            let port = Port::new(socket).expect("a port");
            assert_eq!(given(port.fd()), [false; 4]);
        }
    }
}
