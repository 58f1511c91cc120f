//! IP and UDP headers, because a relay sends with other hosts' source addresses.

use std::net::SocketAddr;

/// Header fields of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    /// Hop limit.
    pub(super) ttl: u8,
}

/// Writes an IP header (RFC 791, RFC 8200), a UDP header (RFC 768) and the payload into `buf`. Returns false if they
/// exceed the maximum datagram, or if the addresses have different IP versions. The system fills in identification and
/// checksum of an IPv4 header.
pub(super) fn write(header: Header, payload: &[u8], buf: &mut Vec<u8>) -> bool {
    let udp_len = UDP_HEADER + payload.len();
    let Ok(udp) = u16::try_from(udp_len) else { return false };
    buf.clear();
    let addresses = match (header.source, header.destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            let Ok(total) = u16::try_from(IPV4_HEADER + udp_len) else { return false };
            buf.extend_from_slice(&[0x45, 0]);
            buf.extend_from_slice(&total.to_be_bytes());
            buf.extend_from_slice(&[0, 0, 0, 0, header.ttl, UDP, 0, 0]);
            let addresses = buf.len();
            buf.extend_from_slice(&source.ip().octets());
            buf.extend_from_slice(&destination.ip().octets());
            addresses
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            buf.extend_from_slice(&[0x60, 0, 0, 0]);
            buf.extend_from_slice(&udp.to_be_bytes());
            buf.extend_from_slice(&[UDP, header.ttl]);
            let addresses = buf.len();
            buf.extend_from_slice(&source.ip().octets());
            buf.extend_from_slice(&destination.ip().octets());
            addresses
        }
        _ => return false,
    };
    let checksum = buf.len() + CHECKSUM;
    buf.extend_from_slice(&header.source.port().to_be_bytes());
    buf.extend_from_slice(&header.destination.port().to_be_bytes());
    buf.extend_from_slice(&udp.to_be_bytes());
    buf.extend_from_slice(&[0, 0]);
    buf.extend_from_slice(payload);
    // Checksum over both addresses and the UDP datagram, then protocol and length of the pseudo header. IPv6 has longer
    // fields there, with the same sum (RFC 8200, section 8.1).
    let sum = match !folded(sum(&buf[addresses..]) + u64::from(UDP) + u64::from(udp)) {
        // A checksum of zero means none (RFC 768).
        0 => u16::MAX,
        sum => sum,
    };
    buf[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// The sum of all 16-bit words, an odd byte at the end padded with zero.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let rest = words.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
    words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>() + rest
}

/// Folds the sum to 16 bits (ones' complement).
fn folded(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & u64::from(u16::MAX)) + (sum >> 16);
    }
    sum as u16
}

const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;
/// Offset of the checksum in the UDP header.
const CHECKSUM: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            source: "192.168.1.2:1024".parse().expect("an address"),
            destination: "239.1.2.3:7654".parse().expect("an address"),
            ttl: 7,
        }
    }

    #[test]
    fn headers_match_rfc_791_and_768_bytes() {
        let mut buf = vec![9];
        assert!(write(header(), b"abc", &mut buf));
        let ip = [0x45, 0, 0, 31, 0, 0, 0, 0, 7, 17, 0, 0, 192, 168, 1, 2, 239, 1, 2, 3];
        assert_eq!(buf[..20], ip);
        // Sum c0a8 + 0102 + ef01 + 0203 + 0011 + 000b + 0400 + 1de6 + 000b + 6162 + 6300 = 2_991d, folded 991f,
        // complement 66e0.
        assert_eq!(buf[20..], [4, 0, 0x1d, 0xe6, 0, 11, 0x66, 0xe0, b'a', b'b', b'c']);
    }

    #[test]
    fn headers_match_rfc_8200_and_768_bytes() {
        let mut buf = vec![9];
        let six = |text: &str| text.parse().expect("an address");
        let header = Header { source: six("[fd77::1]:1024"), destination: six("[ff15::4341]:7654"), ttl: 1 };
        assert!(write(header, b"abc", &mut buf));
        assert_eq!(buf[..8], [0x60, 0, 0, 0, 0, 11, 17, 1]);
        assert_eq!(buf[8..10], [0xfd, 0x77]);
        assert_eq!(buf[22..26], [0, 1, 0xff, 0x15]);
        assert_eq!(buf[38..40], [0x43, 0x41]);
        // Sum fd77 + 0001 + ff15 + 4341 + 0011 + 000b + 0400 + 1de6 + 000b + 6162 + 6300 = 3_263d, folded 2640,
        // complement d9bf.
        assert_eq!(buf[40..], [4, 0, 0x1d, 0xe6, 0, 11, 0xd9, 0xbf, b'a', b'b', b'c']);
        assert!(!write(Header { source: six("10.0.0.1:1"), ..header }, b"abc", &mut buf));
    }

    #[test]
    fn a_checksum_of_zero_is_written_as_all_ones() {
        let mut buf = Vec::new();
        assert!(write(header(), &[0, 0], &mut buf));
        let without = u16::from_be_bytes([buf[26], buf[27]]);
        // The payload completes the sum to all ones.
        assert!(write(header(), &without.to_be_bytes(), &mut buf));
        assert_eq!(buf[26..28], [0xff, 0xff]);
    }

    #[test]
    fn oversized_payload_is_not_written() {
        let mut buf = Vec::new();
        assert!(write(header(), &vec![1; 65_535 - 28], &mut buf));
        assert!(!write(header(), &vec![1; 65_536 - 28], &mut buf));
    }
}
