//! Block at a receiver: its messages, and coded symbols that can replace missing ones.

use std::collections::BTreeMap;

use bytes::Bytes;
use carillon_core::{DropReason, expand};

use super::{ErasureCode, Shape, xor};

/// A block until it is complete. It keeps messages that were already delivered, since decoding needs them.
#[derive(Debug, Default)]
pub struct SymbolBlock {
    /// Number of messages, once known.
    length: Option<u16>,
    /// Messages present, by index; without their payloads if the block is `plain`.
    messages: Vec<Option<Bytes>>,
    /// Bit set of the messages present. Each list of missing messages reads it, which is a small part of `messages`.
    present: Vec<u64>,
    /// Number of messages present.
    there: u16,
    /// Coded symbols by number.
    coded: BTreeMap<u16, Bytes>,
    /// Shape of the coded symbols, the same for all.
    shape: Option<Shape>,
    /// Highest count of repairs seen.
    count: u64,
    /// Number of repairs that were due after it.
    more: u16,
    /// True if the sender has polled about the block.
    asked: bool,
    /// True if there is no memory to keep messages. Then only repeated messages help, and only their presence is
    /// recorded.
    plain: bool,
}

impl SymbolBlock {
    /// Number of messages, if known.
    pub fn length(&self) -> Option<u16> {
        self.length
    }

    /// Sets the number of messages. Returns false if it contradicts what is known.
    pub fn set_length(&mut self, length: u16) -> bool {
        // A packet may be forged, so the length must agree with the known one and with the messages present.
        if self.length.is_some_and(|known| known != length)
            || self.messages.len() > length.into()
            || length == 0
        {
            return false;
        }
        self.length = Some(length);
        self.settle();
        true
    }

    /// Records the count of repairs in a packet (modulo 2^16), and the number of repairs due after it.
    pub fn see(&mut self, count: u16, more: u16) {
        let count = expand(count.into(), COUNTS, self.count);
        // An old packet that arrives late must not lower the count.
        if count > self.count {
            (self.count, self.more) = (count, more);
        }
    }

    /// Highest count of repairs seen, modulo 2^16.
    pub fn seen(&self) -> u16 {
        (self.count % COUNTS) as u16
    }

    /// Records a poll of the sender.
    pub fn on_poll(&mut self) {
        self.asked = true;
    }

    /// Returns true if enough repairs are due, or if the sender has not polled yet.
    pub fn is_served(&self) -> bool {
        // Before the poll, the sender may still be sending the block or its planned symbols. A plain block gains
        // nothing from symbols, so announced repairs do not suffice.
        !self.asked || self.lacks().is_none_or(|lacks| lacks <= self.more && !self.plain)
    }

    /// Returns true if the block may have a message with this index.
    pub fn may_have(&self, index: u16) -> bool {
        self.length.is_none_or(|length| index < length)
    }

