//! Fields, addresses, and the checksum.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::CHECKSUM_AT;
use crate::ParseError;

/// Takes fields off the front.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    have: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes, have: bytes.len() }
    }

    pub(super) fn slice(&mut self, len: usize) -> Result<&'a [u8], ParseError> {
        let need = self.have - self.rest.len() + len;
        let (head, rest) =
            self.rest.split_at_checked(len).ok_or(ParseError::Truncated { have: self.have, need })?;
        self.rest = rest;
        Ok(head)
    }

    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let mut field = [0; N];
        field.copy_from_slice(self.slice(N)?);
        Ok(field)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ParseError> {
        self.take().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ParseError> {
        self.take().map(u32::from_be_bytes)
    }

    /// An address behind its family.
    pub(super) fn nla(&mut self) -> Result<IpAddr, ParseError> {
        let family = self.u16()?;
        self.u16()?;
        match family {
            IPV4 => Ok(Ipv4Addr::from(self.take::<4>()?).into()),
            IPV6 => Ok(Ipv6Addr::from(self.take::<16>()?).into()),
            other => Err(ParseError::Field { field: "NLA AFI", value: other.into() }),
        }
    }

    /// All that is left.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Appends an address behind its family.
pub(super) fn put_nla(address: IpAddr, buf: &mut Vec<u8>) {
    let family = if address.is_ipv4() { IPV4 } else { IPV6 };
    buf.extend_from_slice(&family.to_be_bytes());
    buf.extend_from_slice(&[0, 0]);
    put_address(address, buf);
}

/// Appends an address.
pub(super) fn put_address(address: IpAddr, buf: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => buf.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => buf.extend_from_slice(&address.octets()),
    }
}

/// The ones' complement of the ones' complement sum of the packet, its checksum field taken as zero and
/// an odd byte as the high one; a zero is sent as all ones, since zero says that there is none (section 8.1).
pub(super) fn checksum(packet: &[u8]) -> u16 {
    let mut sum = 0_u64;
    let (pairs, odd) = packet.as_chunks::<2>();
    for pair in pairs {
        sum += u64::from(u16::from_be_bytes(*pair));
    }
    if let [last] = odd {
        sum += u64::from(*last) << 8;
    }
    if let Some(stored) = packet.get(CHECKSUM_AT..CHECKSUM_AT + 2) {
        sum -= u64::from(u16::from_be_bytes([stored[0], stored[1]]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xffff,
        sum => sum,
    }
}

/// Address families (RFC 1700).
const IPV4: u16 = 1;
const IPV6: u16 = 2;
