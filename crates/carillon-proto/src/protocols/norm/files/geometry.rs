//! Blocks and symbols of a file (RFC 5740, 5.1.1; RFC 5510).

use std::ops::Range;

use carillon_core::{Config, ConfigError};
use carillon_wire::norm::{Extensions, Transmission};

use super::code::Code;
use crate::blocks::{Interpolation, Partition, Symbol};

/// Sizes of the blocks of a sender, and their code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub code: Code,
    /// Maximum number of source symbols of a block.
    pub block: u16,
    /// Number of parity symbols of a block.
    pub parity: u16,
}

/// Sizes of an object. All its blocks are coded as if they had the maximum number of source symbols: those that a
/// shorter block does not have are zeros.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// Bytes of the object.
    pub length: u64,
    /// Bytes of a symbol.
    pub segment: u16,
    pub shape: Shape,
    partition: Partition,
}

impl Shape {
    /// Sizes from the settings. Fails if no code has such blocks.
    pub fn new(settings: &Config) -> Result<Shape, ConfigError> {
        let (block, parity) = (settings.count("block"), settings.count("parity"));
        let code = Code::for_symbols((block + parity) as usize).ok_or_else(|| {
            let most = Code::Rs(16).field().max_symbols();
            ConfigError::Conflict(format!("block + parity = {} exceeds {most} symbols", block + parity))
        })?;
        Ok(Shape { code, block: block as u16, parity: parity as u16 })
    }
}

impl Geometry {
    /// Sizes of an object; `None` if the code has no such blocks, or the packets no such numbers.
    pub fn new(length: u64, segment: u16, shape: Shape) -> Option<Geometry> {
        let Shape { code, block, parity } = shape;
        let partition = Partition::new(length, segment, |symbols| symbols.div_ceil(u64::from(block.max(1))))?;
        let fits = block > 0
            && usize::from(block) + usize::from(parity) <= code.field().max_symbols()
            && segment == code.segment(segment.into());
        (fits && partition.blocks() <= code.max_blocks()).then_some(Geometry {
            length,
            segment,
            shape,
            partition,
        })
    }

    /// Sizes that a packet states.
    pub fn of(fec_id: u8, transmission: Transmission) -> Option<Geometry> {
        let code = Code::of_transmission(fec_id, &transmission)?;
        let Transmission { size, segment, block, parity, .. } = transmission;
        Geometry::new(size, segment, Shape { code, block, parity })
    }

    /// Extensions of the packets of the object, which state the sizes.
    pub fn extensions(&self) -> Vec<u8> {
        let Shape { code, block, parity } = self.shape;
        let transmission =
            Transmission { size: self.length, segment: self.segment, block, parity, bits: code.bits() };
        let mut extensions = Vec::with_capacity(16);
        match code {
            Code::Rs8 => Extensions::push_rs8(&mut extensions, transmission),
            Code::Rs(_) => Extensions::push_rs(&mut extensions, transmission),
        }
        extensions
    }

    /// Number of blocks; none for an object without bytes.
    pub fn blocks(&self) -> u64 {
        self.partition.blocks()
    }

    /// Number of source symbols of a block; 0 if there is no such block.
    pub fn sources(&self, block: u64) -> u16 {
        self.partition.symbols(block).min(self.shape.block.into()) as u16
    }

    /// Number of source and parity symbols of a block.
    pub fn symbols(&self, block: u64) -> u16 {
        self.sources(block) + self.shape.parity
    }

    /// Bytes of a block in the object.
    pub fn bytes(&self, block: u64) -> Range<usize> {
        let range = self.partition.bytes(block);
        range.start as usize..range.end as usize
    }

    /// Position of the last symbol, which FLUSH commands name.
    pub fn last(&self) -> (u64, u16) {
        let block = self.blocks().saturating_sub(1);
        (block, self.sources(block).saturating_sub(1))
    }

    /// Computes symbols of a block from as many others as it has sources; `known` has their numbers.
    pub fn restore(&self, block: u64, known: &[Symbol<'_>], numbers: &[u16]) -> Vec<Vec<u8>> {
        let (sources, full) = (self.sources(block), self.shape.block);
        // Parity follows the sources of a full block.
        let index = |number: u16| if number < sources { number } else { number - sources + full };
        let mut all: Vec<Symbol<'_>> = known.iter().map(|&(number, bytes)| (index(number), bytes)).collect();
        all.extend((sources..full).map(|index| (index, &[][..])));
        let code = Interpolation::new(self.shape.code.field(), &all);
        numbers.iter().map(|&number| code.symbol(index(number), self.segment.into())).collect()
    }
}
