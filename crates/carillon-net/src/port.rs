//! A socket of an endpoint.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use quinn_udp::UdpSocketState;
use socket2::Socket;

use crate::options::refuse_ancillary_data;

/// A socket with its batching state.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) socket: Socket,
    pub(crate) state: UdpSocketState,
    pub(crate) address: SocketAddr,
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

    /// Reads the last column of the socket's line in the kernel's table, found by its inode.
    pub(crate) fn kernel_drops(&self) -> Option<u64> {
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
        // The kernel returns the table in parts and may omit lines when sockets are closed meanwhile.
        (0..3).find_map(|_| look())
    }
}