    /// Returns true if a message is present.
    pub fn has(&self, index: u16) -> bool {
        // A complete block has freed its messages.
        self.is_whole() && self.may_have(index)
            || self.present.get(usize::from(index) / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Returns true if a coded symbol is present.
    pub fn has_coded(&self, number: u16) -> bool {
        self.coded.contains_key(&number)
    }

    /// Adds a message.
    ///
    /// # Panics
    ///
    /// Panics if the block [cannot have](SymbolBlock::may_have) this index.
    pub fn insert(&mut self, index: u16, message: Bytes) {
        assert!(self.may_have(index), "the caller has asked whether it may have it");
        if self.has(index) {
            return;
        }
        let at = usize::from(index);
        if self.messages.len() <= at {
            self.messages.resize(at + 1, None);
            self.present.resize(at / 64 + 1, 0);
        }
        // Record only the presence if there is no memory for payloads.
        let message = if self.plain { Bytes::new() } else { message };
        self.messages[at] = Some(message);
        self.present[at / 64] |= 1 << (at % 64);
        self.there += 1;
        self.settle();
    }

    /// Adds a coded symbol. Returns false if it contradicts what is known of the block.
    pub fn insert_coded(&mut self, shape: Shape, number: u16, symbol: Bytes) -> bool {
        // Symbols of different shapes cannot be decoded together. If two packets disagree, one of them is forged.
        if !self.set_length(shape.length) || self.shape.is_some_and(|known| known != shape) {
            return false;
        }
        self.shape = Some(shape);
        self.settle();
        // A symbol is useless for a complete block, and for a block that cannot decode.
        if !self.plain && !self.is_whole() {
            self.coded.insert(number, symbol);
        }
        true
    }

    /// Decodes a [sum](xor::sum) of messages of which exactly one is missing. Returns that message, or the reason to
    /// drop the sum.
    pub fn only_missing(&self, places: &[u16], sum: &[u8]) -> Result<(u16, Bytes), DropReason> {
        let mut missing = places.iter().copied().filter(|&place| !self.has(place));
        let only = missing.next().ok_or(DropReason::Duplicate)?;
        // With two missing messages, the sum yields neither.
        if self.plain || missing.next().is_some() || !self.may_have(only) {
            return Err(DropReason::OutOfOrder);
        }
        let others = places.iter().filter_map(|&place| self.messages.get(usize::from(place))?.as_ref());
        let message = xor::without(sum, others).ok_or(DropReason::Malformed)?;
        Ok((only, message))
    }

    /// Frees the payloads kept for decoding, since the memory is needed.
    pub fn forget(&mut self) {
        self.plain = true;
        self.coded.clear();
        self.messages.iter_mut().flatten().for_each(|message| *message = Bytes::new());
    }

    /// Returns true if only repeated messages help.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Number of messages and symbols kept.
    pub fn held(&self) -> usize {
        // In both cases the payloads were freed.
        if self.plain || self.is_whole() { 0 } else { usize::from(self.there) + self.coded.len() }
    }

    /// Number of message slots reserved.
    pub fn places(&self) -> u64 {
        self.messages.len() as u64
    }

    /// Number of symbols that are missing, if the length is known.
    pub fn lacks(&self) -> Option<u16> {
        let have = self.there.saturating_add(self.coded.len() as u16);
        Some(self.length?.saturating_sub(have))
    }

    /// Returns true if all messages are present.
    pub fn is_whole(&self) -> bool {
        self.length == Some(self.there)
    }

    /// Bit set of the missing messages in words of 64, if the length is known.
    pub fn missing(&self) -> impl Iterator<Item = u64> + '_ {
        // A complete block has freed the set.
        let length = if self.is_whole() { 0 } else { usize::from(self.length.unwrap_or_default()) };
        (0..length.div_ceil(64)).map(move |at| {
            let of_block = u64::MAX >> (64 - (length - at * 64).min(64));
            !self.present.get(at).copied().unwrap_or(0) & of_block
        })
    }

    /// Rebuilds the missing messages if enough symbols are present, which completes the block. If they do not decode,
    /// drops all symbols and waits for the messages.
    pub fn restore(&mut self, code: &dyn ErasureCode) -> Vec<(u16, Bytes)> {
        let Some(shape) = self.shape.filter(|_| self.lacks() == Some(0) && !self.is_whole()) else {
            return Vec::new();
        };
        let messages = self.messages.iter().enumerate();
        let mut sources = messages.filter_map(|(index, message)| Some((index as u16, message.clone()?)));
        let mut coded = self.coded.iter().map(|(&number, symbol)| (number, symbol.clone()));
        let Some(restored) = code.restore(shape, &mut sources, &mut coded) else {
            // Some symbol or message is forged, and nothing tells which. Drop everything that a new attempt would use.
            self.forget();
            return Vec::new();
        };
        // The last message completes the block and frees its memory.
        for (index, message) in &restored {
            self.insert(*index, message.clone());
        }
        restored
    }

    /// Frees the memory of a complete block.
    fn settle(&mut self) {
        // Nothing is left to decode. The caller keeps the messages until they are delivered.
        if self.is_whole() {
            self.messages = Vec::new();
            self.present = Vec::new();
            self.coded = BTreeMap::new();
        }
    }
}

/// Modulus of the repair count on the wire.
const COUNTS: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use carillon_core::Seeds;

    use super::*;
    use crate::blocks::ReedSolomon;

