//! Datagrams in anybody's name.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use socket2::{Domain, Protocol, Socket, Type};

/// A datagram of UDP with where it was going.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    pub bytes: Vec<u8>,
}

/// What hears every datagram that a host is given, and sends any in any name. Only root has such sockets.
pub struct Raw(Socket);

impl Raw {
    pub fn hears() -> Raw {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).expect("a raw socket");
        socket.set_recv_buffer_size(1 << 22).expect("a buffer");
        socket.set_nonblocking(true).expect("what has come, or nothing");
        Raw(socket)
    }

    pub fn sends(interface: Ipv4Addr) -> Raw {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).expect("a raw socket");
        socket.set_header_included_v4(true).expect("the header is ours");
        socket.set_multicast_if_v4(&interface).expect("an interface");
        // What it is given to read it does not read.
        socket.set_recv_buffer_size(1).expect("a buffer");
        Raw(socket)
    }

    /// What has come: one datagram, or a run of them that the system has not cut up yet, and none that an outsider sent.
    pub fn next(&self) -> Option<Vec<Seen>> {
        let mut packet = vec![0; 65_536];
        let len = (&self.0).read(&mut packet).ok()?;
        packet.truncate(len);
        if packet[8] == OWN_HOPS {
            return Some(Vec::new());
        }
        let start = usize::from(packet[0] & 15) * 4;
        let ip = |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
        let port = |at: usize| u16::from_be_bytes([packet[start + at], packet[start + at + 1]]);
        let (from, to) = (SocketAddrV4::new(ip(12), port(0)), SocketAddrV4::new(ip(16), port(2)));
        let bytes = &packet[start + 8..];
        // All of a run begin with the same salt.
        let starts = (0..bytes.len())
            .filter(|&at| at == 0 || bytes[at..].starts_with(bytes.get(..14).unwrap_or(bytes)));
        let ends = starts.clone().skip(1).chain([bytes.len()]);
        Some(
            starts
                .zip(ends)
                .map(|(start, end)| Seen { from, to, bytes: bytes[start..end].to_vec() })
                .collect(),
        )
    }

    pub fn send(&self, Seen { from, to, bytes }: &Seen) {
        let total = (28 + bytes.len()) as u16;
        let mut packet = vec![0x45, 0];
        packet.extend_from_slice(&total.to_be_bytes());
        // The kernel fills in the identification and the checksum; hops and UDP's number.
        packet.extend_from_slice(&[0, 0, 0, 0, OWN_HOPS, 17, 0, 0]);
        packet.extend_from_slice(&from.ip().octets());
        packet.extend_from_slice(&to.ip().octets());
        packet.extend_from_slice(&from.port().to_be_bytes());
        packet.extend_from_slice(&to.port().to_be_bytes());
        packet.extend_from_slice(&(total - 20).to_be_bytes());
        packet.extend_from_slice(&[0, 0]);
        packet.extend_from_slice(bytes);
        // A full queue, or nobody at that port: so much for that.
        let _ = self.0.send_to(&packet, &SocketAddr::from((*to.ip(), 0)).into());
    }
}

/// By which a forger knows its own.
const OWN_HOPS: u8 = 4;
