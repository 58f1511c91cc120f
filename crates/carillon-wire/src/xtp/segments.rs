//! Segments of XTP packets.

use std::fmt;
use std::net::Ipv4Addr;

use crate::ParseError;
use crate::reader::Reader;

/// Services in a traffic segment.
pub mod service {
    /// Unspecified service.
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

/// Status of a node in a control segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// First missing byte of the stream: all earlier ones have been received (RSEQ).
    pub rseq: u64,
    /// First byte beyond the receive window (ALLOC).
    pub alloc: u64,
    /// Highest received handshake number (ECHO).
    pub echo: u32,
}

/// Control segment of a node that also conveys its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// Status of the node.
    pub common: Common,
    /// Key of the node's context (XKEY).
    pub xkey: u64,
}

/// Ranges of bytes received beyond a gap, each from its first byte to one past its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spans<'a>(&'a [[u8; 16]]);

/// Address segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// Domain of the port numbers.
    pub domain: u8,
    /// Address.
    pub form: AddressForm<'a>,
}

/// Address by its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressForm<'a> {
    /// No address.
    Null([u8; 4]),
    /// Addresses of IP version 4.
    V4 {
        /// Destination address and port.
        destination: (Ipv4Addr, u16),
        /// Source address and port.
        source: (Ipv4Addr, u16),
    },
    /// Address of another format, which is kept as bytes.
    Other(u8, &'a [u8]),
}

/// Traffic segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic<'a> {
    /// Service, one of [`service`].
    pub service: u8,
    /// Traffic specification.
    pub form: TrafficForm<'a>,
}

/// Traffic specification by its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficForm<'a> {
    /// No specification.
    Null([u8; 4]),
    /// Sizes and rates.
    Rates(Rates),
    /// Specification of another format, which is kept as bytes.
    Other(u8, &'a [u8]),
}

/// Sizes in bytes and rates in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Maximum data of a packet in bytes.
    pub maxdata: u32,
    /// Rate that the sender of the segment accepts, in bytes per second.
    pub inrate: u32,
    /// Burst that it accepts, in bytes.
    pub inburst: u32,
    /// Rate at which it sends, in bytes per second.
    pub outrate: u32,
    /// Burst in which it sends, in bytes.
    pub outburst: u32,
}

impl Rates {
    /// Rate without limit.
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
    /// Encodes these ranges into `room`.
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

    /// Ranges in the order of the packet.
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
    /// Empty address.
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
            // A known format has one length only.
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
    /// Segment of this service with sizes and rates.
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
            // A known format has one length only.
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

/// Reads the head of a segment: the number of bytes behind the first four, and the last two of these four.
fn head(reader: &mut Reader<'_>, field: &'static str) -> Result<(usize, [u8; 2]), ParseError> {
    let len = reader.u16()?;
    // The length counts the four bytes of the head.
    let rest = usize::from(len).checked_sub(4).ok_or(ParseError::Field { field, value: len.into() })?;
    Ok((rest, reader.array()?))
}

/// Appends the head of a segment.
///
/// # Panics
///
/// Panics if the segment is longer than its length field can express.
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
