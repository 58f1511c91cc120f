//! Partition of an object into blocks and symbols (RFC 5052, section 9.1; RFC 5053 and RFC 6330 give the number of
//! blocks instead).

use std::ops::Range;

use carillon_wire::alc::{Code, Transmission};

/// Blocks of an object: the first ones have one symbol more than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    length: u64,
    symbol: u64,
    blocks: u64,
    /// Symbols of the later blocks.
    small: u64,
    /// Number of blocks with a further symbol.
    large_blocks: u64,
}

impl Partition {
    /// Partition of an object; `None` if the symbols have no bytes, or if there are no blocks for them.
    pub fn new(transmission: &Transmission) -> Option<Partition> {
        let (length, symbol) = (transmission.length, u64::from(transmission.symbol));
        let symbols = length.checked_add(symbol.checked_sub(1)?)? / symbol;
        let blocks = match transmission.code {
            Code::Raptor { blocks, .. } => u64::from(blocks),
            Code::RaptorQ { blocks, .. } => u64::from(blocks),
            Code::NoCode { block } => symbols.div_ceil(u64::from(block).max(1)),
            Code::ReedSolomon8 { block, .. } => symbols.div_ceil(u64::from(block).max(1)),
            Code::ReedSolomon { block, .. } | Code::SmallBlock { block, .. } => {
                symbols.div_ceil(u64::from(block).max(1))
            }
        };
        if symbols == 0 {
            return Some(Partition { length, symbol, blocks: 0, small: 0, large_blocks: 0 });
        }
        (blocks > 0 && blocks <= symbols).then(|| Partition {
            length,
            symbol,
            blocks,
            small: symbols / blocks,
            large_blocks: symbols % blocks,
        })
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Number of source symbols of a block; 0 if there is no such block.
    pub fn symbols(&self, block: u64) -> u64 {
        match block {
            block if block >= self.blocks => 0,
            block => self.small + u64::from(block < self.large_blocks),
        }
    }

    /// Bytes of a block in the object.
    pub fn bytes(&self, block: u64) -> Range<u64> {
        let at = |block: u64| {
            let symbols = block * self.small + block.min(self.large_blocks);
            (symbols * self.symbol).min(self.length)
        };
        at(block)..at(block + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(length: u64, symbol: u16, code: Code) -> Option<Partition> {
        Partition::new(&Transmission { length, symbol, code })
    }

    /// The object of a recorded session: 40000 bytes in symbols of 400, blocks of at most 64.
    #[test]
    fn blocks_differ_by_one_symbol_at_most() {
        let two = partition(40_000, 400, Code::NoCode { block: 64 }).expect("a partition");
        assert_eq!((two.blocks(), two.symbols(0), two.symbols(1), two.symbols(2)), (2, 50, 50, 0));
        for length in 1..2000 {
            for block in 1..20 {
                let all = partition(length, 7, Code::NoCode { block }).expect("a partition");
                let sizes: Vec<u64> = (0..all.blocks()).map(|number| all.symbols(number)).collect();
                assert_eq!(sizes.iter().sum::<u64>(), length.div_ceil(7));
                assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes[0] - sizes[sizes.len() - 1] <= 1);
                assert!(sizes[0] <= u64::from(block));
                let mut end = 0;
                for number in 0..all.blocks() {
                    let bytes = all.bytes(number);
                    assert_eq!((bytes.start, bytes.end.div_ceil(7) - end / 7), (end, all.symbols(number)));
                    end = bytes.end;
                }
                assert_eq!(end, length);
            }
        }
    }

    #[test]
    fn impossible_partitions_are_refused() {
        let raptor = |blocks| Code::RaptorQ { blocks, sub_blocks: 1, alignment: 1 };
        assert_eq!(partition(10, 0, Code::NoCode { block: 1 }), None);
        assert_eq!(partition(10, 4, raptor(0)), None);
        assert_eq!(partition(10, 4, raptor(4)), None);
        assert_eq!(partition(10, 4, raptor(3)).map(|all| all.blocks()), Some(3));
        assert_eq!(partition(u64::MAX, 4, Code::NoCode { block: 1 }), None);
        assert_eq!(partition(0, 4, raptor(0)).map(|all| all.blocks()), Some(0));
    }
}
