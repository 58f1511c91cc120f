//! Packets of LMS, Light-weight Multicast Services (Papadopoulos, Parulkar and Varghese 1998).
//!
//! The source names the packets and what they carry; the layout is Carillon's.
//!
//! ```text
//! +--------------------------+----------------+---------------+----------------------+---------
//! | envelope, 1 SRC_REFRESH  | cost (32)      | hops (16)     | padding
//! | envelope, 2 REFRESH      |                |               |
//! +--------------------------+----------------+---------------+
//! | envelope, 3 LEAVE        | padding
//! +--------------------------+----------------+---------------+------------+-----------+
//! | envelope, 4 REQ          | turning point: address (128), interface (16) | flags (8) |
//! |                          +---------------+---------------+--------------+-----------+
//! |                          | past (8)      | hops left (8) | lo (32)      | hi (32)   |
//! |                          +---------------+---------------+--------------+-----------+
//! |                          | attempt (32)  | padding
//! +--------------------------+---------------+---------------+---------------+---------
//! | envelope, 5 DMCAST       | interface (16)| sequence (32) | oldest (32)   | payload
//! | envelope, 8 DATA         |               |               |               |
//! | envelope, 9 REPAIR       |               |               |               |
//! +--------------------------+---------------+---------------+---------------+-----------+
//! | envelope, 6 SETUP        | previous (128)                | next (32)     | oldest(32)|
//! |                          +-------------------------------+---------------+-----------+
//! |                          | timestamp, ns (64)            | padding
//! +--------------------------+-------------------------------+---------------+-----------+
//! | envelope, 7 SPM          | previous (128)                | next (32)     | oldest(32)|
//! +--------------------------+-------------------------------+---------------+-----------+
//! ```
//!
//! The association stands for the pair of source and group. Addresses are IPv6, those of IPv4
//! mapped; all zeros is none: in a REQ, no turning point yet; in a SETUP or SPM, no LMS router since
//! the source. The interface is zero but in a DMCAST, which is otherwise as long as the DATA that it
//! repeats. Sequence numbers count modulo 2^32: `lo` and `hi` are the first and the last message
//! that a REQ asks for, `next` the message that the source will send next, `oldest` the oldest one
//! that it holds. Flag 1 of a REQ says that it was sent to the source itself, which is to answer the
//! node that sent it. `past` is how many repliers it goes past yet.

mod describe;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use carillon_core::{AssociationId, PortId};

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::reader::Reader;

pub use describe::FORMAT;

/// A packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// The source, or a router on the way from it, offers itself as replier to the routers below.
    SrcRefresh(Offer),
    /// A receiver, or a router for one below, offers itself as replier to the router above.
    Refresh(Offer),
    /// The replier below gives up its part.
    Leave,
    /// Asks for messages: the negative acknowledgment.
    Req(Request),
    /// A message for the turning point, which multicasts it on one interface.
    Dmcast {
        /// That interface.
        interface: PortId,
        /// The message.
        data: Data<'a>,
    },
    /// Shows routers and receivers the way up, and receivers how long a packet takes.
    Setup {
        /// The last LMS router that it passed.
        previous: Option<IpAddr>,
        /// How far the source has come.
        progress: Progress,
        /// When it left the source, in nanoseconds of a clock that all share.
        timestamp: u64,
    },
    /// Repairs the way up, and shows how far the source has come.
    Spm {
        /// The last LMS router that it passed.
        previous: Option<IpAddr>,
        /// How far the source has come.
        progress: Progress,
    },
    /// A message for the first time.
    Data(Data<'a>),
    /// A message again.
    Repair(Data<'a>),
}

/// How good a replier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What it costs: the lower, the better.
    pub cost: u32,
    /// How many LMS routers it is away.
    pub hops: u16,
}

/// Asks for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where it turned from upstream to a replier, if it has.
    pub turning_point: Option<TurningPoint>,
    /// It was sent to the source itself, past all routers.
    pub direct: bool,
    /// How many repliers it goes past yet.
    pub past: u8,
    /// How many routers it may pass yet.
    pub hops_left: u8,
    /// First message asked for, modulo 2^32.
    pub lo: u32,
    /// Last message asked for, modulo 2^32.
    pub hi: u32,
    /// 0 for the first request for these messages.
    pub attempt: u32,
}

/// The router at which a request turned to a replier, and the interface by which it had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurningPoint {
    /// Address of the router.
    pub address: IpAddr,
    /// Its interface.
    pub interface: PortId,
}

/// A message with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Modulo 2^32.
    pub sequence: u32,
    /// Oldest message that the source still holds, modulo 2^32.
    pub oldest: u32,
    /// The message.
    pub payload: &'a [u8],
}

/// How far a source has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The message that it will send next, modulo 2^32.
    pub next: u32,
    /// Oldest message that it still holds, modulo 2^32.
    pub oldest: u32,
}

