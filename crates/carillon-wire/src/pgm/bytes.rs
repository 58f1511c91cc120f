//! Address fields and checksum of PGM packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ParseError;
use crate::checksum::OnesSum;
use crate::reader::Reader;

impl Reader<'_> {
    /// Reads an address behind its family.
    pub(super) fn nla(&mut self) -> Result<IpAddr, ParseError> {
        self.nla_with().map(|(address, _)| address)
    }

    /// Reads an address behind its family, and the number in the two bytes between them.
    pub(super) fn nla_with(&mut self) -> Result<(IpAddr, u16), ParseError> {
        let (family, between) = (self.u16()?, self.u16()?);
        let address = match family {
            IPV4 => Ipv4Addr::from(self.array::<4>()?).into(),
            IPV6 => Ipv6Addr::from(self.array::<16>()?).into(),
            other => return Err(ParseError::Field { field: "NLA AFI", value: other.into() }),
        };
        Ok((address, between))
    }
}

/// Appends an address behind its family.
pub(super) fn put_nla(address: IpAddr, buf: &mut Vec<u8>) {
    put_nla_with(address, 0, buf);
}

/// Appends an address behind its family, with a number in the two bytes between them.
pub(super) fn put_nla_with(address: IpAddr, between: u16, buf: &mut Vec<u8>) {
    let family = if address.is_ipv4() { IPV4 } else { IPV6 };
    buf.extend_from_slice(&family.to_be_bytes());
    buf.extend_from_slice(&between.to_be_bytes());
    put_address(address, buf);
}

/// Appends an address.
pub(super) fn put_address(address: IpAddr, buf: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => buf.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => buf.extend_from_slice(&address.octets()),
    }
}

/// Checksum of a packet (section 8): the ones' complement of the ones' complement sum, with the checksum field as
/// zero and an odd byte as the high one. Zero is sent as all ones, since zero means that there is none.
pub(super) fn checksum(packet: &[u8]) -> u16 {
    match OnesSum::without(packet, CHECKSUM_AT).complement() {
        0 => 0xffff,
        sum => sum,
    }
}

/// Address family identifiers (RFC 1700).
const IPV4: u16 = 1;
const IPV6: u16 = 2;

/// Offset of the checksum in a packet.
pub(super) const CHECKSUM_AT: usize = 6;
