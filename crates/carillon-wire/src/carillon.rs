//! Packets of Carillon's own delivery protocol.
//!
//! ```text
//! +--------------------+-------------------------------------------------------------+----------
//! | envelope, 1 DATA   | sequence (32) | index (16) | length (16) | count (16)       | message
//! | envelope, 2 REPAIR | block (32) | length (16) | number (16) | planned (16)       |
//! |                    | count (16) | more (16)                                      | symbol
//! | envelope, 3 POLL   | next (32) | first (32) | question (32) | after (32) | span (32) |
//! |                    | blocks (16) | asked (16)                                      |
//! |                    | blocks x: block (32) | length (16) | count (16)               |
//! |                    | asked x: identity (32)                                        | padding
//! | envelope, 4 STATUS | expected (32) | question (32) | arrived (32) | room (32) | blocks (16) |
//! |                    | blocks x: block (32) | count (16) | lacks (16) | form (8) | words (8) |
//! |                    |           map of what is missing (64 x words)             | padding
//! | envelope, 5 XOR    | block (32) | length (16) | count (16) | places (8) | list   | sum
//! +--------------------+-------------------------------------------------------------+----------
//! ```
//!
//! Messages are numbered; `sequence` and every other number of 32 bits counts modulo 2^32. A block is a run of consecutive
//! messages and is named by its first one. In a DATA packet `index` is the place of the message in its block, and
//! `length` is how many messages the block has, or 0 while the sender has not closed it. `count` is how many packets have gone out for the
//! block beyond the first transmission of each of its messages, with this one, modulo 2^16: 0 in a first transmission.
//!
//! The symbol of a REPAIR is coded from the whole block: number `number` of the `planned` ones that there may be, a power of two. What
//! is coded of a message is its length (16 bits), itself, and zeros up to the size of the symbol, which is even. `more` says how
//! many more packets are due for the block.
//!
//! A POLL asks those whom it names, the first of them with question `question`, the next with the number after it, and so on. The blocks are those
//! that are closed and not confirmed, oldest first, as many as it has room for. Who is not named and lacks more of them than is due asks
//! by itself, `after` microseconds later and a random part of `span`; a span of 0 is: it does not. `next` is one past the last
//! message sent, and `first` the oldest that the sender still holds.
//!
//! A STATUS answers a question, or asks by itself, under number 0. `arrived` counts the DATA, REPAIR and XOR packets that have come, and `room` is
//! how many messages from `expected` on the receiver can take. Of each closed block that is not whole it says how many symbols are
//! lacking after packet `count` of the block; bit i of the map, the lowest first, says that message i of the block
//! is missing. `form` 0 is: any symbols will do; 1: only the messages themselves, since there is no room for others.
//!
//! The sum of an XOR is the exclusive or of two or more messages of the block, each with its length (16 bits) before it and zeros behind it. The list
//! has their places in the block, ascending, each as the gap of messages between it and the one before, in a Golomb-Rice code: as many ones as
//! the gap has times 2^k, a zero, and the lowest k bits of it, where k is 4 less than `length` - 1 has bits, but not below 0. It begins with
//! the highest bit of its first byte and ends with zeros up to a whole byte; at most 16 places, and fewer if 16 bytes might not do: 113 / (k + 1).

mod describe;
mod display;
mod positions;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::map::Map;
use crate::reader::Reader;

pub use describe::FORMAT;
pub use positions::{MAX_POSITIONS_LEN, SymbolPositions, max_positions};

/// A packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A message, for the first time or again.
    Data {
        /// Modulo 2^32.
        sequence: u32,
        /// Its place in the block.
        index: u16,
        /// Messages in the block, 0 while it is open.
        length: u16,
        /// Packets for the block beyond first transmissions, modulo 2^16.
        count: u16,
        /// The message.
        payload: &'a [u8],
    },
    /// A symbol coded from a block.
    Repair {
        /// The block and its shape.
        block: CodedBlock,
        /// Which of the symbols.
        number: u16,
        /// Packets for the block beyond first transmissions, modulo 2^16.
        count: u16,
        /// So many more are due.
        more: u16,
        /// The symbol.
        symbol: &'a [u8],
    },
    /// Messages again, as their exclusive or.
    Xor {
        /// The first message of the block, modulo 2^32.
        first: u32,
        /// Messages in the block.
        length: u16,
        /// Packets for the block beyond first transmissions, modulo 2^16.
        count: u16,
        /// Which messages of the block.
        places: SymbolPositions,
        /// Their lengths and themselves.
        sum: &'a [u8],
    },
    /// Asks for statuses.
    Poll {
        /// What it asks.
        poll: Poll,
        /// The closed blocks that are not confirmed.
        blocks: ClosedBlocks<'a>,
        /// Who is to answer.
        asked: PolledReceivers<'a>,
    },
    /// What a receiver has, and what it lacks.
    Status {
        /// The receiver.
        status: Status,
        /// The blocks that are not whole.
        lacking: IncompleteBlocks<'a>,
    },
}

