//! Multicast groups on loopback, one for each test.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::skip;

/// Draws a group that no other test uses, on a port below the ephemeral ones. Test programs run at the same time
/// without knowing of each other, so each draws its groups at random.
pub fn fresh_group() -> SocketAddrV4 {
    let drawn = RandomState::new().build_hasher().finish();
    let [high, low, ..] = drawn.to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(239, 255, high, low), 10_000 + (drawn % 20_000) as u16)
}

/// Binds a port. A process that another test starts holds copies of all open sockets for an instant, so the bind is
/// retried for a while.
pub fn take_port(port: u16) -> UdpSocket {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        match UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)) {
            Ok(socket) => return socket,
            Err(error) if Instant::now() > until => panic!("port {port}: {error}"),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Returns a group that no other test uses. Without multicast on loopback it reports the test as skipped and returns
/// `None`.
pub fn loopback_group() -> Option<SocketAddr> {
    let group = fresh_group();
    let joined = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.join_multicast_v4(group.ip(), &Ipv4Addr::LOCALHOST));
    match joined {
        Ok(()) => Some(group.into()),
        Err(error) => {
            skip(format_args!("no multicast on loopback: {error}"));
            None
        }
    }
}
