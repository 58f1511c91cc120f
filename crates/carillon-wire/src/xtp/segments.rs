//! The segments of packets.

use std::fmt;
use std::net::Ipv4Addr;

use crate::ParseError;
use crate::reader::Reader;

/// The services that a traffic segment names.
pub mod service {
    /// Not said.
    pub const UNSPECIFIED: u8 = 0;
    /// An unacknowledged datagram.
    pub const DATAGRAM: u8 = 1;
    /// An acknowledged datagram.
    pub const ACKNOWLEDGED_DATAGRAM: u8 = 2;
    /// A transaction.
    pub const TRANSACTION: u8 = 3;
    /// A reliable stream to one node.
    pub const UNICAST_STREAM: u8 = 4;
    /// An unacknowledged stream to a group.
    pub const UNACKNOWLEDGED_MULTICAST: u8 = 5;
    /// A reliable stream to a group.
    pub const RELIABLE_MULTICAST: u8 = 6;
}

/// What a node has and takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// All bytes below it have come in order.
    pub rseq: u64,
    /// The first byte that there is no room for.
    pub alloc: u64,
    /// The highest number of a handshake that has come.
    pub echo: u32,
}

/// The same of a node that hands its key over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// What it has and takes.
    pub common: Common,
    /// The key of its context.
    pub xkey: u64,
}

/// Ranges of bytes that have come beyond a gap, each from its first byte to one past its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spans<'a>(&'a [[u8; 16]]);

/// An address segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// The space that ports are of.
    pub domain: u8,
    /// The address.
    pub form: AddressForm<'a>,
}

/// An address, by its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressForm<'a> {
    /// None.
    Null([u8; 4]),
    /// Of IP version 4.
    V4 {
        /// Where it goes.
        destination: (Ipv4Addr, u16),
        /// Where it comes from.
        source: (Ipv4Addr, u16),
    },
    /// One of another format.
    Other(u8, &'a [u8]),
}

/// A traffic segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic<'a> {
    /// One of [`service`].
    pub service: u8,
    /// How much of it.
    pub form: TrafficForm<'a>,
}

/// How much traffic, by its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficForm<'a> {
    /// Not said.
    Null([u8; 4]),
    /// Sizes and rates.
    Rates(Rates),
    /// Of another format.
    Other(u8, &'a [u8]),
}

/// Sizes in bytes and rates in bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Data of a packet, at most.
    pub maxdata: u32,
    /// What its sender takes in a second.
    pub inrate: u32,
    /// And at once.
    pub inburst: u32,
    /// What its sender sends in a second.
    pub outrate: u32,
    /// And at once.
    pub outburst: u32,
}

impl Rates {
    /// As fast as it goes.
    pub const UNLIMITED: u32 = u32::MAX;
}

impl Common {
    pub(super) const LEN: usize = 20;

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Common { rseq: reader.u64()?, alloc: reader.u64()?, echo: reader.u32()? })
    }

    pub(super) fn put(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.rseq.to_be_bytes());
        buf.extend_from_slice(&self.alloc.to_be_bytes());
        buf.extend_from_slice(&self.echo.to_be_bytes());
    }
}

impl Handover {
    pub(super) const LEN: usize = Common::LEN + 12;

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let common = Common::read(reader)?;
        match reader.u32()? {
            0 => Ok(Handover { common, xkey: reader.u64()? }),
            other => Err(ParseError::Field { field: "reserved", value: other.into() }),
        }
    }

    pub(super) fn put(&self, buf: &mut Vec<u8>) {
        self.common.put(buf);
        buf.extend_from_slice(&[0; 4]);
        buf.extend_from_slice(&self.xkey.to_be_bytes());
    }
}

impl<'a> Spans<'a> {
    /// Of these ranges, which are put where the packet is to be made of them.
    pub fn of(ranges: impl IntoIterator<Item = (u64, u64)>, room: &'a mut Vec<[u8; 16]>) -> Self {
        room.clear();
        room.extend(ranges.into_iter().map(|(left, right)| {
            let mut span = [0; 16];
            span[..8].copy_from_slice(&left.to_be_bytes());
            span[8..].copy_from_slice(&right.to_be_bytes());
            span
        }));
        Spans(room)
    }

    /// They, in the order of the packet.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.0.iter().map(|span| {
            let (left, right) = span.split_at(8);
            let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
            (number(left), number(right))
        })
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let count = reader.u32()?;
        let (spans, rest) = reader.remaining().as_chunks::<16>();
        if spans.len() as u64 != u64::from(count) || !rest.is_empty() {
            return Err(ParseError::Field { field: "nspan", value: count.into() });
        }
        Ok(Spans(spans))
    }

    pub(super) fn put(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&(self.0.len() as u32).to_be_bytes());
        buf.extend_from_slice(self.0.as_flattened());
    }

    pub(super) fn wire_len(&self) -> usize {
        4 + 16 * self.0.len()
    }
}

