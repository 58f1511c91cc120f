//! Raw sockets for tests: they capture datagrams and send them with any source address.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use socket2::{Domain, Protocol, Socket, Type};

/// A captured UDP datagram with its source and destination.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedDatagram {
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    pub bytes: Vec<u8>,
}

/// A raw socket. It receives every datagram of a host, or sends datagrams with any source address. Only root may open
/// one.
pub struct RawSocket(Socket);

impl RawSocket {
    pub fn open_receiver() -> RawSocket {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).expect("a raw socket");
        socket.set_recv_buffer_size(1 << 22).expect("a buffer");
        socket.set_nonblocking(true).expect("what has come, or nothing");
        RawSocket(socket)
    }

    pub fn open_sender(interface: Ipv4Addr) -> RawSocket {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).expect("a raw socket");
        socket.set_header_included_v4(true).expect("the header is ours");
        socket.set_multicast_if_v4(&interface).expect("an interface");
        // A sending socket never reads what it receives.
        socket.set_recv_buffer_size(1).expect("a buffer");
        RawSocket(socket)
    }

    /// Returns the next datagrams: one, or a run that the kernel has not segmented yet. Datagrams of a forger are
    /// left out.
    pub fn next(&self) -> Option<Vec<CapturedDatagram>> {
        let mut packet = vec![0; 65_536];
        let len = (&self.0).read(&mut packet).ok()?;
        packet.truncate(len);
        if packet[8] == FORGED_TTL {
            return Some(Vec::new());
        }
        let start = usize::from(packet[0] & 15) * 4;
        let ip = |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
        let port = |at: usize| u16::from_be_bytes([packet[start + at], packet[start + at + 1]]);
        let (from, to) = (SocketAddrV4::new(ip(12), port(0)), SocketAddrV4::new(ip(16), port(2)));
        let bytes = &packet[start + 8..];
        // All datagrams of a run begin with the same salt.
        let starts = (0..bytes.len())
            .filter(|&at| at == 0 || bytes[at..].starts_with(bytes.get(..14).unwrap_or(bytes)));
        let ends = starts.clone().skip(1).chain([bytes.len()]);
        Some(
            starts
                .zip(ends)
                .map(|(start, end)| CapturedDatagram { from, to, bytes: bytes[start..end].to_vec() })
                .collect(),
        )
    }

    pub fn send(&self, seen: &CapturedDatagram) {
        // The kernel fills in the identification.
        self.send_fragments(seen, 0, 65_528);
    }

    /// Sends a datagram in fragments of at most `max_bytes`, a multiple of 8. `identification` distinguishes
    /// datagrams.
    pub fn send_fragments(
        &self,
        CapturedDatagram { from, to, bytes }: &CapturedDatagram,
        identification: u16,
        max_bytes: usize,
    ) {
        let mut datagram = Vec::new();
        datagram.extend_from_slice(&from.port().to_be_bytes());
        datagram.extend_from_slice(&to.port().to_be_bytes());
        datagram.extend_from_slice(&(8 + bytes.len() as u16).to_be_bytes());
        datagram.extend_from_slice(&[0, 0]);
        datagram.extend_from_slice(bytes);
        for (index, fragment) in datagram.chunks(max_bytes).enumerate() {
            let is_last = index * max_bytes + fragment.len() == datagram.len();
            let place = (index * max_bytes / 8) as u16 | if is_last { 0 } else { MORE_FRAGMENTS };
            let mut packet = vec![0x45, 0];
            packet.extend_from_slice(&(20 + fragment.len() as u16).to_be_bytes());
            packet.extend_from_slice(&identification.to_be_bytes());
            packet.extend_from_slice(&place.to_be_bytes());
            // TTL and protocol number of UDP; the kernel fills in the checksum.
            packet.extend_from_slice(&[FORGED_TTL, 17, 0, 0]);
            packet.extend_from_slice(&from.ip().octets());
            packet.extend_from_slice(&to.ip().octets());
            packet.extend_from_slice(fragment);
            // A full queue or a closed port is ignored.
            let _ = self.0.send_to(&packet, &SocketAddr::from((*to.ip(), 0)).into());
        }
    }
}

/// Flag "more fragments" of the IPv4 header, set in all fragments but the last (RFC 791, section 3.1).
const MORE_FRAGMENTS: u16 = 0x2000;
/// TTL of forged datagrams, by which a forger recognizes its own.
const FORGED_TTL: u8 = 4;