/// A block as a coded symbol names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodedBlock {
    /// Its first message, modulo 2^32.
    pub first: u32,
    /// Messages in it.
    pub length: u16,
    /// Symbols that may be coded of it.
    pub planned: u16,
}

/// The fields of a POLL that there are one of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Poll {
    /// One past the last message sent, modulo 2^32.
    pub next: u32,
    /// Oldest message still held, modulo 2^32.
    pub first: u32,
    /// The question to the first of those who are asked.
    pub question: u32,
    /// Microseconds until others may ask.
    pub after: u32,
    /// Microseconds over which they spread; 0: they do not ask.
    pub span: u32,
}

/// A block that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedBlock {
    /// Its first message, modulo 2^32.
    pub first: u32,
    /// Messages in it.
    pub length: u16,
    /// Packets sent for it beyond first transmissions, modulo 2^16.
    pub count: u16,
}

/// The fields of a STATUS that there are one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// First message it lacks, modulo 2^32.
    pub expected: u32,
    /// The question that it answers; 0: none.
    pub question: u32,
    /// DATA, REPAIR and XOR that have come, modulo 2^32.
    pub arrived: u32,
    /// Messages from `expected` on that it can take.
    pub room: u32,
}

/// A block that a receiver does not have all of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncompleteBlock<'a> {
    /// Its first message, modulo 2^32.
    pub first: u32,
    /// The last of its packets beyond first transmissions that was seen, modulo 2^16.
    pub count: u16,
    /// Symbols that are lacking.
    pub lacks: u16,
    /// Only the messages themselves help.
    pub plain: bool,
    /// Which messages are missing, from the first of the block on; empty if that is not said.
    pub missing: Map<'a>,
}