/// Bytes of a packet with a message before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 10;
/// Bytes of a REFRESH or SRC_REFRESH without padding.
pub const REFRESH_LEN: usize = Envelope::LEN + 6;
/// Bytes of a LEAVE without padding.
pub const LEAVE_LEN: usize = Envelope::LEN;
/// Bytes of a REQ without padding.
pub const REQ_LEN: usize = Envelope::LEN + 33;
/// Bytes of a SETUP without padding.
pub const SETUP_LEN: usize = Envelope::LEN + 32;
/// Bytes of an SPM.
pub const SPM_LEN: usize = Envelope::LEN + 24;

/// The packet type of a datagram, if it is one of this protocol; whether the rest of it is sound is
/// another matter. For routers, which look at few of the packets that pass.
pub fn packet_type_of(bytes: &[u8]) -> Option<u8> {
    Envelope::parse_for(protocol::LMS, bytes).ok().map(|(envelope, _)| envelope.packet_type)
}

impl<'a> Packet<'a> {
    /// Parses a datagram. What follows a packet without a payload is padding.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut fields) = Reader::behind_envelope(protocol::LMS, bytes)?;
        let packet = match envelope.packet_type {
            packet_type::SRC_REFRESH => Packet::SrcRefresh(fields.offer()?),
            packet_type::REFRESH => Packet::Refresh(fields.offer()?),
            packet_type::LEAVE => Packet::Leave,
            packet_type::REQ => Packet::Req(fields.request()?),
            packet_type::DMCAST => {
                let interface = PortId(fields.u16()?);
                Packet::Dmcast { interface, data: fields.data()? }
            }
            packet_type::SETUP => Packet::Setup {
                previous: fields.address()?,
                progress: fields.progress()?,
                timestamp: fields.u64()?,
            },
            packet_type::SPM => Packet::Spm { previous: fields.address()?, progress: fields.progress()? },
            kind @ (packet_type::DATA | packet_type::REPAIR) => {
                zero("interface", fields.u16()?)?;
                let data = fields.data()?;
                if kind == packet_type::DATA { Packet::Data(data) } else { Packet::Repair(data) }
            }
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let packet_type = self.packet_type();
        Envelope { protocol: protocol::LMS, packet_type, association }.emit(buf);
        match *self {
            Packet::SrcRefresh(Offer { cost, hops }) | Packet::Refresh(Offer { cost, hops }) => {
                buf.extend_from_slice(&cost.to_be_bytes());
                buf.extend_from_slice(&hops.to_be_bytes());
            }
            Packet::Leave => {}
            Packet::Req(request) => request.emit(buf),
            Packet::Dmcast { interface, data } => data.emit(interface, buf),
            Packet::Setup { previous, progress, timestamp } => {
                progress.emit(previous, buf);
                buf.extend_from_slice(&timestamp.to_be_bytes());
            }
            Packet::Spm { previous, progress } => progress.emit(previous, buf),
            Packet::Data(data) | Packet::Repair(data) => data.emit(PortId(0), buf),
        }
    }

    /// Bytes that `emit` appends.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::SrcRefresh(_) | Packet::Refresh(_) => REFRESH_LEN,
            Packet::Leave => LEAVE_LEN,
            Packet::Req(_) => REQ_LEN,
            Packet::Dmcast { data, .. } | Packet::Data(data) | Packet::Repair(data) => {
                HEADER_LEN + data.payload.len()
            }
            Packet::Setup { .. } => SETUP_LEN,
            Packet::Spm { .. } => SPM_LEN,
        }
    }

    fn packet_type(&self) -> u8 {
        match self {
            Packet::SrcRefresh(_) => packet_type::SRC_REFRESH,
            Packet::Refresh(_) => packet_type::REFRESH,
            Packet::Leave => packet_type::LEAVE,
            Packet::Req(_) => packet_type::REQ,
            Packet::Dmcast { .. } => packet_type::DMCAST,
            Packet::Setup { .. } => packet_type::SETUP,
            Packet::Spm { .. } => packet_type::SPM,
            Packet::Data(_) => packet_type::DATA,
            Packet::Repair(_) => packet_type::REPAIR,
        }
    }
}

impl Request {
    fn emit(&self, buf: &mut Vec<u8>) {
        emit_address(self.turning_point.map(|point| point.address), buf);
        let interface = self.turning_point.map_or(PortId(0), |point| point.interface);
        buf.extend_from_slice(&interface.0.to_be_bytes());
        buf.extend_from_slice(&[u8::from(self.direct), self.past, self.hops_left]);
        buf.extend_from_slice(&self.lo.to_be_bytes());
        buf.extend_from_slice(&self.hi.to_be_bytes());
        buf.extend_from_slice(&self.attempt.to_be_bytes());
    }
}

impl Data<'_> {
    fn emit(&self, interface: PortId, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&interface.0.to_be_bytes());
        buf.extend_from_slice(&self.sequence.to_be_bytes());
        buf.extend_from_slice(&self.oldest.to_be_bytes());
        buf.extend_from_slice(self.payload);
    }
}

