//! Packet by which machines diagnose the paths between them (`carillon doctor`).
//!
//! ```text
//! +----------------------+---------+---------+---------+------------+--------------+------------+
//! | envelope, 1 HELLO    | way (8) | ttl (8) | hop limit of    | number (32)| datagram (32)| buffer (32)|
//! |                      |         |         | transfers (8)   |            |              |            |
//! +----------------------+---------+---------+---------+------------+--------------+------------+
//! | group: family (8), address (128), port (16) | name length (8) | name | heard count (8) | heard ... | origin, padding
//! +---------------------------------------------+-----------------+------+-----------------+-----------+---------
//! heard: | id (32) | least hop limit (8) | ways (8) | came (16) | sent (16) |
//! origin: | wire version (16) | release: major (8), minor (8), patch (8) |
//! ```
//!
//! The association id of the envelope is the machine's own random number. `way` is the path of the packet: 0 to the
//! group, 1 to all hosts of the link, 2 to the group's port of one machine, 3 the same as an answer, 4 as an answer
//! to the port from which a HELLO came, 5 to the group at the interface's maximum length. `ttl` is the hop limit of
//! the packet, and `number` counts the packets of way 0. `datagram` is the longest datagram of the interface,
//! `buffer` the receive buffer in bytes. An IPv4 address takes the first four bytes of its field; family is 4 or 6.
//!
//! Each machine in the list has the smallest hop limit with which its group packets arrived (0: none did), the ways
//! by which it was received (bit 0 for way 0, and so on; bit 6: its multicasts need not arrive), the number of its
//! packets of way 0 that arrived, and the number that it sent meanwhile.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::reader::Reader;
use crate::session::{Release, WIRE_VERSION};

/// Path of a HELLO to other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HelloPath {
    /// Multicast to the group.
    Group = 0,
    /// Multicast to all hosts of the link, which switches forward to every port.
    Link = 1,
    /// Unicast to the group's port of one machine.
    Port = 2,
    /// Like `Port`, in answer to a HELLO of that machine.
    PortAnswer = 3,
    /// Unicast to the source port of a HELLO, in answer to it.
    Answer = 4,
    /// Multicast to the group at the interface's maximum length.
    Long = 5,
}

impl HelloPath {
    /// List of all paths.
    pub const VARIANTS: [HelloPath; 6] = [
        HelloPath::Group,
        HelloPath::Link,
        HelloPath::Port,
        HelloPath::PortAnswer,
        HelloPath::Answer,
        HelloPath::Long,
    ];

    /// Bit of the path in [`ObservedMachine::ways`].
    pub fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Observation of another machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedMachine {
    /// Random number of the machine.
    pub id: u32,
    /// Smallest hop limit with which its packets to the group arrived; 0 if none did.
    pub least_ttl: u8,
    /// Set of paths by which it was received, a bit each, and [`UNWANTED`].
    pub ways: u8,
    /// Number of its packets of way 0 that arrived.
    pub came: u16,
    /// Number of packets of way 0 that it sent between the first and the last of them.
    pub sent: u16,
}

impl ObservedMachine {
    /// Returns true if the machine was received by this path.
    pub fn was_received_by(&self, way: HelloPath) -> bool {
        self.ways & way.bit() != 0
    }

    /// Returns true if its multicasts need not arrive: the observing machine is a member of the group for the
    /// multicasts of others only.
    pub fn is_unwanted(&self) -> bool {
        self.ways & UNWANTED != 0
    }
}

/// HELLO packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Path of the packet.
    pub way: HelloPath,
    /// Hop limit of the packet.
    pub ttl: u8,
    /// Hop limit that transfers will use.
    pub hops: u8,
    /// Number of the packet among those of way 0.
    pub number: u32,
    /// Longest datagram of the interface, in bytes.
    pub datagram: u32,
    /// Receive buffer in bytes.
    pub buffer: u32,
    /// Group under test.
    pub group: SocketAddr,
    /// Name of the sending machine, at most [`MAX_NAME`] bytes.
    pub name: &'a str,
    /// Observed machines, at most [`MAX_HEARD`].
    pub heard: Vec<ObservedMachine>,
    /// Wire version and release of the machine; `None` for a release from before wire versions.
    pub origin: Option<(u16, Release)>,
}