/// Bytes of a data packet before its message.
pub const DATA_HEADER_LEN: usize = Envelope::LEN + 10;
/// Bytes of a coded symbol's packet before it.
pub const REPAIR_HEADER_LEN: usize = Envelope::LEN + 14;
/// Bytes of an exclusive or's packet before its list.
pub const XOR_LEN: usize = Envelope::LEN + 9;
/// Bytes of a poll without its lists.
pub const POLL_LEN: usize = Envelope::LEN + 24;
/// Bytes of a status without its list.
pub const STATUS_LEN: usize = Envelope::LEN + 18;
/// Bytes of a block in a status, without its map.
pub const INCOMPLETE_BLOCK_LEN: usize = 10;
/// Messages that a block may have, and symbols that may be coded of it.
pub const MAX_BLOCK_LENGTH: u16 = 1 << 14;
/// Blocks in one packet.
pub const MAX_LISTED_BLOCKS: usize = 64;
/// Receivers that one packet asks.
pub const MAX_POLLED_RECEIVERS: usize = 256;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::CARILLON, bytes)?;
        let packet = match envelope.packet_type {
            packet_type::DATA => {
                let (sequence, index) = (reader.u32()?, reader.u16()?);
                let (length, count) = (reader.u16()?, reader.u16()?);
                check("index", index, index < MAX_BLOCK_LENGTH && (length == 0 || index < length))?;
                check("length", length, length <= MAX_BLOCK_LENGTH)?;
                Packet::Data { sequence, index, length, count, payload: reader.rest() }
            }
            packet_type::REPAIR => {
                let block = CodedBlock { first: reader.u32()?, length: length(&mut reader)?, planned: 0 };
                let (number, planned) = (reader.u16()?, reader.u16()?);
                check("planned", planned, planned.is_power_of_two() && planned <= MAX_BLOCK_LENGTH)?;
                check("number", number, number < planned)?;
                let (count, more, symbol) = (reader.u16()?, reader.u16()?, reader.rest());
                if symbol.len() < 2 || !symbol.len().is_multiple_of(2) {
                    return Err(ParseError::Field { field: "symbol", value: symbol.len() as u64 });
                }
                Packet::Repair { block: CodedBlock { planned, ..block }, number, count, more, symbol }
            }
            packet_type::POLL => {
                let (next, first, question) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let poll = Poll { next, first, question, after: reader.u32()?, span: reader.u32()? };
                let (blocks, asked) = (
                    listed("blocks", MAX_LISTED_BLOCKS, &mut reader)?,
                    listed("asked", MAX_POLLED_RECEIVERS, &mut reader)?,
                );
                if asked > 0 && question == 0 {
                    return Err(ParseError::Field { field: "question", value: 0 });
                }
                let blocks = ClosedBlocks(reader.bytes(blocks * ClosedBlocks::ENTRY_LEN)?);
                for block in blocks.iter() {
                    check("length", block.length, block.length > 0 && block.length <= MAX_BLOCK_LENGTH)?;
                }
                Packet::Poll {
                    poll,
                    blocks,
                    asked: PolledReceivers(reader.bytes(asked * PolledReceivers::ENTRY_LEN)?),
                }
            }
            packet_type::STATUS => {
                let (expected, question) = (reader.u32()?, reader.u32()?);
                let status = Status { expected, question, arrived: reader.u32()?, room: reader.u32()? };
                let blocks = listed("blocks", MAX_LISTED_BLOCKS, &mut reader)?;
                let mut rest = reader.clone();
                for _ in 0..blocks {
                    read_incomplete_block(&mut reader)?;
                }
                let list = rest.bytes(rest.rest().len() - reader.rest().len())?;
                Packet::Status { status, lacking: IncompleteBlocks { list, blocks } }
            }
            packet_type::XOR => {
                let (first, length, count) = (reader.u32()?, length(&mut reader)?, reader.u16()?);
                let places = SymbolPositions::read(length, &mut reader)?;
                Packet::Xor { first, length, count, places, sum: reader.rest() }
            }
            other => return Err(ParseError::Type(other)),
        };
        Ok((envelope.association, packet))
    }

    /// Appends the packet as a datagram.
    pub fn emit(&self, association: AssociationId, buf: &mut Vec<u8>) {
        let packet_type = match self {
            Packet::Data { .. } => packet_type::DATA,
            Packet::Repair { .. } => packet_type::REPAIR,
            Packet::Poll { .. } => packet_type::POLL,
            Packet::Status { .. } => packet_type::STATUS,
            Packet::Xor { .. } => packet_type::XOR,
        };
        Envelope { protocol: protocol::CARILLON, packet_type, association }.emit(buf);
        match *self {
            Packet::Data { sequence, index, length, count, payload } => {
                put32([sequence], buf);
                put16([index, length, count], buf);
                buf.extend_from_slice(payload);
            }
            Packet::Repair { block: CodedBlock { first, length, planned }, number, count, more, symbol } => {
                put32([first], buf);
                put16([length, number, planned, count, more], buf);
                buf.extend_from_slice(symbol);
            }
            Packet::Poll { poll, blocks, asked } => {
                put32([poll.next, poll.first, poll.question, poll.after, poll.span], buf);
                put16([blocks.count() as u16, asked.count() as u16], buf);
                buf.extend_from_slice(blocks.0);
                buf.extend_from_slice(asked.0);
            }
            Packet::Status { status, lacking } => {
                put32([status.expected, status.question, status.arrived, status.room], buf);
                put16([lacking.blocks as u16], buf);
                buf.extend_from_slice(lacking.list);
            }
            Packet::Xor { first, length, count, ref places, sum } => {
                put32([first], buf);
                put16([length, count], buf);
                places.emit(length, buf);
                buf.extend_from_slice(sum);
            }
        }
    }

    /// Bytes that `emit` appends.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Data { payload, .. } => DATA_HEADER_LEN + payload.len(),
            Packet::Repair { symbol, .. } => REPAIR_HEADER_LEN + symbol.len(),
            Packet::Poll { blocks, asked, .. } => POLL_LEN + blocks.0.len() + asked.0.len(),
            Packet::Status { lacking, .. } => STATUS_LEN + lacking.list.len(),
            Packet::Xor { length, places, sum, .. } => XOR_LEN + places.wire_len(*length) + sum.len(),
        }
    }
}

/// Closed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedBlocks<'a>(&'a [u8]);

impl<'a> ClosedBlocks<'a> {
    /// Bytes of one.
    pub const ENTRY_LEN: usize = 8;

    /// Those that [`ClosedBlocks::push`] has put into these bytes, [`MAX_LISTED_BLOCKS`] at most.
    pub fn new(bytes: &'a [u8]) -> Self {
        ClosedBlocks(truncated_to_entries(bytes, Self::ENTRY_LEN, MAX_LISTED_BLOCKS))
    }

    /// Appends one to the bytes of a list.
    pub fn push(block: ClosedBlock, bytes: &mut Vec<u8>) {
        put32([block.first], bytes);
        put16([block.length, block.count], bytes);
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.0.len() / Self::ENTRY_LEN
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = ClosedBlock> + 'a {
        self.0.chunks_exact(Self::ENTRY_LEN).map(|one| ClosedBlock {
            first: number(&one[..4]),
            length: number(&one[4..6]) as u16,
            count: number(&one[6..]) as u16,
        })
    }
}

