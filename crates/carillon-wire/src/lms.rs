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
//! The association stands for the pair of source and group. Addresses are IPv6, with IPv4 addresses mapped; all zeros
//! is none: no turning point yet in a REQ, and no LMS router since the source in a SETUP or SPM. The interface is
//! zero except in a DMCAST, which has the same length as the DATA that it repeats. Sequence numbers count modulo
//! 2^32: `lo` and `hi` are the first and the last message that a REQ asks for, `next` the message that the source
//! will send next, and `oldest` the oldest one that it holds. Flag 1 of a REQ says that it was sent to the source
//! itself, which must answer the node that sent it. `past` is the number of repliers that the REQ must still pass.

mod describe;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use carillon_core::{AssociationId, PortId};

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::reader::Reader;

pub use describe::FORMAT;

/// Packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Offer of the source, or of a router below it, to act as replier for the routers further down.
    SrcRefresh(Offer),
    /// Offer of a receiver, or of a router on behalf of one, to act as replier for the router above.
    Refresh(Offer),
    /// Withdrawal of the replier below a router.
    Leave,
    /// Request for messages (negative acknowledgment).
    Req(Request),
    /// Directed multicast: a message for the turning point, which multicasts it on one interface.
    Dmcast {
        /// Interface on which the turning point multicasts.
        interface: PortId,
        /// Message to be repaired.
        data: Data<'a>,
    },
    /// Set-up: shows routers and receivers the path to the source, and receivers the one-way delay.
    Setup {
        /// Last LMS router that forwarded it.
        previous: Option<IpAddr>,
        /// Progress of the source.
        progress: Progress,
        /// Departure time at the source, in nanoseconds of a clock that all nodes share.
        timestamp: u64,
    },
    /// Source path message: renews the path to the source and shows the progress of the source.
    Spm {
        /// Last LMS router that forwarded it.
        previous: Option<IpAddr>,
        /// Progress of the source.
        progress: Progress,
    },
    /// First transmission of a message.
    Data(Data<'a>),
    /// Retransmission of a message.
    Repair(Data<'a>),
}

/// Quality of a replier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Cost of the replier; lower is better.
    pub cost: u32,
    /// Distance to the replier in LMS routers.
    pub hops: u16,
}

/// Request for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Router at which the request turned from upstream to a replier; `None` before that.
    pub turning_point: Option<TurningPoint>,
    /// True if the request was sent to the source itself, bypassing the routers.
    pub direct: bool,
    /// Number of repliers that the request must still pass.
    pub past: u8,
    /// Number of routers that the request may still pass.
    pub hops_left: u8,
    /// First requested message, modulo 2^32.
    pub lo: u32,
    /// Last requested message, modulo 2^32.
    pub hi: u32,
    /// Number of the attempt; 0 for the first request for these messages.
    pub attempt: u32,
}

/// Turning point: the router at which a request turned to a replier, and the interface on which it had arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurningPoint {
    /// Address of the router.
    pub address: IpAddr,
    /// Interface of the router.
    pub interface: PortId,
}

/// Message with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Number of the message, modulo 2^32.
    pub sequence: u32,
    /// Oldest message that the source still holds, modulo 2^32.
    pub oldest: u32,
    /// Contents of the message.
    pub payload: &'a [u8],
}

/// Progress of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of the message that the source will send next, modulo 2^32.
    pub next: u32,
    /// Oldest message that the source still holds, modulo 2^32.
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

/// Returns the packet type of a datagram of this protocol without parsing the rest. Routers use it, since they handle
/// few of the packets that pass.
pub fn packet_type_of(bytes: &[u8]) -> Option<u8> {
    Envelope::parse_for(protocol::LMS, bytes).ok().map(|(envelope, _)| envelope.packet_type)
}

impl<'a> Packet<'a> {
    /// Parses a datagram. Bytes behind a packet without a payload are padding.
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

    /// Length of the encoded packet in bytes.
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

/// Checks that a field is zero.
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

/// Display of an optional address.
struct Shown(Option<IpAddr>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// Packet types.
pub mod packet_type {
    /// Packet type of [`Packet::SrcRefresh`](super::Packet::SrcRefresh).
    pub const SRC_REFRESH: u8 = 1;
    /// Packet type of [`Packet::Refresh`](super::Packet::Refresh).
    pub const REFRESH: u8 = 2;
    /// Packet type of [`Packet::Leave`](super::Packet::Leave).
    pub const LEAVE: u8 = 3;
    /// Packet type of [`Packet::Req`](super::Packet::Req).
    pub const REQ: u8 = 4;
    /// Packet type of [`Packet::Dmcast`](super::Packet::Dmcast).
    pub const DMCAST: u8 = 5;
    /// Packet type of [`Packet::Setup`](super::Packet::Setup).
    pub const SETUP: u8 = 6;
    /// Packet type of [`Packet::Spm`](super::Packet::Spm).
    pub const SPM: u8 = 7;
    /// Packet type of [`Packet::Data`](super::Packet::Data).
    pub const DATA: u8 = 8;
    /// Packet type of [`Packet::Repair`](super::Packet::Repair).
    pub const REPAIR: u8 = 9;
}
