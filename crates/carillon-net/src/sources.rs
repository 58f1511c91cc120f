//! Source-specific multicast (RFC 4607): membership in a group for the multicasts of certain hosts.
//!
//! The system asks the network for the multicasts of these hosts (IGMPv3, MLDv2), and passes no others to the socket.
//! An endpoint drops and counts those that it passes nevertheless, for example ones that arrived before the socket
//! had joined.
//!
//! Not covered: IPv6 on systems other than Linux.

use std::io;
use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;
use socket2::{InterfaceIndexOrAddress, Socket};

use crate::interface::is_broadcast;
use crate::{Interface, OpenError};

/// Membership of a socket in a group on an interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Membership<'a> {
    group: SocketAddr,
    interface: &'a Interface,
    /// Sources of the multicasts that are received; empty for all hosts.
    sources: &'a [IpAddr],
}

impl<'a> Membership<'a> {
    pub(crate) fn new(group: SocketAddr, interface: &'a Interface, sources: &'a [IpAddr]) -> Self {
        Membership { group, interface, sources }
    }

    /// The group and its port.
    pub(crate) fn group(&self) -> SocketAddr {
        self.group
    }

    /// The interface.
    pub(crate) fn interface(&self) -> &'a Interface {
        self.interface
    }

    /// Joins the group.
    pub(crate) fn join(&self, socket: &Socket) -> io::Result<()> {
        let Membership { group, interface, sources } = self;
        if is_broadcast(*group) {
            // Bound to the broadcast address, the socket receives broadcasts without a membership.
            return Ok(());
        }
        if !sources.is_empty() {
            return sources.iter().try_for_each(|source| join_source(socket, *group, interface, *source));
        }
        match group {
            SocketAddr::V4(v4) => {
                socket.join_multicast_v4_n(v4.ip(), &InterfaceIndexOrAddress::Index(interface.index))
            }
            SocketAddr::V6(v6) => socket.join_multicast_v6(v6.ip(), interface.index),
        }
    }

    /// Leaves the group, with all its sources.
    pub(crate) fn leave(&self, socket: &Socket) -> io::Result<()> {
        let index = self.interface.index;
        match self.group {
            group if is_broadcast(group) => Ok(()),
            SocketAddr::V4(v4) => {
                socket.leave_multicast_v4_n(v4.ip(), &InterfaceIndexOrAddress::Index(index))
            }
            SocketAddr::V6(v6) => socket.leave_multicast_v6(v6.ip(), index),
        }
    }

    /// Describes an error of [`join`](Membership::join).
    pub(crate) fn refused(&self, error: io::Error) -> OpenError {
        if !self.sources.is_empty() && error.raw_os_error() == Some(Errno::ENOBUFS as i32) {
            let setting = if self.group.is_ipv4() { "net.ipv4.igmp_max_msf" } else { "net.ipv6.mld_max_msf" };
            return OpenError::TooManySources { group: self.group, count: self.sources.len(), setting };
        }
        OpenError::doing(format!("join group {} on {}", self.group, self.interface))(error)
    }
}

/// Returns true for groups of source-specific multicast: 232.0.0.0/8 and ff3x::/32 (RFC 4607, section 1). Routers pass
/// their multicasts only to members that name the source.
pub fn is_source_specific(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group.octets()[0] == 232,
        IpAddr::V6(group) => group.segments()[0] & 0xfff0 == 0xff30 && group.segments()[1] == 0,
    }
}

/// Returns the sources of an endpoint without repetitions. In a group of source-specific multicast the host that is
/// asked for copies is the source if none is named.
pub(crate) fn effective_sources(
    group: SocketAddr,
    named: &[IpAddr],
    from: Option<SocketAddr>,
) -> Result<Vec<IpAddr>, OpenError> {
    let mut sources = named.to_vec();
    if sources.is_empty() && is_source_specific(group.ip()) {
        sources.extend(from.map(|from| from.ip()));
    }
    sources.sort_unstable();
    sources.dedup();
    let unfit =
        |host: &IpAddr| host.is_ipv4() != group.is_ipv4() || host.is_multicast() || host.is_unspecified();
    match sources.iter().copied().find(unfit) {
        Some(host) => Err(OpenError::UnfitSource { group, host }),
        None => Ok(sources),
    }
}

