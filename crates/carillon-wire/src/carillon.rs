//! Packets of Carillon's own delivery protocol: data, coded repairs (FEC), polls and statuses (NAK-like reports).
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
//! Messages are numbered; `sequence` and every other number of 32 bits counts modulo 2^32. A block is a run of
//! consecutive messages and is named by its first one. In a DATA packet `index` is the position of the message in its
//! block, and `length` the number of messages in the block, or 0 while the sender has not closed it. `count` numbers
//! the packets of the block in addition to first transmissions, this packet included, modulo 2^16; it is 0 in a first
//! transmission.
//!
//! The symbol of a REPAIR is a Reed-Solomon repair symbol over the whole block: symbol `number` of the `planned` ones
//! that may exist, a power of two. Each source symbol is the message's length (16 bits), the message, and zeros up to
//! the size of the symbol, which is even. `more` is the number of further packets due for the block.
//!
//! A POLL asks the receivers that it names for a STATUS: the first one with number `question`, each next one with the
//! number after it. It lists the closed, unconfirmed blocks, oldest first, as many as fit. A receiver that is not
//! named and is missing more symbols than are due sends a STATUS unasked, after `after` microseconds and a random
//! part of `span` (back-off); a span of 0 forbids that. `next` is one past the last message sent, and `first` the
//! oldest that the sender still holds.
//!
//! A STATUS answers a question, or reports unasked under number 0. `arrived` counts the DATA, REPAIR and XOR packets
//! received, and `room` the messages from `expected` on that the receiver can take. For each closed, incomplete block
//! `lacks` is the number of symbols missing after packet `count` of the block. Bit i of the map, the lowest first,
//! says that message i of the block is missing. `form` 0 accepts any symbols; 1 accepts only the messages themselves,
//! since the receiver has no room to decode.
//!
//! The sum of an XOR is the exclusive or of two or more messages of the block, each preceded by its length (16 bits)
//! and padded with zeros. The list has their ascending positions in the block. Each is the gap to the one before, in
//! a Golomb-Rice code (Rice 1979): as many ones as the gap has multiples of 2^k, a zero, and the lowest k bits of the
//! gap. Here k is the bit length of `length` - 1 less 4, but not below 0. The list begins with the highest bit of its
//! first byte and ends with zeros up to a whole byte. It has at most 16 positions, and at most 113 / (k + 1), so that
//! 16 bytes always suffice.

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

/// Packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// First transmission or retransmission of a message.
    Data {
        /// Number of the message, modulo 2^32.
        sequence: u32,
        /// Position of the message in its block, below [`MAX_BLOCK_LENGTH`].
        index: u16,
        /// Number of messages in the block; 0 while it is open.
        length: u16,
        /// Number of the packet among those of the block beyond first transmissions, modulo 2^16.
        count: u16,
        /// Message.
        payload: &'a [u8],
    },
    /// Repair symbol, coded from a block.
    Repair {
        /// Block and its code.
        block: CodedBlock,
        /// Number of the symbol, below `planned`.
        number: u16,
        /// Number of the packet among those of the block beyond first transmissions, modulo 2^16.
        count: u16,
        /// Number of further packets that are due for the block.
        more: u16,
        /// Symbol, of an even number of bytes.
        symbol: &'a [u8],
    },
    /// Retransmission of several messages as their exclusive or.
    Xor {
        /// First message of the block, modulo 2^32.
        first: u32,
        /// Number of messages in the block.
        length: u16,
        /// Number of the packet among those of the block beyond first transmissions, modulo 2^16.
        count: u16,
        /// Positions of the messages in the block.
        places: SymbolPositions,
        /// Exclusive or of the messages, each with its length (16 bits) before it.
        sum: &'a [u8],
    },
    /// Poll for statuses.
    Poll {
        /// Fields of fixed size.
        poll: Poll,
        /// Closed blocks that are not confirmed.
        blocks: ClosedBlocks<'a>,
        /// Receivers that must answer.
        asked: PolledReceivers<'a>,
    },
    /// Status of a receiver.
    Status {
        /// Fields of fixed size.
        status: Status,
        /// Incomplete blocks.
        lacking: IncompleteBlocks<'a>,
    },
}

/// Block and code of a repair symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodedBlock {
    /// First message of the block, modulo 2^32.
    pub first: u32,
    /// Number of messages in the block, 1 to [`MAX_BLOCK_LENGTH`].
    pub length: u16,
    /// Number of symbols that may be coded from it, a power of two.
    pub planned: u16,
}