/// Receivers that are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolledReceivers<'a>(&'a [u8]);

impl<'a> PolledReceivers<'a> {
    /// Bytes of one.
    pub const ENTRY_LEN: usize = 4;

    /// Those that [`PolledReceivers::push`] has put into these bytes, [`MAX_POLLED_RECEIVERS`] at most.
    pub fn new(bytes: &'a [u8]) -> Self {
        PolledReceivers(truncated_to_entries(bytes, Self::ENTRY_LEN, MAX_POLLED_RECEIVERS))
    }

    /// Appends one to the bytes of a list.
    pub fn push(identity: u32, bytes: &mut Vec<u8>) {
        put32([identity], bytes);
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.0.len() / Self::ENTRY_LEN
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        self.0.chunks_exact(Self::ENTRY_LEN).map(number)
    }

    /// The place of this one, where they are ascending.
    pub fn position(self, identity: u32) -> Option<usize> {
        let (all, _) = self.0.as_chunks::<{ PolledReceivers::ENTRY_LEN }>();
        all.binary_search_by_key(&identity, |bytes| u32::from_be_bytes(*bytes)).ok()
    }
}

/// Blocks that a receiver does not have all of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncompleteBlocks<'a> {
    list: &'a [u8],
    blocks: usize,
}

impl<'a> IncompleteBlocks<'a> {
    /// The so many that [`IncompleteBlocks::push`] has put into these bytes, [`MAX_LISTED_BLOCKS`] at most.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    pub fn new(list: &'a [u8], blocks: usize) -> Self {
        let blocks = blocks.min(MAX_LISTED_BLOCKS);
        let mut reader = Reader::new(list);
        for _ in 0..blocks {
            read_incomplete_block(&mut reader).expect("there are as many as were pushed");
        }
        IncompleteBlocks { list: &list[..list.len() - reader.rest().len()], blocks }
    }

    /// Appends one to the bytes of a list.
    pub fn push(lacks: IncompleteBlock<'_>, bytes: &mut Vec<u8>) {
        put32([lacks.first], bytes);
        put16([lacks.count, lacks.lacks], bytes);
        bytes.extend_from_slice(&[u8::from(lacks.plain), lacks.missing.count() as u8]);
        lacks.missing.emit(bytes);
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.blocks
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = IncompleteBlock<'a>> {
        let mut reader = Reader::new(self.list);
        (0..self.blocks).map_while(move |_| read_incomplete_block(&mut reader).ok())
    }
}

fn read_incomplete_block<'a>(reader: &mut Reader<'a>) -> Result<IncompleteBlock<'a>, ParseError> {
    let (first, count, lacks) = (reader.u32()?, reader.u16()?, reader.u16()?);
    check("lacks", lacks, lacks > 0 && lacks <= MAX_BLOCK_LENGTH)?;
    let plain = reader.flag("form")?;
    let words = reader.u8()?;
    Ok(IncompleteBlock { first, count, lacks, plain, missing: reader.map(words.into())? })
}

fn length(reader: &mut Reader<'_>) -> Result<u16, ParseError> {
    let length = reader.u16()?;
    check("length", length, length > 0 && length <= MAX_BLOCK_LENGTH)?;
    Ok(length)
}

fn listed(field: &'static str, most: usize, reader: &mut Reader<'_>) -> Result<usize, ParseError> {
    let count = reader.u16()?;
    check(field, count, usize::from(count) <= most)?;
    Ok(count.into())
}

fn check(field: &'static str, value: u16, is_valid: bool) -> Result<(), ParseError> {
    if is_valid { Ok(()) } else { Err(ParseError::Field { field, value: value.into() }) }
}

fn truncated_to_entries(bytes: &[u8], each: usize, most: usize) -> &[u8] {
    &bytes[..(bytes.len() / each).min(most) * each]
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
}

fn put32<const N: usize>(numbers: [u32; N], buf: &mut Vec<u8>) {
    numbers.iter().for_each(|number| buf.extend_from_slice(&number.to_be_bytes()));
}

fn put16<const N: usize>(numbers: [u16; N], buf: &mut Vec<u8>) {
    numbers.iter().for_each(|number| buf.extend_from_slice(&number.to_be_bytes()));
}

mod packet_type {
    pub const DATA: u8 = 1;
    pub const REPAIR: u8 = 2;
    pub const POLL: u8 = 3;
    pub const STATUS: u8 = 4;
    pub const XOR: u8 = 5;
}
