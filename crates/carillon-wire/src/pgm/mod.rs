//! Packets of PGM, Pragmatic General Multicast: RFC 3208, section 8; SPMR is in section 13.6, POLL and POLR are in
//! 14.7.
//!
//! The bytes are the RFC's own, without the common envelope; over UDP a packet is the datagram.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +---+---+-------+---------------+-------------------------------+
//! |ver|tpe| type  |    options    |           checksum            |
//! +---+---+-------+---------------+-------------------------------+
//! |                       global source id ...                    |
//! +-------------------------------+-------------------------------+
//! |       ... global source id    |          TSDU length          |
//! +-------------------------------+-------------------------------+
//! | SPM         sqn 4, trail 4, lead 4, path NLA                  |
//! | POLL        sqn 4, round 2, subtype 2, path NLA, back-off     |
//! |             interval 4, random string 4, mask 4               |
//! | POLR        sqn 4, round 2, reserved 2                        |
//! | ODATA RDATA sqn 4, trail 4                                    |
//! | NAK NNAK NCF  sqn 4, source NLA, group NLA                    |
//! | SPMR        nothing                                           |
//! | ACK         newest sqn 4, bitmap 4                            |
//! +---------------------------------------------------------------+
//! | options, if there are any; the data of ODATA and RDATA        |
//! +---------------------------------------------------------------+
//! ```
//!
//! An NLA (network-layer address) stands behind its address family: AFI 2, reserved 2, address 4 or 16 bytes. Packets
//! that go upstream (NAK, NNAK, SPMR, POLR, ACK) have the two ports exchanged.
//!
//! The options byte marks parity (section 11): parity packets, and NAKs and NCFs that count them. ACKs and their
//! options belong to PGMCC (draft-ietf-rmt-bb-pgmcc-03), with the numbers that OpenPGM uses. Options without a
//! field in [`Options`] are skipped.

mod bytes;
mod describe;
mod options;

use std::fmt;
use std::net::IpAddr;

pub use options::{
    AckerElection, BackOffInterval, BackOffRange, Fragment, LossReport, NakList, Options, ParityParameters,
};

use crate::ParseError;
use crate::reader::Reader;
use bytes::{CHECKSUM_AT, checksum, put_nla};

pub use describe::FORMAT;

/// Transport session identifier (TSI), which every packet of a source carries (RFC 3208, section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tsi {
    /// Global source identifier (GSI), 48 bits.
    pub gsi: [u8; 6],
    /// Data-source port.
    pub port: u16,
}

/// PGM packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Session of the packet.
    pub tsi: Tsi,
    /// Data-destination port, which is the application's.
    pub destination_port: u16,
    /// Fields of the packet type.
    pub body: Body<'a>,
    /// Option extensions.
    pub options: Options<'a>,
}

/// Contents that depend on the packet type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Source path message (SPM; section 8.1).
    Spm(Spm),
    /// Poll request (POLL; section 14.7.1).
    Poll(Poll),
    /// Poll response (POLR; section 14.7.2).
    Polr {
        /// Sequence number of the answered POLL.
        sqn: u32,
        /// Round of the answered POLL.
        round: u16,
    },
    /// Original data (ODATA; section 8.2).
    Odata(Data<'a>),
    /// Repair data (RDATA; section 8.2).
    Rdata(Data<'a>),
    /// Negative acknowledgment (NAK; section 8.3).
    Nak(Nak),
    /// Null negative acknowledgment (N-NAK; section 8.3).
    Nnak(Nak),
    /// NAK confirmation (NCF; section 8.3).
    Ncf(Nak),
    /// SPM request (SPMR; section 13.6).
    Spmr,
    /// Acknowledgment of the acker (PGMCC).
    Ack(Ack),
}

/// Source path message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spm {
    /// Sequence number of the SPM itself.
    pub sqn: u32,
    /// Trailing edge of the transmit window (TXW_TRAIL).
    pub trail: u32,
    /// Leading edge of the transmit window (TXW_LEAD); trail - 1 if the window is empty.
    pub lead: u32,
    /// Address of the node that forwarded the SPM, to which the next NAK goes.
    pub path: IpAddr,
}

