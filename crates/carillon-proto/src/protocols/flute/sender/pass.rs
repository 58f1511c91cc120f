//! One transmission of an object: its symbols block by block, each followed by its parity.

use carillon_wire::alc::{PayloadId, Transmission};

use super::super::code::{SymbolCode, code};
use super::super::config::place;
use super::super::partition::partition;
use crate::blocks::Partition;

/// Progress of a transmission.
#[derive(Debug)]
pub struct Pass {
    partition: Option<Partition>,
    code: Option<Box<dyn SymbolCode>>,
    symbol_bytes: usize,
    /// True if the last symbol of the object is sent without padding.
    is_short: bool,
    parity_count: usize,
    block: u64,
    symbol: u64,
    /// Parity of the current block, from its last source symbol on.
    parity: Vec<Vec<u8>>,
}

impl Pass {
    /// Transmission with this number of parity symbols for each block.
    pub fn new(transmission: Transmission, parity_count: usize) -> Self {
        let code = code(transmission.code, transmission.symbol);
        Pass {
            partition: partition(&transmission),
            is_short: matches!(transmission.code, carillon_wire::alc::Code::NoCode { .. }),
            code,
            symbol_bytes: transmission.symbol.into(),
            parity_count,
            block: 0,
            symbol: 0,
            parity: Vec::new(),
        }
    }

    /// Next symbol of the object, its place, and whether it is the last one. An object without bytes has one empty
    /// symbol, which shows receivers that it exists.
    pub fn next(&mut self, object: &[u8]) -> (PayloadId, Vec<u8>, bool) {
        let Some(partition) = self.partition.filter(|all| all.blocks() > 0) else {
            return (place(0, 0), Vec::new(), true);
        };
        let (block, number, sources) = (self.block, self.symbol, partition.symbols(self.block));
        let range = partition.bytes(block);
        let bytes = object.get(range.start as usize..range.end as usize).unwrap_or_default();
        let symbol = match number < sources {
            true => {
                let part = bytes.chunks(self.symbol_bytes).nth(number as usize).unwrap_or_default();
                let mut symbol = part.to_vec();
                if !self.is_short {
                    symbol.resize(self.symbol_bytes, 0);
                }
                symbol
            }
            false => std::mem::take(&mut self.parity[(number - sources) as usize]),
        };
        if number + 1 == sources {
            let mut padded = bytes.to_vec();
            padded.resize(sources as usize * self.symbol_bytes, 0);
            let code = self.code.as_ref().filter(|_| self.parity_count > 0);
            self.parity = code
                .map(|code| code.parity(&padded, self.symbol_bytes, self.parity_count))
                .unwrap_or_default();
        }
        self.symbol += 1;
        if self.symbol >= sources && self.symbol - sources >= self.parity.len() as u64 {
            (self.block, self.symbol, self.parity) = (block + 1, 0, Vec::new());
        }
        (place(block, number), symbol, self.block >= partition.blocks())
    }
}
