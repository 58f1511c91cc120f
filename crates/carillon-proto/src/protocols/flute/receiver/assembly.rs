//! Assembly of one object from its symbols.

use std::collections::BTreeMap;

use carillon_wire::alc::{PayloadId, Transmission};

use super::super::code::{SymbolCode, code};
use super::super::partition::partition;
use crate::blocks::Partition;

/// Object of which symbols arrive.
#[derive(Debug)]
pub struct Assembly {
    transmission: Transmission,
    partition: Partition,
    code: Box<dyn SymbolCode>,
    blocks: BTreeMap<u64, Block>,
    /// Number of whole blocks.
    whole: u64,
    /// Bytes of all symbols that are kept.
    memory: usize,
}

/// Block of an object.
#[derive(Debug)]
enum Block {
    /// Symbols by their numbers, and the number of symbols at which the code is tried next.
    Symbols(BTreeMap<u32, Vec<u8>>, usize),
    /// The source symbols, one after the other.
    Whole(Vec<u8>),
}

/// Result of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The symbol is new.
    New,
    /// The symbol is there already, or not needed.
    Duplicate,
    /// The symbol cannot belong to the object.
    Invalid,
}

impl Assembly {
    /// Assembly of an object that is sent in this way; `None` if it is not possible or its code is not supported.
    pub fn new(transmission: Transmission) -> Option<Assembly> {
        let partition = partition(&transmission)?;
        let code = code(transmission.code, transmission.symbol)?;
        let sizes = [0, partition.blocks().saturating_sub(1)].map(|block| partition.symbols(block) as usize);
        if partition.blocks() > 0 && !sizes.iter().all(|&size| code.codes(size)) {
            return None;
        }
        Some(Assembly { transmission, partition, code, blocks: BTreeMap::new(), whole: 0, memory: 0 })
    }

    /// The way in which the object is sent.
    pub fn transmission(&self) -> &Transmission {
        &self.transmission
    }

    /// Bytes that are kept.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Returns true if all blocks are whole.
    pub fn is_complete(&self) -> bool {
        self.whole == self.partition.blocks()
    }

    /// Adds a symbol.
    pub fn add(&mut self, id: PayloadId, bytes: &[u8]) -> Added {
        let (number, size) = (u64::from(id.block), usize::from(self.transmission.symbol));
        let sources = self.partition.symbols(number) as usize;
        let has_length = id.length.is_none_or(|length| usize::from(length) == sources);
        if sources == 0 || !has_length || bytes.is_empty() || bytes.len() > size {
            return Added::Invalid;
        }
        if !self.code.has(sources, id.symbol) {
            return Added::Invalid;
        }
        let block = self.blocks.entry(number).or_insert_with(|| Block::Symbols(BTreeMap::new(), sources));
        let Block::Symbols(symbols, next_try) = block else { return Added::Duplicate };
        if symbols.contains_key(&id.symbol) {
            return Added::Duplicate;
        }
        // More do not help a code that fails with these.
        if symbols.len() > 2 * sources + EXTRA_SYMBOLS {
            return Added::Invalid;
        }
        // The last symbol of an object may be sent without its padding.
        let mut symbol = bytes.to_vec();
        symbol.resize(size, 0);
        symbols.insert(id.symbol, symbol);
        self.memory += size + SYMBOL_OVERHEAD;
        if symbols.len() < *next_try {
            return Added::New;
        }
        let have_sources = symbols.keys().take(sources).eq(&(0..sources as u32).collect::<Vec<_>>());
        let restored = match have_sources {
            true => Some(symbols.values().take(sources).flatten().copied().collect()),
            false => self.code.restore(sources, size, symbols),
        };
        let kept = symbols.len() * (size + SYMBOL_OVERHEAD);
        match restored {
            Some(bytes) => {
                self.memory = self.memory - kept + bytes.len();
                *block = Block::Whole(bytes);
                self.whole += 1;
            }
            // Each attempt takes long, so there are few where many fail.
            None => *next_try = symbols.len() + 1 + (symbols.len() - sources) / 2,
        }
        Added::New
    }

    /// The object, once it is complete.
    pub fn into_object(self) -> Vec<u8> {
        let mut object = Vec::with_capacity(self.transmission.length as usize);
        for (number, block) in self.blocks {
            let Block::Whole(bytes) = block else { continue };
            let range = self.partition.bytes(number);
            let length = (range.end - range.start) as usize;
            object.extend_from_slice(bytes.get(..length).unwrap_or(&bytes));
        }
        object
    }
}

/// Number of symbols beyond twice those of a block that are kept for its code.
const EXTRA_SYMBOLS: usize = 64;
/// Bytes by which the place of a symbol is counted.
pub const SYMBOL_OVERHEAD: usize = 64;