/// Bit of [`ObservedMachine::ways`]: the multicasts of the machine need not arrive.
pub const UNWANTED: u8 = 1 << 6;
/// Maximum number of machines in a packet.
pub const MAX_HEARD: usize = 64;
/// Maximum length of a name in bytes.
pub const MAX_NAME: usize = 64;

impl<'a> Hello<'a> {
    /// Parses a datagram; returns the number of the sending machine and the packet.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Hello<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::DOCTOR, bytes)?;
        if envelope.packet_type != HELLO {
            return Err(ParseError::Type(envelope.packet_type));
        }
        let way = reader.u8()?;
        let known = HelloPath::VARIANTS.into_iter().find(|known| *known as u8 == way);
        let way = known.ok_or(ParseError::Field { field: "way", value: way.into() })?;
        let (ttl, hops, number) = (reader.u8()?, reader.u8()?, reader.u32()?);
        let (datagram, buffer) = (reader.u32()?, reader.u32()?);
        let (family, address) = (reader.u8()?, reader.array::<16>()?);
        let ip: IpAddr = match family {
            4 => Ipv4Addr::new(address[0], address[1], address[2], address[3]).into(),
            6 => Ipv6Addr::from(address).into(),
            other => return Err(ParseError::Field { field: "family", value: other.into() }),
        };
        let group = SocketAddr::new(ip, reader.u16()?);
        let len = reader.u8()?;
        if usize::from(len) > MAX_NAME {
            return Err(ParseError::Field { field: "name length", value: len.into() });
        }
        let name = std::str::from_utf8(reader.bytes(len.into())?).ok();
        // Names go to a terminal, so control characters are refused.
        let name = name.filter(|name| !name.chars().any(char::is_control));
        let name = name.ok_or(ParseError::Field { field: "name", value: 0 })?;
        let count = reader.u8()?;
        if usize::from(count) > MAX_HEARD {
            return Err(ParseError::Field { field: "heard count", value: count.into() });
        }
        let mut heard = Vec::with_capacity(count.into());
        for _ in 0..count {
            heard.push(ObservedMachine {
                id: reader.u32()?,
                least_ttl: reader.u8()?,
                ways: reader.u8()?,
                came: reader.u16()?,
                sent: reader.u16()?,
            });
        }
        // Everything behind the origin is padding.
        let origin = origin(&mut reader);
        let hello = Hello { way, ttl, hops, number, datagram, buffer, group, name, heard, origin };
        Ok((envelope.association, hello))
    }

    /// Appends a datagram of at least `len` bytes. Excess of a name or a list is cut.
    pub fn emit(&self, from: AssociationId, len: usize, buf: &mut Vec<u8>) {
        let begin = buf.len();
        Envelope { protocol: protocol::DOCTOR, packet_type: HELLO, association: from }.emit(buf);
        buf.extend([self.way as u8, self.ttl, self.hops]);
        for number in [self.number, self.datagram, self.buffer] {
            buf.extend(number.to_be_bytes());
        }
        let (family, mut address) = (if self.group.is_ipv4() { 4 } else { 6 }, [0; 16]);
        match self.group.ip() {
            IpAddr::V4(ip) => address[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => address = ip.octets(),
        }
        buf.push(family);
        buf.extend(address);
        buf.extend(self.group.port().to_be_bytes());
        let mut end = self.name.len().min(MAX_NAME);
        // Cut the name between characters.
        while !self.name.is_char_boundary(end) {
            end -= 1;
        }
        buf.push(end as u8);
        buf.extend(&self.name.as_bytes()[..end]);
        let heard = &self.heard[..self.heard.len().min(MAX_HEARD)];
        buf.push(heard.len() as u8);
        for one in heard {
            buf.extend(one.id.to_be_bytes());
            buf.extend([one.least_ttl, one.ways]);
            buf.extend(one.came.to_be_bytes());
            buf.extend(one.sent.to_be_bytes());
        }
        if let Some((wire, Release { major, minor, patch })) = self.origin {
            buf.extend(wire.to_be_bytes());
            buf.extend([major, minor, patch]);
        }
        // Pad with zeros to the length under test.
        buf.resize(buf.len().max(begin + len), 0);
    }
}

