//! Packets of the status-combining transports: SNR, DSP, CSP and CP.
//!
//! Paul, Sabnani and Kristol (ICNP 1994, section 3.2 and table 1) name the packets, their types and their fields; the
//! drawing of the packets is lost, so that order and widths are Carillon's. Types 4 and 5 the paper describes without
//! calling them packets (the orders of CP, and the transmitter's state of SNR).
//!
//! ```text
//! +----------------------+----------+------------+--------+-----------+-----------+-----------+-------------+
//! | envelope, 0 or 1     | seq (32) | lower (32) | done   | echo (32) | held (32) | age (32)  | buffer (16) |
//! | STATUS               |          |            | (32)   |           |           |           | k (8)       |
//! |                      |          |            |        |           |           |           | words (8)   |
//! |                      | map, from `lower` on (64 x words)                                                |
//! +----------------------+----------+------------+--------+-----------+-----------+-----------+-------------+
//! | envelope, 2 or 3     | seq (32) | block (32) | first (32) | interval (32) | payload
//! | DATA                 |          |            |            |               |
//! +----------------------+----------+------------+------------+---------------+
//! | envelope, 4 ORDER    | block (32) | start (8) |
//! +----------------------+----------+------------+------------+---------------+--------+
//! | envelope, 5 STATE    | seq (32) | upper (32) | first (32) | interval (32) | k (8) |
//! +----------------------+----------+------------+------------+---------------+--------+
//! ```
//!
//! MVCI and LMVCI are the envelope's association and the datagram's destination, EPI and LEPI the datagram's source.
//! Types 0 and 1 are a status to the source and to a representative or exchange; types 2 and 3 are data from an
//! endpoint to its region and from the source to all. Numbers count modulo 2^32, times are microseconds.
//!
//! `lower` is LW_r: all blocks before it are present. Bit i of the map (LOB), words in order and each from its lowest
//! bit, says that the block `lower` + i is present. `done` is Carillon's: all endpoints that the status covers have
//! the blocks before it. `echo` is the Seq# of the source's latest received packet (0: none), `held` the time since
//! then, and `age` the age of the oldest status from which this one was combined. `k` is the time to the next status
//! in units of T_IN; 0 says that the status covers no endpoint. In DATA and STATE `first` is the oldest block that
//! the source still keeps, and `interval` is T_IN. `upper` is UW_t: the blocks before it have been sent. `start` is 1
//! to start and 0 to stop. Bytes behind a packet without a payload are padding.

mod describe;

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::map::{MAX_WORDS, Map};
use crate::reader::Reader;

pub use describe::{CP, CSP, DSP, SNR};

/// Protocol of the family, each with its number in the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Status of each receiver (SNR).
    Snr,
    /// Status of a representative (DSP).
    Dsp,
    /// Consolidated status, pessimistic (CSP).
    Csp,
    /// Consolidated status, optimistic (CP).
    Cp,
}

impl Family {
    /// Name of the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Snr => "snr",
            Family::Dsp => "dsp",
            Family::Csp => "csp",
            Family::Cp => "cp",
        }
    }

    const fn number(self) -> u8 {
        match self {
            Family::Snr => protocol::SNR,
            Family::Dsp => protocol::DSP,
            Family::Csp => protocol::CSP,
            Family::Cp => protocol::CP,
        }
    }
}

/// Packet of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Status of a receiver, or combined status of the endpoints below a helper.
    Status(Status<'a>),
    /// Block.
    Data {
        /// True from an endpoint to its region, false from the source to all.
        local: bool,
        /// Sequence number of the packet at its sender: Seq#.
        seq: u32,
        /// Number of the block, modulo 2^32.
        block: u32,
        /// Oldest block that the source keeps, modulo 2^32.
        first: u32,
        /// Interval T_IN in microseconds.
        interval: u32,
        /// Contents of the block.
        payload: &'a [u8],
    },
    /// Order to a local source to start or to stop multicasting a block.
    Order {
        /// Number of the block, modulo 2^32.
        block: u32,
        /// True to start, false to stop.
        start: bool,
    },
    /// State of the transmitter.
    State {
        /// Sequence number of the packet at its sender: Seq#.
        seq: u32,
        /// First block that has not been sent, modulo 2^32: UW_t.
        upper: u32,
        /// Oldest block that the source keeps, modulo 2^32.
        first: u32,
        /// Interval T_IN in microseconds.
        interval: u32,
        /// Time to the next STATE, in units of T_IN.
        k: u8,
    },
}

/// Fields of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    /// True to a representative or an exchange, false to the source.
    pub local: bool,
    /// Sequence number of the status at its sender.
    pub seq: u32,
    /// First missing block, modulo 2^32: LW_r.
    pub lower: u32,
    /// First block that some covered endpoint may be missing, modulo 2^32.
    pub done: u32,
    /// Sequence number of the source's latest received packet; 0 for none.
    pub echo: u32,
    /// Time since that packet, in microseconds.
    pub held: u32,
    /// Age of the oldest combined status, in microseconds.
    pub age: u32,
    /// Free blocks in the buffer; 65535 for that many or more.
    pub buffer: u16,
    /// Time to the next status in units of T_IN; 0 if the status covers no endpoint.
    pub k: u8,
    /// Map of the present blocks from LW_r on: LOB.
    pub map: Map<'a>,
}