impl Spm {
    /// Trail and lead of an SPM without window information.
    pub const NO_WINDOW: (u32, u32) = (0, 0x8000_0000);
}

/// Poll request to the children of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Sequence number of the POLL.
    pub sqn: u32,
    /// Round of the POLL.
    pub round: u16,
    /// Polled children: 0 any, 1 designated local repairers.
    pub subtype: u16,
    /// Address of the polling node.
    pub path: IpAddr,
    /// Back-off interval of the answers, in microseconds.
    pub back_off_us: u32,
    /// Random number, compared with a child's own one.
    pub random: u32,
    /// Mask of the compared bits.
    pub mask: u32,
}

impl Poll {
    /// Subtype for designated local repairers (DLRs).
    pub const REPAIRERS: u16 = 1;
}

/// Original or repair data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Sequence number of the packet.
    pub sqn: u32,
    /// Trailing edge of the transmit window (DATA_TRAIL).
    pub trail: u32,
    /// Data.
    pub payload: &'a [u8],
}

/// Request for a packet, or confirmation of the request. Further sequence numbers are in [`Options::nak_list`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nak {
    /// Sequence number of the requested packet.
    pub sqn: u32,
    /// Address of the source of the data.
    pub source: IpAddr,
    /// Address of the group.
    pub group: IpAddr,
}

/// Acknowledgment of original data by the acker (PGMCC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Newest sequence number that was received (RX_MAX).
    pub newest: u32,
    /// Reception of 32 packets; bit n stands for the packet `newest` - n.
    pub bitmap: u32,
}

/// Packet types (section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketType {
    /// Source path message.
    Spm = 0x00,
    /// Poll request.
    Poll = 0x01,
    /// Poll response.
    Polr = 0x02,
    /// Original data.
    Odata = 0x04,
    /// Repair data.
    Rdata = 0x05,
    /// Negative acknowledgment.
    Nak = 0x08,
    /// Null negative acknowledgment.
    Nnak = 0x09,
    /// NAK confirmation.
    Ncf = 0x0a,
    /// SPM request.
    Spmr = 0x0c,
    /// Acknowledgment.
    Ack = 0x0d,
}

/// Bytes of the header that all packets have.
pub const COMMON_LEN: usize = 16;
/// Bytes of a data packet before its options and its payload.
pub const DATA_HEADER_LEN: usize = COMMON_LEN + 8;
/// Bytes of OPT_PGMCC_DATA with an IPv4 address, and of OPT_LENGTH.
pub const ELECTION_LEN: usize = 4 + 16;
/// Bytes of OPT_PGMCC_DATA with an IPv6 address, and of OPT_LENGTH.
pub const ELECTION_LEN_IPV6: usize = 4 + 28;
/// Maximum payload of a packet in bytes: both its length and that of a datagram have 16 bits.
pub const MAX_TSDU: usize = 65_000;

impl PacketType {
    /// Packet type, if the fixed header looks like PGM; nothing else is checked.
    pub fn peek(bytes: &[u8]) -> Option<PacketType> {
        if bytes.len() < COMMON_LEN { None } else { PacketType::of(bytes[TYPE_AT]) }
    }

    fn of(byte: u8) -> Option<PacketType> {
        use PacketType::*;
        let all = [Spm, Poll, Polr, Odata, Rdata, Nak, Nnak, Ncf, Spmr, Ack];
        all.into_iter().find(|&known| known as u8 == byte)
    }

    /// Returns true for a packet towards the source, which has its ports exchanged.
    fn is_upstream(self) -> bool {
        use PacketType::{Ack, Nak, Nnak, Polr, Spmr};
        matches!(self, Polr | Nak | Nnak | Spmr | Ack)
    }

