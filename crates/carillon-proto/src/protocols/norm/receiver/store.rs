//! Blocks that a receiver has not delivered as a whole.

use std::collections::BTreeMap;

use bytes::Bytes;
use carillon_wire::norm::StreamHeader;

use crate::blocks::{Symbol, symbol};
use crate::protocols::norm::config::Shape;
use crate::protocols::norm::repairs::Wants;

/// Symbols of blocks from the first missing message on.
#[derive(Debug)]
pub(super) struct Store {
    shape: Shape,
    blocks: BTreeMap<u64, Block>,
    /// Next message to deliver.
    expected: u64,
    /// First message that the sender repairs. A block that begins before it has no parity.
    trail: u64,
    /// Maximum number of messages from the expected one on.
    window: u64,
    /// Number of symbols held.
    held: usize,
    /// True if there is memory for parity, and for the delivered messages of a block that is not complete.
    decodes: bool,
}

/// Symbols of one block.
#[derive(Debug, Default)]
struct Block {
    sources: BTreeMap<u8, Bytes>,
    parity: BTreeMap<u8, Bytes>,
}

impl Store {
    /// Creates a store of at most `most` symbols, which begins with this block.
    pub fn new(shape: Shape, most: u64, begin: u64) -> Self {
        // Besides the window, the delivered messages of one block are kept.
        let decodes = most >= 2 * shape.block;
        let window = if decodes { most - shape.block } else { most };
        Store {
            shape,
            blocks: BTreeMap::new(),
            expected: shape.first(begin),
            trail: 0,
            window,
            held: 0,
            decodes,
        }
    }

    /// Next message to deliver.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// First message beyond the window.
    pub fn limit(&self) -> u64 {
        self.expected.saturating_add(self.window)
    }

    /// Returns true if a message is or was present.
    pub fn has(&self, number: u64) -> bool {
        let (block, index) = self.shape.place(number);
        number < self.expected
            || self.blocks.get(&block).is_some_and(|block| block.sources.contains_key(&index))
    }

    /// Stores a source symbol. Returns false if it is not needed.
    pub fn insert_source(&mut self, number: u64, symbol: Bytes) -> bool {
        if self.has(number) {
            return false;
        }
        let (block, index) = self.shape.place(number);
        self.blocks.entry(block).or_default().sources.insert(index, symbol);
        self.held += 1;
        true
    }

    /// Stores a parity symbol. Returns false if it is not needed.
    pub fn insert_parity(&mut self, block: u64, index: u8, symbol: Bytes) -> bool {
        if self.shape.first(block + 1) <= self.expected || !self.decodes {
            return false;
        }
        let held = self.blocks.entry(block).or_default();
        // As many symbols as a block has sources suffice.
        let needed = ((held.sources.len() + held.parity.len()) as u64) < self.shape.block;
        let stored = needed && held.parity.insert(index, symbol).is_none();
        self.held += usize::from(stored);
        stored
    }

    /// Computes the missing sources of a block from its parity, if it has enough symbols. Returns their numbers.
    pub fn restore(&mut self, block: u64) -> Vec<u64> {
        let Some(held) = self.blocks.get_mut(&block) else { return Vec::new() };
        let missing: Vec<u8> =
            (0..self.shape.block as u8).filter(|index| !held.sources.contains_key(index)).collect();
        if missing.is_empty() || held.parity.len() < missing.len() {
            return Vec::new();
        }
        let size = held.parity.values().map(Bytes::len).max().unwrap_or(0);
        let all =
            held.sources.iter().chain(&held.parity).map(|(&index, bytes)| (u16::from(index), &bytes[..]));
        let known: Vec<Symbol<'_>> = all.take(self.shape.block as usize).collect();
        let restored: Vec<(u8, Bytes)> =
            missing.iter().map(|&index| (index, symbol(&known, index.into(), size).into())).collect();
        // Parity that does not belong to the sources gives no valid symbols: it is requested again.
        let valid = restored.iter().all(|(_, symbol)| StreamHeader::split(symbol).is_some());
        self.held -= held.parity.len();
        held.parity.clear();
        if !valid {
            return Vec::new();
        }
        self.held += restored.len();
        held.sources.extend(restored);
        let first = self.shape.first(block);
        missing.into_iter().map(|index| first + u64::from(index)).collect()
    }

    /// Takes the symbol of the next message in order.
    pub fn pop(&mut self) -> Option<(u64, Bytes)> {
        let number = self.expected;
        let (block, index) = self.shape.place(number);
        let sources = &mut self.blocks.get_mut(&block)?.sources;
        let symbol = if self.decodes { sources.get(&index).cloned() } else { sources.remove(&index) }?;
        self.held -= usize::from(!self.decodes);
        self.advance_to(number + 1);
        Some((number, symbol))
    }

    /// Skips to this message, before which the sender repairs nothing. Returns the symbols of skipped messages that are
    /// present.
    pub fn skip_to(&mut self, first: u64) -> Vec<(u64, Bytes)> {
        self.trail = self.trail.max(first);
        let mut present = Vec::new();
        while self.expected < first {
            match self.pop() {
                Some(message) => present.push(message),
                None => {
                    // To the next message that is present.
                    let next = self.next_present().unwrap_or(first).min(first);
                    self.advance_to(next.max(self.expected + 1));
                }
            }
        }
        present
    }

    /// First message present beyond the expected one.
    fn next_present(&self) -> Option<u64> {
        let mut numbers = self.blocks.iter().flat_map(|(&block, held)| {
            held.sources.keys().map(move |&index| self.shape.first(block) + u64::from(index))
        });
        numbers.find(|&number| number > self.expected)
    }

    fn advance_to(&mut self, number: u64) {
        self.expected = number;
        let current = self.shape.place(number).0;
        while let Some(first) = self.blocks.first_entry().filter(|first| *first.key() < current) {
            let block = first.remove();
            self.held -= block.sources.len() + block.parity.len();
        }
    }

    /// Symbols to request of blocks with messages before `limit`: parity where the block was sent as a whole, as much
    /// as symbols are missing; else the missing messages.
    pub fn needs(&self, limit: u64) -> Wants {
        let (limit, mut wants) = (limit.min(self.limit()), Wants::default());
        if limit <= self.expected {
            return wants;
        }
        for block in self.shape.place(self.expected).0..=self.shape.place(limit - 1).0 {
            let (first, none) = (self.shape.first(block), Block::default());
            let held = self.blocks.get(&block).unwrap_or(&none);
            let end = (limit - first).min(self.shape.block);
            let start = self.expected.saturating_sub(first);
            let missing: Vec<u8> =
                (start as u8..end as u8).filter(|index| !held.sources.contains_key(index)).collect();
            let lacking = missing.len().saturating_sub(held.parity.len());
            if missing.is_empty() || lacking == 0 && end == self.shape.block {
                continue;
            }
            if end < self.shape.block || first < self.trail || !self.decodes {
                wants.insert(block, missing, false);
                continue;
            }
            let codes = self.shape.block as u8..(self.shape.block as u8 + self.shape.parity);
            let parity = codes.filter(|index| !held.parity.contains_key(index));
            wants.insert(block, parity.chain(missing.into_iter().rev()).take(lacking), true);
        }
        wants
    }

    /// Number of symbols held.
    pub fn len(&self) -> usize {
        self.held
    }
}