    #[test]
    fn block_is_complete_with_enough_symbols_and_never_wrong() {
        let (mut rng, code) = (Seeds::new(1).stream("symbols"), ReedSolomon);
        for round in 0..200 {
            let (length, planned) = (1 + rng.below(30) as u16, 1u16 << rng.below(6));
            let message = |index: u16| Bytes::from(vec![index as u8; usize::from(index) % 7]);
            let shape = Shape { length, planned, size: Shape::size_for(6) };
            let coded = code.code(shape, &mut (0..length).map(message)).expect("a code");
            let coded = Bytes::from(coded);
            let symbol = |number: u16| {
                let at = usize::from(number) * shape.size;
                coded.slice(at..at + shape.size)
            };
            let mut block = SymbolBlock::default();
            let (mut there, mut helps) = (BTreeSet::new(), BTreeSet::new());
            let room = round % 4 > 0;
            while !block.is_whole() {
                if rng.below(2) == 0 {
                    let index = rng.below(length.into()) as u16;
                    block.insert(index, message(index));
                    there.insert(index);
                } else if there.len() + helps.len() < length.into() || block.is_plain() {
                    let number = rng.below(planned.into()) as u16;
                    assert!(block.insert_coded(shape, number, symbol(number)));
                    helps.insert(number);
                }
                if !room && rng.below(8) == 0 {
                    block.forget();
                }
                if block.is_plain() || block.is_whole() {
                    helps.clear();
                    assert_eq!(block.held(), 0);
                } else {
                    assert_eq!(block.held(), there.len() + helps.len());
                }
                let have = (there.len() + helps.len()) as u16;
                assert_eq!(block.lacks(), block.length().map(|length| length.saturating_sub(have)));
                let missing: Vec<_> = (0..length).filter(|index| !there.contains(index)).collect();
                if block.length().is_some() {
                    let words = block.missing().collect::<Vec<u64>>();
                    let is_missing = |index: &u16| words[usize::from(*index) / 64] >> (index % 64) & 1 == 1;
                    let listed = (0..64 * words.len() as u16).filter(is_missing);
                    assert!(listed.eq(missing.iter().copied()));
                }
                let restored = block.restore(&code);
                if block.length().is_some() && have >= length && !missing.is_empty() {
                    assert_eq!(restored.len(), missing.len());
                    assert!(restored.iter().all(|(index, bytes)| *bytes == message(*index)));
                    assert!(block.is_whole());
                } else {
                    assert!(restored.is_empty());
                }
                if there.len() == usize::from(length) {
                    assert!(block.set_length(length));
                }
            }
        }
    }

    #[test]
    fn contradiction_is_refused() {
        let mut block = SymbolBlock::default();
        block.insert(5, Bytes::new());
        assert!(!block.set_length(5), "there is a sixth");
        assert!(block.set_length(6) && block.set_length(6) && !block.set_length(7));
        assert!(block.may_have(5) && !block.may_have(6));
        let shape = Shape { length: 6, planned: 2, size: 4 };
        let symbol = Bytes::from_static(b"abcd");
        assert!(!block.insert_coded(Shape { length: 7, ..shape }, 0, symbol.clone()));
        assert!(block.insert_coded(shape, 0, symbol.clone()));
        assert!(!block.insert_coded(Shape { planned: 4, ..shape }, 1, symbol.clone()));
        assert!(!block.insert_coded(Shape { size: 6, ..shape }, 1, symbol));
        assert_eq!(block.lacks(), Some(4));
    }

    #[test]
    fn undecodable_symbols_are_dropped() {
        let shape = Shape { length: 1, planned: 1, size: 4 };
        let mut block = SymbolBlock::default();
        assert!(block.insert_coded(shape, 0, Bytes::from_static(b"\xff\xff\xff\xff")));
        assert!(block.restore(&ReedSolomon).is_empty());
        assert!(block.is_plain() && block.lacks() == Some(1));
        block.insert(0, Bytes::new());
        assert!(block.is_whole());
    }

    #[test]
    fn due_repairs_serve_requests_and_counts_wrap() {
        let mut block = SymbolBlock::default();
        assert!(block.is_served(), "nothing is known of it");
        assert!(block.set_length(10));
        assert!(block.is_served(), "the sender has not asked yet");
        block.on_poll();
        assert!(!block.is_served());
        block.see(1, 9);
        assert!(!block.is_served());
        block.see(2, 10);
        assert!(block.is_served());
        block.see(1, 0);
        assert!(block.is_served(), "an older packet says nothing new");
        for count in (0..200_000u64).step_by(9_000) {
            block.see((count % COUNTS) as u16, 0);
            assert_eq!(u64::from(block.seen()), count.max(2) % COUNTS);
        }
        assert!(!block.is_served());
    }
}