/// Bytes of a data packet before its payload.
pub const HEADER_LEN: usize = Envelope::LEN + 16;
/// Bytes of a status without its map.
pub const STATUS_LEN: usize = Envelope::LEN + 28;

impl<'a> Packet<'a> {
    /// Parses a datagram of one of the protocols.
    pub fn parse(family: Family, bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(family.number(), bytes)?;
        let packet = match envelope.packet_type {
            kind @ (packet_type::STATUS | packet_type::LOCAL_STATUS) => {
                reader.require(STATUS_LEN)?;
                let local = kind == packet_type::LOCAL_STATUS;
                let (seq, lower, done) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let (echo, held, age) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let (buffer, k, words) = (reader.u16()?, reader.u8()?, reader.u8()?);
                let map = reader.map(words.into())?;
                Packet::Status(Status { local, seq, lower, done, echo, held, age, buffer, k, map })
            }
            kind @ (packet_type::LOCAL_DATA | packet_type::DATA) => {
                reader.require(HEADER_LEN)?;
                let local = kind == packet_type::LOCAL_DATA;
                let (seq, block) = (reader.u32()?, reader.u32()?);
                let (first, interval) = (reader.u32()?, reader.u32()?);
                Packet::Data { local, seq, block, first, interval, payload: reader.rest() }
            }
            packet_type::ORDER => Packet::Order { block: reader.u32()?, start: reader.flag("start")? },
            packet_type::STATE => {
                let (seq, upper) = (reader.u32()?, reader.u32()?);
                let (first, interval) = (reader.u32()?, reader.u32()?);
                Packet::State { seq, upper, first, interval, k: reader.u8()? }
            }
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, family: Family, association: AssociationId, buf: &mut Vec<u8>) {
        Envelope { protocol: family.number(), packet_type: self.packet_type(), association }.emit(buf);
        let mut numbers = |numbers: &[u32]| {
            numbers.iter().for_each(|number| buf.extend_from_slice(&number.to_be_bytes()));
        };
        match *self {
            Packet::Status(status) => {
                let Status { seq, lower, done, echo, held, age, buffer, k, map, .. } = status;
                numbers(&[seq, lower, done, echo, held, age]);
                buf.extend_from_slice(&buffer.to_be_bytes());
                buf.extend_from_slice(&[k, map.count() as u8]);
                map.emit(buf);
            }
            Packet::Data { seq, block, first, interval, payload, .. } => {
                numbers(&[seq, block, first, interval]);
                buf.extend_from_slice(payload);
            }
            Packet::Order { block, start } => {
                numbers(&[block]);
                buf.push(start.into());
            }
            Packet::State { seq, upper, first, interval, k } => {
                numbers(&[seq, upper, first, interval]);
                buf.push(k);
            }
        }
    }

    /// Length of the encoded packet in bytes.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Status(status) => STATUS_LEN + 8 * status.map.count(),
            Packet::Data { payload, .. } => HEADER_LEN + payload.len(),
            Packet::Order { .. } => Envelope::LEN + 5,
            Packet::State { .. } => Envelope::LEN + 17,
        }
    }

    fn packet_type(&self) -> u8 {
        match self {
            Packet::Status(Status { local: false, .. }) => packet_type::STATUS,
            Packet::Status(_) => packet_type::LOCAL_STATUS,
            Packet::Data { local: true, .. } => packet_type::LOCAL_DATA,
            Packet::Data { .. } => packet_type::DATA,
            Packet::Order { .. } => packet_type::ORDER,
            Packet::State { .. } => packet_type::STATE,
        }
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whither = |local: &bool| if *local { " local" } else { "" };
        match self {
            Packet::Status(status) => {
                let Status { local, seq, lower, done, echo, held, age, buffer, k, map } = status;
                let to = whither(local);
                write!(
                    f,
                    "status{to} seq {seq} lower {lower} done {done} echo {echo} held {held} age {age}"
                )?;
                write!(f, " buffer {buffer} k {k} map{map}")
            }
            Packet::Data { local, seq, block, first, interval, payload } => {
                let to = whither(local);
                let len = payload.len();
                write!(f, "data{to} seq {seq} block {block} first {first} interval {interval} len {len}")
            }
            Packet::Order { block, start } => {
                write!(f, "order {} block {block}", if *start { "start" } else { "stop" })
            }
            Packet::State { seq, upper, first, interval, k } => {
                write!(f, "state seq {seq} upper {upper} first {first} interval {interval} k {k}")
            }
        }
    }
}

/// Packet types: 0 to 3 as the paper numbers them, the others Carillon's.
mod packet_type {
    pub const STATUS: u8 = 0;
    pub const LOCAL_STATUS: u8 = 1;
    pub const LOCAL_DATA: u8 = 2;
    pub const DATA: u8 = 3;
    pub const ORDER: u8 = 4;
    pub const STATE: u8 = 5;
}

const _: () = assert!(MAX_WORDS <= u8::MAX as usize);