    fn name(self) -> &'static str {
        match self {
            PacketType::Spm => "spm",
            PacketType::Poll => "poll",
            PacketType::Polr => "polr",
            PacketType::Odata => "odata",
            PacketType::Rdata => "rdata",
            PacketType::Nak => "nak",
            PacketType::Nnak => "n-nak",
            PacketType::Ncf => "ncf",
            PacketType::Spmr => "spmr",
            PacketType::Ack => "ack",
        }
    }
}

impl<'a> Packet<'a> {
    /// Parses a datagram and verifies its checksum.
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let mut reader = Reader::new(bytes);
        let ports = [reader.u16()?, reader.u16()?];
        let [kind, flags] = reader.array::<2>()?;
        let stored = reader.u16()?;
        let gsi = reader.array::<6>()?;
        let tsdu = usize::from(reader.u16()?);
        let kind = PacketType::of(kind).ok_or(ParseError::Type(kind))?;
        let is_data = matches!(kind, PacketType::Odata | PacketType::Rdata);
        // Zero means that no checksum was computed, which data must not claim (section 8).
        if (stored == 0 && is_data) || (stored != 0 && checksum(bytes) != stored) {
            return Err(ParseError::Field { field: "checksum", value: stored.into() });
        }
        // Upstream packets name the source by the destination port (section 8).
        let [source_port, destination_port] = if kind.is_upstream() { [ports[1], ports[0]] } else { ports };
        let tsi = Tsi { gsi, port: source_port };
        let nak = |reader: &mut Reader<'a>| -> Result<Nak, ParseError> {
            Ok(Nak { sqn: reader.u32()?, source: reader.nla()?, group: reader.nla()? })
        };
        let body = match kind {
            PacketType::Spm => Body::Spm(Spm {
                sqn: reader.u32()?,
                trail: reader.u32()?,
                lead: reader.u32()?,
                path: reader.nla()?,
            }),
            PacketType::Poll => Body::Poll(Poll {
                sqn: reader.u32()?,
                round: reader.u16()?,
                subtype: reader.u16()?,
                path: reader.nla()?,
                back_off_us: reader.u32()?,
                random: reader.u32()?,
                mask: reader.u32()?,
            }),
            PacketType::Polr => {
                let (sqn, round) = (reader.u32()?, reader.u16()?);
                // Reserved bytes (section 14.7.2).
                reader.u16()?;
                Body::Polr { sqn, round }
            }
            PacketType::Odata => Body::Odata(Data { sqn: reader.u32()?, trail: reader.u32()?, payload: &[] }),
            PacketType::Rdata => Body::Rdata(Data { sqn: reader.u32()?, trail: reader.u32()?, payload: &[] }),
            PacketType::Nak => Body::Nak(nak(&mut reader)?),
            PacketType::Nnak => Body::Nnak(nak(&mut reader)?),
            PacketType::Ncf => Body::Ncf(nak(&mut reader)?),
            PacketType::Spmr => Body::Spmr,
            PacketType::Ack => Body::Ack(Ack { newest: reader.u32()?, bitmap: reader.u32()? }),
        };
        let options = match flags & flag::PRESENT {
            0 => Options::default(),
            _ => Options::parse(&mut reader)?,
        };
        let (parity, variable_length) = (flags & flag::PARITY != 0, flags & flag::VARIABLE != 0);
        let options = Options { parity, variable_length, ..options };
        let rest = reader.rest();
        // The TSDU is everything behind the options, and only data packets have one.
        if rest.len() != tsdu || (tsdu > 0 && !is_data) {
            return Err(ParseError::Field { field: "TSDU length", value: tsdu as u64 });
        }
        let body = match body {
            Body::Odata(data) => Body::Odata(Data { payload: rest, ..data }),
            Body::Rdata(data) => Body::Rdata(Data { payload: rest, ..data }),
            other => other,
        };
        Ok(Packet { tsi, destination_port, body, options })
    }

    /// Appends the packet as a datagram.
    ///
    /// # Panics
    ///
    /// Panics if it does not fit a datagram: its payload has more bytes than [`MAX_TSDU`].
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let start = buf.len();
        let (kind, tsdu) = (self.packet_type(), self.payload());
        assert!(tsdu.len() <= MAX_TSDU, "{} bytes do not fit a packet", tsdu.len());
        let ports = [self.tsi.port, self.destination_port];
        let [first, second] = if kind.is_upstream() { [ports[1], ports[0]] } else { ports };
        buf.extend_from_slice(&first.to_be_bytes());
        buf.extend_from_slice(&second.to_be_bytes());
        buf.extend_from_slice(&[kind as u8, self.flags(), 0, 0]);
        buf.extend_from_slice(&self.tsi.gsi);
        buf.extend_from_slice(&(tsdu.len() as u16).to_be_bytes());
        match self.body {
            Body::Spm(spm) => {
                for number in [spm.sqn, spm.trail, spm.lead] {
                    buf.extend_from_slice(&number.to_be_bytes());
                }
                put_nla(spm.path, buf);
            }
            Body::Poll(poll) => {
                buf.extend_from_slice(&poll.sqn.to_be_bytes());
                buf.extend_from_slice(&poll.round.to_be_bytes());
                buf.extend_from_slice(&poll.subtype.to_be_bytes());
                put_nla(poll.path, buf);
                for number in [poll.back_off_us, poll.random, poll.mask] {
                    buf.extend_from_slice(&number.to_be_bytes());
                }
            }
            Body::Polr { sqn, round } => {
                buf.extend_from_slice(&sqn.to_be_bytes());
                buf.extend_from_slice(&round.to_be_bytes());
                buf.extend_from_slice(&[0, 0]);
            }
            Body::Odata(data) | Body::Rdata(data) => {
                buf.extend_from_slice(&data.sqn.to_be_bytes());
                buf.extend_from_slice(&data.trail.to_be_bytes());
            }
            Body::Nak(nak) | Body::Nnak(nak) | Body::Ncf(nak) => {
                buf.extend_from_slice(&nak.sqn.to_be_bytes());
                put_nla(nak.source, buf);
                put_nla(nak.group, buf);
            }
            Body::Spmr => {}
            Body::Ack(ack) => {
                buf.extend_from_slice(&ack.newest.to_be_bytes());
                buf.extend_from_slice(&ack.bitmap.to_be_bytes());
            }
        }
        self.options.emit(buf);
        buf.extend_from_slice(tsdu);
        // The checksum covers the whole packet with its own field as zero.
        let sum = checksum(&buf[start..]);
        buf[start + CHECKSUM_AT..start + CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        let nla = |address: IpAddr| if address.is_ipv4() { 8 } else { 20 };
        let body = match self.body {
            Body::Spm(spm) => 12 + nla(spm.path),
            Body::Poll(poll) => 20 + nla(poll.path),
            Body::Polr { .. } | Body::Ack(_) => 8,
            Body::Odata(data) | Body::Rdata(data) => 8 + data.payload.len(),
            Body::Nak(nak) | Body::Nnak(nak) | Body::Ncf(nak) => 4 + nla(nak.source) + nla(nak.group),
            Body::Spmr => 0,
        };
        COMMON_LEN + body + self.options.wire_len()
    }

    /// Packet type.
    pub fn packet_type(&self) -> PacketType {
        match self.body {
            Body::Spm(_) => PacketType::Spm,
            Body::Poll(_) => PacketType::Poll,
            Body::Polr { .. } => PacketType::Polr,
            Body::Odata(_) => PacketType::Odata,
            Body::Rdata(_) => PacketType::Rdata,
            Body::Nak(_) => PacketType::Nak,
            Body::Nnak(_) => PacketType::Nnak,
            Body::Ncf(_) => PacketType::Ncf,
            Body::Spmr => PacketType::Spmr,
            Body::Ack(_) => PacketType::Ack,
        }
    }

    /// Data of the packet, if any.
    pub fn payload(&self) -> &'a [u8] {
        match self.body {
            Body::Odata(data) | Body::Rdata(data) => data.payload,
            _ => &[],
        }
    }

    fn flags(&self) -> u8 {
        let present = match (self.options.wire_len(), self.options.has_network_significant()) {
            (0, _) => 0,
            (_, false) => flag::PRESENT,
            (_, true) => flag::PRESENT | flag::NETWORK_SIGNIFICANT,
        };
        let set = |is: bool, flag: u8| if is { flag } else { 0 };
        present | set(self.options.parity, flag::PARITY) | set(self.options.variable_length, flag::VARIABLE)
    }
}

