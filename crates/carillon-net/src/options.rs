//! What is set of a socket.

use std::io;
use std::net::SocketAddr;

use socket2::Socket;

use crate::OpenError;

/// Asks for a receive buffer, beyond the system's limit where privileges allow it; returns what
/// was granted.
pub(crate) fn enlarge(socket: &Socket, bytes: usize) -> Result<usize, OpenError> {
    let doing = || OpenError::doing("set the receive buffer");
    socket.set_recv_buffer_size(bytes).map_err(doing())?;
    // Linux grants twice the size asked for, as room for its own bookkeeping, and tells so.
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

/// The hop limit of the multicasts that follow.
pub(crate) fn set_hops(socket: &Socket, group: SocketAddr, hops: u8) -> io::Result<()> {
    match group {
        SocketAddr::V4(_) => socket.set_multicast_ttl_v4(hops.into()),
        SocketAddr::V6(_) => socket.set_multicast_hops_v6(hops.into()),
    }
}
