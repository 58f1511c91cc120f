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
//! MVCI and LMVCI are the envelope's association and the datagram's destination, EPI and LEPI the datagram's source. Types 0
//! and 1 are a status to the source and to a representative or exchange; 2 and 3 are data from an endpoint to its region
//! and from the source to all. Numbers count modulo 2^32, times are microseconds.
//!
//! `lower` is LW_r: all blocks before it are there; bit i of the map (LOB), words in order and each from its lowest bit, says
//! that the block `lower` + i is. `done` is Carillon's: all endpoints on whose behalf the status speaks have the blocks before
//! it. `echo` is the Seq# of the source's latest packet that was heard (0: none), `held` how long ago, `age` how old the
//! oldest of the statuses is of which this one was made. `k` is the time to the next status in units of T_IN; 0 says that
//! there is nobody on whose behalf to speak. In DATA and STATE `first` is the oldest block that the source still keeps, and `interval`
//! is T_IN. `upper` is UW_t: the blocks before it have been sent. `start` is 1, and 0 to stop. What follows a packet without a
//! payload is padding.

mod describe;

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::map::{MAX_WORDS, Map};
use crate::reader::Reader;

pub use describe::{CP, CSP, DSP, SNR, forge_feedback};

/// Which of the protocols: each has its number in the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Status of each receiver.
    Snr,
    /// Status of a representative.
    Dsp,
    /// Consolidated status, pessimistic.
    Csp,
    /// Consolidated status, optimistic.
    Cp,
}

impl Family {
    /// Its name.
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

/// A packet of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// What a receiver has, or those have for whom a helper speaks.
    Status(Status<'a>),
    /// A block.
    Data {
        /// From an endpoint to its region, and not from the source to all.
        local: bool,
        /// Counts what its sender sent.
        seq: u32,
        /// Which block.
        block: u32,
        /// The oldest block that the source keeps.
        first: u32,
        /// T_IN, in microseconds.
        interval: u32,
        /// The block.
        payload: &'a [u8],
    },
    /// A local source is to start multicasting a block, or to stop.
    Order {
        /// Which block.
        block: u32,
        /// Start, or stop.
        start: bool,
    },
    /// What the transmitter has sent.
    State {
        /// Counts what its sender sent.
        seq: u32,
        /// Blocks before this one were sent.
        upper: u32,
        /// The oldest block that the source keeps.
        first: u32,
        /// T_IN, in microseconds.
        interval: u32,
        /// Time to the next one, in units of T_IN.
        k: u8,
    },
}

/// The fields of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    /// To a representative or an exchange, and not to the source.
    pub local: bool,
    /// Counts the statuses of its sender.
    pub seq: u32,
    /// LW_r.
    pub lower: u32,
    /// All have the blocks before this one.
    pub done: u32,
    /// The latest Seq# of the source that was heard; 0 is none.
    pub echo: u32,
    /// How long ago, in microseconds.
    pub held: u32,
    /// How old what it says may be, in microseconds.
    pub age: u32,
    /// Free blocks in the buffer; 65535 for that many or more.
    pub buffer: u16,
    /// Time to the next one in units of T_IN; 0: there is nobody.
    pub k: u8,
    /// LOB, from LW_r on.
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

    /// Bytes that `emit` appends.
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

/// As the paper numbers them, from 4 on Carillon's.
mod packet_type {
    pub const STATUS: u8 = 0;
    pub const LOCAL_STATUS: u8 = 1;
    pub const LOCAL_DATA: u8 = 2;
    pub const DATA: u8 = 3;
    pub const ORDER: u8 = 4;
    pub const STATE: u8 = 5;
}

const _: () = assert!(MAX_WORDS <= u8::MAX as usize);