impl<'a> Address<'a> {
    /// No address.
    pub const NULL: Address<'static> = Address { domain: 0, form: AddressForm::Null([0; 4]) };

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let (rest, [domain, format]) = head(reader, "alen")?;
        let form = match (format, rest) {
            (NULL, 4) => AddressForm::Null(reader.array()?),
            (IPV4, 12) => {
                let destination = Ipv4Addr::from(reader.array::<4>()?);
                let source = Ipv4Addr::from(reader.array::<4>()?);
                AddressForm::V4 { destination: (destination, reader.u16()?), source: (source, reader.u16()?) }
            }
            (NULL | IPV4, _) => return Err(ParseError::Field { field: "alen", value: rest as u64 + 4 }),
            _ => AddressForm::Other(format, reader.bytes(rest)?),
        };
        Ok(Address { domain, form })
    }

    pub(super) fn put(&self, buf: &mut Vec<u8>) {
        let format = match self.form {
            AddressForm::Null(_) => NULL,
            AddressForm::V4 { .. } => IPV4,
            AddressForm::Other(format, _) => format,
        };
        put_head(self.wire_len(), [self.domain, format], buf);
        match self.form {
            AddressForm::Null(bytes) => buf.extend_from_slice(&bytes),
            AddressForm::V4 { destination, source } => {
                buf.extend_from_slice(&destination.0.octets());
                buf.extend_from_slice(&source.0.octets());
                buf.extend_from_slice(&destination.1.to_be_bytes());
                buf.extend_from_slice(&source.1.to_be_bytes());
            }
            AddressForm::Other(_, bytes) => buf.extend_from_slice(bytes),
        }
    }

    pub(super) fn wire_len(&self) -> usize {
        match self.form {
            AddressForm::Null(_) => 8,
            AddressForm::V4 { .. } => 16,
            AddressForm::Other(_, bytes) => 4 + bytes.len(),
        }
    }
}

impl<'a> Traffic<'a> {
    /// This service, with sizes and rates.
    pub fn rates(service: u8, rates: Rates) -> Self {
        Traffic { service, form: TrafficForm::Rates(rates) }
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let (rest, [service, format]) = head(reader, "tlen")?;
        let form = match (format, rest) {
            (NULL, 4) => TrafficForm::Null(reader.array()?),
            (RATES, 20) => TrafficForm::Rates(Rates {
                maxdata: reader.u32()?,
                inrate: reader.u32()?,
                inburst: reader.u32()?,
                outrate: reader.u32()?,
                outburst: reader.u32()?,
            }),
            (NULL | RATES, _) => return Err(ParseError::Field { field: "tlen", value: rest as u64 + 4 }),
            _ => TrafficForm::Other(format, reader.bytes(rest)?),
        };
        Ok(Traffic { service, form })
    }

    pub(super) fn put(&self, buf: &mut Vec<u8>) {
        let format = match self.form {
            TrafficForm::Null(_) => NULL,
            TrafficForm::Rates(_) => RATES,
            TrafficForm::Other(format, _) => format,
        };
        put_head(self.wire_len(), [self.service, format], buf);
        match self.form {
            TrafficForm::Null(bytes) => buf.extend_from_slice(&bytes),
            TrafficForm::Rates(rates) => {
                for number in [rates.maxdata, rates.inrate, rates.inburst, rates.outrate, rates.outburst] {
                    buf.extend_from_slice(&number.to_be_bytes());
                }
            }
            TrafficForm::Other(_, bytes) => buf.extend_from_slice(bytes),
        }
    }

    pub(super) fn wire_len(&self) -> usize {
        match self.form {
            TrafficForm::Null(_) => 8,
            TrafficForm::Rates(_) => 24,
            TrafficForm::Other(_, bytes) => 4 + bytes.len(),
        }
    }
}

/// How many bytes of a segment follow these four, and the last two of them.
fn head(reader: &mut Reader<'_>, field: &'static str) -> Result<(usize, [u8; 2]), ParseError> {
    let len = reader.u16()?;
    let rest = usize::from(len).checked_sub(4).ok_or(ParseError::Field { field, value: len.into() })?;
    Ok((rest, reader.array()?))
}

/// # Panics
///
/// If the segment is longer than its length field can say.
fn put_head(len: usize, kinds: [u8; 2], buf: &mut Vec<u8>) {
    let len = u16::try_from(len).expect("a segment has at most 65535 bytes");
    buf.extend_from_slice(&len.to_be_bytes());
    buf.extend_from_slice(&kinds);
}

const NULL: u8 = 0;
const IPV4: u8 = 1;
const RATES: u8 = 1;

impl fmt::Display for Spans<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("spans [")?;
        for (at, (left, right)) in self.iter().enumerate() {
            write!(f, "{}{left}..{right}", if at > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Address<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            AddressForm::Null(_) => f.write_str("to nobody by name"),
            AddressForm::V4 { destination, source } => {
                write!(f, "to {}:{} from {}:{}", destination.0, destination.1, source.0, source.1)
            }
            AddressForm::Other(format, bytes) => {
                write!(f, "address format {format} of {} bytes", bytes.len())
            }
        }
    }
}

impl fmt::Display for Traffic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {}", self.service)?;
        match self.form {
            TrafficForm::Null(_) => Ok(()),
            TrafficForm::Rates(rates) => {
                let Rates { maxdata, inrate, inburst, outrate, outburst } = rates;
                write!(f, " maxdata {maxdata} in {inrate}/{inburst} out {outrate}/{outburst}")
            }
            TrafficForm::Other(format, bytes) => write!(f, " format {format} of {} bytes", bytes.len()),
        }
    }
}
