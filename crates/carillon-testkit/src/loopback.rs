//! A multicast group on loopback for a test of its own.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::skip;

/// A group that no other test uses; none, and the test is told of as skipped, if loopback has no multicast here.
pub fn loopback_group() -> Option<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = std::process::id().wrapping_mul(16).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
    let [.., high, low] = number.to_be_bytes();
    let group = Ipv4Addr::new(239, 254, high, low);
    let joined = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST));
    match joined {
        Ok(()) => Some((group, 10_000 + (number % 20_000) as u16).into()),
        Err(error) => {
            skip(format_args!("no multicast on loopback: {error}"));
            None
        }
    }
}