impl Progress {
    fn emit(&self, previous: Option<IpAddr>, buf: &mut Vec<u8>) {
        emit_address(previous, buf);
        buf.extend_from_slice(&self.next.to_be_bytes());
        buf.extend_from_slice(&self.oldest.to_be_bytes());
    }
}

fn emit_address(address: Option<IpAddr>, buf: &mut Vec<u8>) {
    let bytes = match address {
        None => Ipv6Addr::UNSPECIFIED,
        Some(IpAddr::V4(address)) => address.to_ipv6_mapped(),
        Some(IpAddr::V6(address)) => address,
    };
    buf.extend_from_slice(&bytes.octets());
}

/// A field that must be zero here.
fn zero(field: &'static str, value: u16) -> Result<(), ParseError> {
    if value == 0 { Ok(()) } else { Err(ParseError::Field { field, value: value.into() }) }
}

impl<'a> Reader<'a> {
    fn address(&mut self) -> Result<Option<IpAddr>, ParseError> {
        let address = Ipv6Addr::from(self.array::<16>()?);
        Ok((!address.is_unspecified()).then(|| address.to_canonical()))
    }

    fn offer(&mut self) -> Result<Offer, ParseError> {
        Ok(Offer { cost: self.u32()?, hops: self.u16()? })
    }

    fn progress(&mut self) -> Result<Progress, ParseError> {
        Ok(Progress { next: self.u32()?, oldest: self.u32()? })
    }

    fn data(&mut self) -> Result<Data<'a>, ParseError> {
        Ok(Data { sequence: self.u32()?, oldest: self.u32()?, payload: self.rest() })
    }

    fn request(&mut self) -> Result<Request, ParseError> {
        let (address, interface) = (self.address()?, self.u16()?);
        let turning_point = match address {
            Some(address) => Some(TurningPoint { address, interface: PortId(interface) }),
            None => {
                zero("interface", interface)?;
                None
            }
        };
        let [flags, past, hops_left] = self.array()?;
        if flags > 1 {
            return Err(ParseError::Field { field: "flags", value: flags.into() });
        }
        let (lo, hi, attempt) = (self.u32()?, self.u32()?, self.u32()?);
        Ok(Request { turning_point, direct: flags == 1, past, hops_left, lo, hi, attempt })
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::SrcRefresh(Offer { cost, hops }) => write!(f, "lms src_refresh cost {cost} hops {hops}"),
            Packet::Refresh(Offer { cost, hops }) => write!(f, "lms refresh cost {cost} hops {hops}"),
            Packet::Leave => f.write_str("lms leave"),
            Packet::Req(request) => write!(f, "lms req {request}"),
            Packet::Dmcast { interface, data } => write!(f, "lms dmcast on {interface} {data}"),
            Packet::Setup { previous, progress, timestamp } => {
                write!(f, "lms setup {progress} time {timestamp} ns previous {}", Shown(*previous))
            }
            Packet::Spm { previous, progress } => {
                write!(f, "lms spm {progress} previous {}", Shown(*previous))
            }
            Packet::Data(data) => write!(f, "lms data {data}"),
            Packet::Repair(data) => write!(f, "lms repair {data}"),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { turning_point, direct, past, hops_left, lo, hi, attempt } = self;
        write!(f, "{lo}-{hi} attempt {attempt} past {past} hops left {hops_left} turning point ")?;
        match turning_point {
            Some(point) => write!(f, "{} {}", point.address, point.interface)?,
            None => f.write_str("none")?,
        }
        if *direct { f.write_str(" direct") } else { Ok(()) }
    }
}

impl fmt::Display for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seq {} oldest {} len {}", self.sequence, self.oldest, self.payload.len())
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "next {} oldest {}", self.next, self.oldest)
    }
}

/// An address or none.
struct Shown(Option<IpAddr>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// The packet types.
pub mod packet_type {
    /// See [`Packet::SrcRefresh`](super::Packet::SrcRefresh).
    pub const SRC_REFRESH: u8 = 1;
    /// See [`Packet::Refresh`](super::Packet::Refresh).
    pub const REFRESH: u8 = 2;
    /// See [`Packet::Leave`](super::Packet::Leave).
    pub const LEAVE: u8 = 3;
    /// See [`Packet::Req`](super::Packet::Req).
    pub const REQ: u8 = 4;
    /// See [`Packet::Dmcast`](super::Packet::Dmcast).
    pub const DMCAST: u8 = 5;
    /// See [`Packet::Setup`](super::Packet::Setup).
    pub const SETUP: u8 = 6;
    /// See [`Packet::Spm`](super::Packet::Spm).
    pub const SPM: u8 = 7;
    /// See [`Packet::Data`](super::Packet::Data).
    pub const DATA: u8 = 8;
    /// See [`Packet::Repair`](super::Packet::Repair).
    pub const REPAIR: u8 = 9;
}