/// Fields of fixed size of a POLL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Poll {
    /// Number after the last message sent, modulo 2^32.
    pub next: u32,
    /// Oldest message that the sender still holds, modulo 2^32.
    pub first: u32,
    /// Poll number of the first named receiver, 1 or more; each next one has the number after it. If none is named:
    /// number of a census, which all receivers answer; 0 asks none.
    pub question: u32,
    /// Delay before an unpolled receiver may report, in microseconds.
    pub after: u32,
    /// Back-off range for such reports and for the answers to a census, in microseconds; 0 forbids them.
    pub span: u32,
}

/// Closed block in a POLL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedBlock {
    /// First message of the block, modulo 2^32.
    pub first: u32,
    /// Number of messages in the block, 1 to [`MAX_BLOCK_LENGTH`].
    pub length: u16,
    /// Number of packets sent for it beyond first transmissions, modulo 2^16.
    pub count: u16,
}

/// Fields of fixed size of a STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// First missing message, modulo 2^32 (cumulative acknowledgment).
    pub expected: u32,
    /// Number of the answered poll; 0 for an unsolicited report.
    pub question: u32,
    /// Number of received DATA, REPAIR and XOR packets, modulo 2^32.
    pub arrived: u32,
    /// Number of messages from `expected` on that the receiver can take (receive window).
    pub room: u32,
}

/// Incomplete block of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncompleteBlock<'a> {
    /// First message of the block, modulo 2^32.
    pub first: u32,
    /// Number of the last received packet of the block beyond first transmissions, modulo 2^16.
    pub count: u16,
    /// Number of missing symbols, 1 to [`MAX_BLOCK_LENGTH`].
    pub lacks: u16,
    /// True if only the messages themselves help, since there is no room to decode.
    pub plain: bool,
    /// Missing messages, from the first of the block on; empty if not reported.
    pub missing: Map<'a>,
}

/// Bytes of a DATA packet before its message.
pub const DATA_HEADER_LEN: usize = Envelope::LEN + 10;
/// Bytes of a REPAIR packet before its symbol.
pub const REPAIR_HEADER_LEN: usize = Envelope::LEN + 14;
/// Bytes of an XOR packet before its list.
pub const XOR_LEN: usize = Envelope::LEN + 9;
/// Bytes of a POLL without its lists.
pub const POLL_LEN: usize = Envelope::LEN + 24;
/// Bytes of a STATUS without its list.
pub const STATUS_LEN: usize = Envelope::LEN + 18;
/// Bytes of a block in a STATUS without its map.
pub const INCOMPLETE_BLOCK_LEN: usize = 10;
/// Maximum number of messages in a block, and of symbols coded from it.
pub const MAX_BLOCK_LENGTH: u16 = 1 << 14;
/// Maximum number of blocks in one packet.
pub const MAX_LISTED_BLOCKS: usize = 64;
/// Maximum number of receivers that one POLL names.
pub const MAX_POLLED_RECEIVERS: usize = 256;

