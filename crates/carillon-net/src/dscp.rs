//! Differentiated services: the code point that network devices read to queue packets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use socket2::Socket;

/// Differentiated services code point, from 0 to 63 (RFC 2474): the upper six bits of the traffic class of a packet.
/// The lower two are those of ECN, and stay 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(u8);

impl Dscp {
    /// Creates a code point; `None` beyond 63.
    pub fn new(value: u8) -> Option<Dscp> {
        (value <= MAX_DSCP).then_some(Dscp(value))
    }

    /// Number of the code point.
    pub fn value(self) -> u8 {
        self.0
    }

    /// Octet with the code point, without ECN.
    pub fn traffic_class(self) -> u8 {
        self.0 << 2
    }

    /// Marks everything that this socket sends.
    pub(crate) fn mark(self, socket: &Socket, family: SocketAddr) -> io::Result<()> {
        match family {
            SocketAddr::V4(_) => socket.set_tos_v4(self.traffic_class().into()),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            SocketAddr::V6(_) => {
                use nix::sys::socket::{setsockopt, sockopt::Ipv6TClass};
                Ok(setsockopt(socket, Ipv6TClass, &self.traffic_class().into())?)
            }
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            SocketAddr::V6(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Error of a text that is no code point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownDscp;

impl fmt::Display for UnknownDscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a number from 0 to 63, or cs0 to cs7, af11 to af43, le, va or ef")
    }
}

impl std::error::Error for UnknownDscp {}

impl FromStr for Dscp {
    type Err = UnknownDscp;

    fn from_str(text: &str) -> Result<Dscp, UnknownDscp> {
        let text = text.trim().to_ascii_lowercase();
        let named = NAMES.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        named.or_else(|| text.parse().ok()).and_then(Dscp::new).ok_or(UnknownDscp)
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, value)| *value == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

const MAX_DSCP: u8 = 63;

/// Names of code points: RFC 2474 (class selectors), RFC 8622, RFC 2597, RFC 5865 and RFC 3246.
const NAMES: [(&str, u8); 23] = [
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_point_is_a_number_or_a_name() {
        for value in 0..=63 {
            let dscp = Dscp::new(value).expect("it is in the range");
            assert_eq!(dscp.to_string().parse(), Ok(dscp));
            assert_eq!(value.to_string().parse(), Ok(dscp));
        }
        let classes =
            ["EF", "af11", "cs1", "le", "0"].map(|text| text.parse::<Dscp>().map(Dscp::traffic_class));
        assert_eq!(classes, [Ok(0xb8), Ok(0x28), Ok(0x20), Ok(0x04), Ok(0)]);
        for text in ["64", "-1", "af14", "", "0x2e"] {
            assert!(text.parse::<Dscp>().is_err(), "{text}");
        }
    }
}
