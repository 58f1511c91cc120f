//! Blocks and symbols of a file, and their places in packets (RFC 5740, 5.1.1; RFC 5510).

use std::ops::Range;

use carillon_wire::norm::{Position, Transmission};

use crate::blocks::{MAX_SYMBOLS, Partition, Symbol, symbol};
use crate::protocols::norm::identity::truncate_block;

/// Sizes of an object. All its blocks are coded as if they had the maximum number of source symbols: those that a
/// shorter block does not have are zeros.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// Bytes of the object.
    pub length: u64,
    /// Bytes of a symbol.
    pub segment: u16,
    /// Maximum number of source symbols of a block.
    pub block: u16,
    /// Number of parity symbols of a block.
    pub parity: u16,
    partition: Partition,
}

impl Geometry {
    /// Sizes of an object; `None` if the code has no such blocks, or the packets no such numbers.
    pub fn new(length: u64, segment: u16, block: u16, parity: u16) -> Option<Geometry> {
        let partition = Partition::new(length, segment, |symbols| symbols.div_ceil(u64::from(block.max(1))))?;
        let fits = block > 0 && usize::from(block) + usize::from(parity) <= MAX_SYMBOLS;
        (fits && partition.blocks() <= 1 << 24).then_some(Geometry {
            length,
            segment,
            block,
            parity,
            partition,
        })
    }

    /// Sizes that a packet states.
    pub fn of(transmission: Transmission) -> Option<Geometry> {
        let Transmission { size, segment, block, parity, .. } = transmission;
        Geometry::new(size, segment, block, parity)
    }

    /// Sizes as packets state them.
    pub fn transmission(&self) -> Transmission {
        Transmission {
            size: self.length,
            segment: self.segment,
            block: self.block,
            parity: self.parity,
            bits: 8,
        }
    }

    /// Number of blocks; none for an object without bytes.
    pub fn blocks(&self) -> u64 {
        self.partition.blocks()
    }

    /// Number of source symbols of a block; 0 if there is no such block.
    pub fn sources(&self, block: u64) -> u8 {
        self.partition.symbols(block).min(u8::MAX.into()) as u8
    }

    /// Number of source and parity symbols of a block.
    pub fn symbols(&self, block: u64) -> u8 {
        (u16::from(self.sources(block)) + self.parity).min(u8::MAX.into()) as u8
    }

    /// Bytes of a block in the object.
    pub fn bytes(&self, block: u64) -> Range<usize> {
        let range = self.partition.bytes(block);
        range.start as usize..range.end as usize
    }

    /// Position of the last symbol, which FLUSH commands name.
    pub fn last(&self) -> (u64, u8) {
        let block = self.blocks().saturating_sub(1);
        (block, self.sources(block).saturating_sub(1))
    }

    /// Computes a symbol of a block from as many others as it has sources; `known` has their numbers.
    pub fn restore(&self, block: u64, known: &[Symbol<'_>], number: u8) -> Vec<u8> {
        let (sources, full) = (self.sources(block), self.block as u8);
        // Parity follows the sources of a full block.
        let index = |number: u8| if number < sources { number } else { number - sources + full };
        let mut all: Vec<Symbol<'_>> = known.iter().map(|&(number, bytes)| (index(number), bytes)).collect();
        all.extend((sources..full).map(|index| (index, &[][..])));
        symbol(&all, index(number), self.segment.into())
    }
}

/// Position of a symbol in a packet.
pub(super) fn position((block, symbol): (u64, u8)) -> Position {
    Position::Rs8 { block: truncate_block(block), symbol }
}