/// Joins the group for the multicasts of one more host.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn join_source(socket: &Socket, group: SocketAddr, interface: &Interface, source: IpAddr) -> io::Result<()> {
    use linux::{JoinSourceV4, JoinSourceV6, SourceRequest};
    use nix::sys::socket::setsockopt;
    let request = SourceRequest::new(interface.index, group.ip(), source);
    match group {
        SocketAddr::V4(_) => Ok(setsockopt(socket, JoinSourceV4, &request)?),
        SocketAddr::V6(_) => Ok(setsockopt(socket, JoinSourceV6, &request)?),
    }
}

/// Other systems name the interface by its address.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn join_source(socket: &Socket, group: SocketAddr, interface: &Interface, source: IpAddr) -> io::Result<()> {
    match (group.ip(), interface.address, source) {
        (IpAddr::V4(group), IpAddr::V4(own), IpAddr::V4(source)) => socket.join_ssm_v4(&source, &group, &own),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// The protocol-independent socket option of RFC 3678, section 5.1, which takes the number of the interface in both
/// families. Neither socket2 nor nix has it.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::net::IpAddr;

    use nix::libc::{self, c_ulong};
    use nix::{setsockopt_impl, sockopt_impl};

    /// `struct group_source_req`.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    pub struct SourceRequest {
        interface: u32,
        group: Storage,
        source: Storage,
    }

    /// `struct sockaddr_storage`: 128 bytes, aligned as the longest integer.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    struct Storage([c_ulong; STORAGE_BYTES / WORD]);

    impl SourceRequest {
        pub(super) fn new(interface: u32, group: IpAddr, source: IpAddr) -> SourceRequest {
            SourceRequest { interface, group: Storage::new(group), source: Storage::new(source) }
        }
    }

    impl Storage {
        /// The address in the layout of `sockaddr_in` or `sockaddr_in6`, with port 0 and without a zone.
        fn new(address: IpAddr) -> Storage {
            let mut bytes = [0; STORAGE_BYTES];
            let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as libc::sa_family_t;
            bytes[..2].copy_from_slice(&family.to_ne_bytes());
            match address {
                IpAddr::V4(v4) => bytes[4..8].copy_from_slice(&v4.octets()),
                IpAddr::V6(v6) => bytes[8..24].copy_from_slice(&v6.octets()),
            }
            let mut words = [0; STORAGE_BYTES / WORD];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(WORD)) {
                let mut own = [0; WORD];
                own.copy_from_slice(bytes);
                *word = c_ulong::from_ne_bytes(own);
            }
            Storage(words)
        }
    }

    const STORAGE_BYTES: usize = 128;
    const WORD: usize = size_of::<c_ulong>();

    const _: () = assert!(size_of::<SourceRequest>() == size_of::<libc::group_source_req>());

    sockopt_impl!(
        /// Joins an IPv4 group for one source.
        JoinSourceV4,
        SetOnly,
        libc::IPPROTO_IP,
        libc::MCAST_JOIN_SOURCE_GROUP,
        SourceRequest
    );
    sockopt_impl!(
        /// Joins an IPv6 group for one source.
        JoinSourceV6,
        SetOnly,
        libc::IPPROTO_IPV6,
        libc::MCAST_JOIN_SOURCE_GROUP,
        SourceRequest
    );
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use carillon_core::{Application, Event, Machine, NoObserver, Received, Time, Transmit};

    use super::*;
    use crate::sockets::open_multicast;
    use crate::{Driver, Endpoint, EndpointConfig};

    /// A machine that counts datagrams.
    #[derive(Debug, Default)]
    struct Count(u64);

    impl Machine for Count {
        fn handle_datagram(&mut self, _now: Time, _datagram: Received<'_>) {
            self.0 += 1;
        }
        fn handle_timeout(&mut self, _now: Time) {}
        fn poll_timeout(&self) -> Option<Time> {
            None
        }
        fn poll_transmit(&mut self, _now: Time, _buf: &mut Vec<u8>) -> Option<Transmit> {
            None
        }
        fn poll_event(&mut self) -> Option<Event> {
            None
        }
    }

    impl Application<Count> for () {
        fn poll(&mut self, _now: Time, _machine: &mut Count) -> bool {
            false
        }
    }

    /// The socket of the endpoint is replaced by a member for all sources, as if the system did not filter.
    #[test]
    fn multicasts_of_others_are_dropped_and_counted() {
        let Some(group) = carillon_testkit::loopback_group() else { return };
        let config = EndpointConfig {
            interface: Some("lo".to_owned()),
            listen: true,
            sources: vec![ip("127.0.0.2")],
            ..EndpointConfig::new(group)
        };
        let mut endpoint = Endpoint::open(config).expect("an endpoint");
        let all = open_multicast(&Membership::new(group, &endpoint.interface, &[])).expect("a socket");
        endpoint.multicast = Some(all);
        let mut driver = Driver::new(endpoint, Box::new(Count::default()), (), NoObserver);
        for host in ["127.0.0.2", "127.0.0.3", "127.0.0.1"] {
            let socket = UdpSocket::bind((ip(host), 0)).expect("a socket");
            let loopback = std::net::Ipv4Addr::LOCALHOST;
            socket2::SockRef::from(&socket).set_multicast_if_v4(&loopback).expect("an option");
            socket.send_to(b"hello", group).expect("it is sent");
        }
        let limit = Instant::now() + Duration::from_secs(10);
        while driver.stats().other_sources < 2 || driver.machine().0 < 1 {
            assert!(Instant::now() < limit, "{:?}", driver.stats());
            driver.step(Duration::from_millis(10)).expect("a step");
        }
        assert_eq!((driver.stats().other_sources, driver.machine().0), (2, 1));
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn source_specific_groups_have_their_prefixes() {
        for group in ["232.0.0.1", "232.255.255.255", "ff3e::8000:1", "ff35::1", "ff31::"] {
            assert!(is_source_specific(ip(group)), "{group}");
        }
        // A prefix length other than 0 belongs to groups derived from unicast prefixes (RFC 3306).
        for group in ["231.0.0.1", "233.0.0.1", "239.255.67.65", "ff15::4341", "ff3e:40::1", "ff7e::1"] {
            assert!(!is_source_specific(ip(group)), "{group}");
        }
    }

    #[test]
    fn sources_are_hosts_of_the_groups_family() {
        let group = SocketAddr::new(ip("239.1.2.3"), 4567);
        let of = |named: &[&str], group| {
            let named: Vec<IpAddr> = named.iter().map(|text| ip(text)).collect();
            effective_sources(group, &named, Some((ip("10.0.0.9"), 1).into()))
        };
        assert_eq!(
            of(&["10.0.0.2", "10.0.0.1", "10.0.0.2"], group).ok(),
            Some(vec![ip("10.0.0.1"), ip("10.0.0.2")])
        );
        assert_eq!(of(&[], group).ok(), Some(Vec::new()), "all hosts");
        let specific = SocketAddr::new(ip("232.1.2.3"), 4567);
        assert_eq!(of(&[], specific).ok(), Some(vec![ip("10.0.0.9")]), "the host that is asked for copies");
        for bad in ["fd00::1", "239.1.1.1", "0.0.0.0"] {
            let refused = of(&[bad], group);
            assert!(matches!(refused, Err(OpenError::UnfitSource { .. })), "{bad}: {refused:?}");
        }
    }
}