impl fmt::Display for Hello<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hello { way, ttl, number, name, .. } = self;
        write!(f, "doctor hello {number} from {name} by {way:?}, hop limit {ttl}, {} heard", self.heard.len())
    }
}

/// Wire version and release of this machine.
pub const ORIGIN: (u16, Release) = (WIRE_VERSION, Release::CURRENT);

/// Reads the origin behind the list. Releases from before wire versions have nothing or zeros there.
fn origin(reader: &mut Reader<'_>) -> Option<(u16, Release)> {
    let (wire, [major, minor, patch]) = (reader.u16().ok()?, reader.array().ok()?);
    (wire > 0).then_some((wire, Release { major, minor, patch }))
}

const HELLO: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello<'static> {
        Hello {
            way: HelloPath::Link,
            ttl: 1,
            hops: 2,
            number: 3,
            datagram: 1472,
            buffer: 65_536,
            group: "239.255.67.65:7654".parse().unwrap(),
            name: "ab",
            heard: vec![ObservedMachine { id: 7, least_ttl: 1, ways: 0b10_0001, came: 9, sent: 10 }],
            origin: Some((3, Release { major: 0, minor: 9, patch: 7 })),
        }
    }

    #[test]
    fn hello_matches_its_documented_layout() {
        let mut bytes = Vec::new();
        hello().emit(AssociationId(5), 0, &mut bytes);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = "ca01fa01 00000005 01 01 02 00000003 000005c0 00010000 04 efff4341000000000000000000000000 1de6 02 6162 01 00000007 01 21 0009 000a 0003 00 09 07";
        assert_eq!(text, expected.replace(' ', ""));
        assert_eq!(Hello::parse(&bytes), Ok((AssociationId(5), hello())));
    }

    #[test]
    fn altered_hello_parses_or_is_refused() {
        let mut bytes = Vec::new();
        hello().emit(AssociationId(5), 200, &mut bytes);
        assert_eq!(bytes.len(), 200);
        assert_eq!(Hello::parse(&bytes).unwrap().1, hello());
        for len in 0..56 {
            assert!(Hello::parse(&bytes[..len]).is_err(), "{len}");
        }
        for at in 0..56 {
            for value in [0, 1, 5, 6, 64, 65, 127, 255] {
                let mut changed = bytes.clone();
                changed[at] = value;
                if let Ok((from, read)) = Hello::parse(&changed) {
                    let mut again = Vec::new();
                    read.emit(from, 0, &mut again);
                    assert_eq!(Hello::parse(&again), Ok((from, read)));
                }
            }
        }
    }

    /// Releases from before wire versions end there or pad with zeros.
    #[test]
    fn origin_is_read_where_there_is_one() {
        let earlier = Hello { origin: None, ..hello() };
        for len in [0, 200] {
            let mut bytes = Vec::new();
            earlier.emit(AssociationId(5), len, &mut bytes);
            assert_eq!(Hello::parse(&bytes), Ok((AssociationId(5), earlier.clone())));
        }
    }

    #[test]
    fn names_and_lists_that_are_too_long_are_cut() {
        let name = "ä".repeat(40);
        let long = Hello { name: &name, heard: vec![ObservedMachine::default(); 100], ..hello() };
        let mut bytes = Vec::new();
        long.emit(AssociationId(5), 0, &mut bytes);
        let (_, read) = Hello::parse(&bytes).unwrap();
        assert_eq!((read.name.len(), read.heard.len()), (MAX_NAME, MAX_HEARD));
    }
}