/// Replaces the path of an SPM or POLL, as a network element does when it forwards one; all other bytes stay,
/// including unknown options. `None` for other packets and for an address of another family.
pub fn with_path(packet: &[u8], path: IpAddr) -> Option<Vec<u8>> {
    let (old, at) = match Packet::parse(packet).ok()?.body {
        // Offsets of the address itself, behind the numbers and its family.
        Body::Spm(spm) => (spm.path, COMMON_LEN + 16),
        Body::Poll(poll) => (poll.path, COMMON_LEN + 12),
        _ => return None,
    };
    let mut again = packet.to_vec();
    match (old, path) {
        (IpAddr::V4(_), IpAddr::V4(path)) => again[at..at + 4].copy_from_slice(&path.octets()),
        (IpAddr::V6(_), IpAddr::V6(path)) => again[at..at + 16].copy_from_slice(&path.octets()),
        _ => return None,
    }
    let sum = checksum(&again);
    again[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
    Some(again)
}

/// Appends the repair of a data packet: an RDATA with this trailing edge. All other bytes are those of the first
/// transmission (section 5.3), including unknown options. Appends nothing and returns false for other packets.
pub fn emit_repair(packet: &[u8], trail: u32, buf: &mut Vec<u8>) -> bool {
    let Ok(Body::Odata(_) | Body::Rdata(_)) = Packet::parse(packet).map(|packet| packet.body) else {
        return false;
    };
    let start = buf.len();
    buf.extend_from_slice(packet);
    let again = &mut buf[start..];
    // Only the type, the trailing edge and the checksum change (section 5.3).
    again[TYPE_AT] = PacketType::Rdata as u8;
    again[COMMON_LEN + 4..DATA_HEADER_LEN].copy_from_slice(&trail.to_be_bytes());
    let sum = checksum(again);
    again[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pgm {}", self.packet_type().name())?;
        match self.body {
            Body::Spm(Spm { sqn, trail, lead, path }) => {
                write!(f, " {sqn} trail {trail} lead {lead} path {path}")?;
            }
            Body::Poll(Poll { sqn, round, subtype, path, .. }) => {
                write!(f, " {sqn} round {round} type {subtype} path {path}")?;
            }
            Body::Polr { sqn, round } => write!(f, " {sqn} round {round}")?,
            Body::Odata(data) | Body::Rdata(data) => {
                write!(f, " {} trail {} len {}", data.sqn, data.trail, data.payload.len())?;
            }
            Body::Nak(nak) | Body::Nnak(nak) | Body::Ncf(nak) => write!(f, " {}", nak.sqn)?,
            Body::Spmr => {}
            Body::Ack(ack) => write!(f, " {} map {:08x}", ack.newest, ack.bitmap)?,
        }
        self.options.fmt(f)
    }
}

/// Bits of the options byte, from the lowest. The prose of section 8 counts them from the highest, but every
/// implementation does this.
mod flag {
    /// Option extensions are present.
    pub const PRESENT: u8 = 0x01;
    /// Network elements must process an option.
    pub const NETWORK_SIGNIFICANT: u8 = 0x02;
    /// Parity packet of packets of several lengths.
    pub const VARIABLE: u8 = 0x40;
    /// Parity packet, or NAK or NCF for a number of them.
    pub const PARITY: u8 = 0x80;
}

const TYPE_AT: usize = 4;