impl<'a> Packet<'a> {
    /// Parses a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<(AssociationId, Packet<'a>), ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::CARILLON, bytes)?;
        let packet = match envelope.packet_type {
            packet_type::DATA => {
                let (sequence, index) = (reader.u32()?, reader.u16()?);
                let (length, count) = (reader.u16()?, reader.u16()?);
                // An open block has length 0 and any index.
                check("index", index, index < MAX_BLOCK_LENGTH && (length == 0 || index < length))?;
                check("length", length, length <= MAX_BLOCK_LENGTH)?;
                Packet::Data { sequence, index, length, count, payload: reader.rest() }
            }
            packet_type::REPAIR => {
                let block = CodedBlock { first: reader.u32()?, length: length(&mut reader)?, planned: 0 };
                let (number, planned) = (reader.u16()?, reader.u16()?);
                // The code plans a power of two of symbols, of which this is one.
                check("planned", planned, planned.is_power_of_two() && planned <= MAX_BLOCK_LENGTH)?;
                check("number", number, number < planned)?;
                let (count, more, symbol) = (reader.u16()?, reader.u16()?, reader.rest());
                // Symbols have 16-bit elements and hold a length, so they are even and not empty.
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
                // Number 0 is reserved for unsolicited statuses.
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
                // Entries have maps of different lengths: walk them once to check them and to find their end.
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

    /// Length of the datagram in bytes.
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

/// List of closed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedBlocks<'a>(&'a [u8]);

impl<'a> ClosedBlocks<'a> {
    /// Bytes of an entry.
    pub const ENTRY_LEN: usize = 8;

    /// List from the bytes that [`ClosedBlocks::push`] has written, up to [`MAX_LISTED_BLOCKS`] entries.
    pub fn new(bytes: &'a [u8]) -> Self {
        ClosedBlocks(truncated_to_entries(bytes, Self::ENTRY_LEN, MAX_LISTED_BLOCKS))
    }

    /// Appends an entry to the bytes of a list.
    pub fn push(block: ClosedBlock, bytes: &mut Vec<u8>) {
        put32([block.first], bytes);
        put16([block.length, block.count], bytes);
    }

    /// Number of entries.
    pub fn count(self) -> usize {
        self.0.len() / Self::ENTRY_LEN
    }

    /// Entries in order.
    pub fn iter(self) -> impl Iterator<Item = ClosedBlock> + 'a {
        self.0.chunks_exact(Self::ENTRY_LEN).map(|one| ClosedBlock {
            first: number(&one[..4]),
            length: number(&one[4..6]) as u16,
            count: number(&one[6..]) as u16,
        })
    }
}

/// List of polled receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolledReceivers<'a>(&'a [u8]);

impl<'a> PolledReceivers<'a> {
    /// Bytes of an entry.
    pub const ENTRY_LEN: usize = 4;

    /// List from the bytes that [`PolledReceivers::push`] has written, up to [`MAX_POLLED_RECEIVERS`] entries.
    pub fn new(bytes: &'a [u8]) -> Self {
        PolledReceivers(truncated_to_entries(bytes, Self::ENTRY_LEN, MAX_POLLED_RECEIVERS))
    }

    /// Appends an entry to the bytes of a list.
    pub fn push(identity: u32, bytes: &mut Vec<u8>) {
        put32([identity], bytes);
    }

    /// Number of entries.
    pub fn count(self) -> usize {
        self.0.len() / Self::ENTRY_LEN
    }

    /// Entries in order.
    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        self.0.chunks_exact(Self::ENTRY_LEN).map(number)
    }

    /// Position of a receiver in a list with ascending identities.
    pub fn position(self, identity: u32) -> Option<usize> {
        let (all, _) = self.0.as_chunks::<{ PolledReceivers::ENTRY_LEN }>();
        all.binary_search_by_key(&identity, |bytes| u32::from_be_bytes(*bytes)).ok()
    }
}

/// List of incomplete blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncompleteBlocks<'a> {
    list: &'a [u8],
    blocks: usize,
}

impl<'a> IncompleteBlocks<'a> {
    /// List of `blocks` entries, up to [`MAX_LISTED_BLOCKS`], from the bytes that [`IncompleteBlocks::push`] has
    /// written.
    ///
    /// # Panics
    ///
    /// Panics if the bytes have fewer entries.
    pub fn new(list: &'a [u8], blocks: usize) -> Self {
        let blocks = blocks.min(MAX_LISTED_BLOCKS);
        let mut reader = Reader::new(list);
        for _ in 0..blocks {
            read_incomplete_block(&mut reader).expect("there are as many as were pushed");
        }
        IncompleteBlocks { list: &list[..list.len() - reader.rest().len()], blocks }
    }

    /// Appends an entry to the bytes of a list.
    pub fn push(lacks: IncompleteBlock<'_>, bytes: &mut Vec<u8>) {
        put32([lacks.first], bytes);
        put16([lacks.count, lacks.lacks], bytes);
        bytes.extend_from_slice(&[u8::from(lacks.plain), lacks.missing.count() as u8]);
        lacks.missing.emit(bytes);
    }

    /// Number of entries.
    pub fn count(self) -> usize {
        self.blocks
    }

    /// Entries in order.
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

/// Reads the number of entries of a list, at most `most`.
fn listed(field: &'static str, most: usize, reader: &mut Reader<'_>) -> Result<usize, ParseError> {
    let count = reader.u16()?;
    check(field, count, usize::from(count) <= most)?;
    Ok(count.into())
}

fn check(field: &'static str, value: u16, is_valid: bool) -> Result<(), ParseError> {
    if is_valid { Ok(()) } else { Err(ParseError::Field { field, value: value.into() }) }
}

/// Cuts bytes to whole entries of `each` bytes, at most `most` of them.
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
