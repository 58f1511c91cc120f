//! Partition of an object into blocks and symbols (RFC 5052, section 9.1), for FLUTE and NORM.

use std::ops::Range;

/// Blocks of an object: the first ones have one symbol more than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    length: u64,
    symbol: u64,
    blocks: u64,
    /// Symbols of the later blocks.
    small: u64,
    /// Number of blocks with a further symbol.
    large_blocks: u64,
}

impl Partition {
    /// Partition of an object of `length` bytes into symbols of `symbol` bytes, and `blocks` of the number of symbols
    /// into as many blocks. `None` if the symbols have no bytes, or if there are no blocks for them.
    pub fn new(length: u64, symbol: u16, blocks: impl FnOnce(u64) -> u64) -> Option<Partition> {
        let symbol = u64::from(symbol);
        let symbols = length.checked_add(symbol.checked_sub(1)?)? / symbol;
        if symbols == 0 {
            return Some(Partition { length, symbol, blocks: 0, small: 0, large_blocks: 0 });
        }
        let blocks = blocks(symbols);
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

    fn partition(length: u64, symbol: u16, block: u64) -> Option<Partition> {
        Partition::new(length, symbol, |symbols| symbols.div_ceil(block))
    }

    /// The object of a recorded session: 40000 bytes in symbols of 400, blocks of at most 64.
    #[test]
    fn blocks_differ_by_one_symbol_at_most() {
        let two = partition(40_000, 400, 64).expect("a partition");
        assert_eq!((two.blocks(), two.symbols(0), two.symbols(1), two.symbols(2)), (2, 50, 50, 0));
        for length in 1..2000 {
            for block in 1..20 {
                let all = partition(length, 7, block).expect("a partition");
                let sizes: Vec<u64> = (0..all.blocks()).map(|number| all.symbols(number)).collect();
                assert_eq!(sizes.iter().sum::<u64>(), length.div_ceil(7));
                assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes[0] - sizes[sizes.len() - 1] <= 1);
                assert!(sizes[0] <= block);
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
        let fixed = |length, symbol, blocks| Partition::new(length, symbol, |_| blocks);
        assert_eq!(fixed(10, 0, 1), None);
        assert_eq!(fixed(10, 4, 0), None);
        assert_eq!(fixed(10, 4, 4), None);
        assert_eq!(fixed(10, 4, 3).map(|all| all.blocks()), Some(3));
        assert_eq!(fixed(u64::MAX, 4, 1), None);
        assert_eq!(fixed(0, 4, 0).map(|all| all.blocks()), Some(0));
    }
}
