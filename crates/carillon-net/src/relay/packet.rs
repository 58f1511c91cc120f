//! IPv4 and UDP headers, because a relay sends with other hosts' source addresses.

use std::net::SocketAddrV4;

/// Header fields of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) source: SocketAddrV4,
    pub(super) destination: SocketAddrV4,
    /// Hop limit.
    pub(super) ttl: u8,
}

/// Writes IPv4 header (RFC 791), UDP header (RFC 768) and payload into `buf`; returns false if they exceed the
/// maximum datagram. The system fills in identification and checksum of the IP header.
pub(super) fn write(header: Header, payload: &[u8], buf: &mut Vec<u8>) -> bool {
    let udp_len = UDP_HEADER + payload.len();
    let (Ok(total), Ok(udp)) = (u16::try_from(IP_HEADER + udp_len), u16::try_from(udp_len)) else {
        return false;
    };
    buf.clear();
    buf.extend_from_slice(&[0x45, 0]);
    buf.extend_from_slice(&total.to_be_bytes());
    buf.extend_from_slice(&[0, 0, 0, 0, header.ttl, UDP, 0, 0]);
    buf.extend_from_slice(&header.source.ip().octets());
    buf.extend_from_slice(&header.destination.ip().octets());
    buf.extend_from_slice(&header.source.port().to_be_bytes());
    buf.extend_from_slice(&header.destination.port().to_be_bytes());
    buf.extend_from_slice(&udp.to_be_bytes());
    buf.extend_from_slice(&[0, 0]);
    buf.extend_from_slice(payload);
    // Checksum over both addresses and the UDP datagram, then protocol and length of the pseudo header.
    let sum = match !folded(sum(&buf[12..]) + u64::from(UDP) + u64::from(udp)) {
        // A checksum of zero means none (RFC 768).
        0 => u16::MAX,
        sum => sum,
    };
    buf[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
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

const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;
/// Offset of the UDP checksum.
const CHECKSUM: usize = IP_HEADER + 6;

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
