//! Erasure codes: what is lost of a block of messages comes back from as many coded symbols, whichever they are.
//!
//! A code is systematic: its source symbols are the messages themselves, which go out as they come. Messages differ in length, so for
//! coding only each is a symbol of its length (16 bits), itself, and zeros up to the size of the longest one.

use std::fmt::Debug;

use bytes::Bytes;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

/// What both ends have to know of a coded block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Messages in the block.
    pub length: u16,
    /// Symbols that may be coded of it, a power of two.
    pub planned: u16,
    /// Bytes of a symbol, an even number.
    pub size: usize,
}

impl Shape {
    /// Bytes of the symbols of messages of up to so many bytes.
    pub fn size_for(longest: usize) -> usize {
        (longest + PREFIX).next_multiple_of(2)
    }
}

/// A code of which any `length` symbols of a block, sources and coded ones together, suffice.
pub trait ErasureCode: Debug + Send {
    /// All coded symbols of these messages, one behind the other; `None` if there is no such code.
    fn code(&self, shape: Shape, sources: &mut dyn Iterator<Item = Bytes>) -> Option<Vec<u8>>;

    /// The missing messages, by their places; `None` if these symbols are too few, or of no such block.
    fn restore(
        &self,
        shape: Shape,
        sources: &mut dyn Iterator<Item = (u16, Bytes)>,
        coded: &mut dyn Iterator<Item = (u16, Bytes)>,
    ) -> Option<Vec<(u16, Bytes)>>;
}

/// Reed-Solomon over GF(2^16) in O(n log n) steps: the coded symbols are fixed when they are planned, any of them may be
/// sent, and the work is that of all `length + planned` symbols, rounded up to a power of two.
///
/// Its tables take 9 MB in a process, however many there are, and some 25 ms to make: the first block that is coded makes them, since most
/// transfers need none.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReedSolomon;

impl ErasureCode for ReedSolomon {
    fn code(&self, shape: Shape, sources: &mut dyn Iterator<Item = Bytes>) -> Option<Vec<u8>> {
        let mut encoder =
            ReedSolomonEncoder::new(shape.length.into(), shape.planned.into(), shape.size).ok()?;
        let mut symbol = Vec::with_capacity(shape.size);
        for source in sources {
            put_symbol(&source, shape.size, &mut symbol)?;
            encoder.add_original_shard(&symbol).ok()?;
        }
        let coded = encoder.encode().ok()?;
        let mut all = Vec::with_capacity(usize::from(shape.planned) * shape.size);
        coded.recovery_iter().for_each(|symbol| all.extend_from_slice(symbol));
        Some(all)
    }

    fn restore(
        &self,
        shape: Shape,
        sources: &mut dyn Iterator<Item = (u16, Bytes)>,
        coded: &mut dyn Iterator<Item = (u16, Bytes)>,
    ) -> Option<Vec<(u16, Bytes)>> {
        let mut decoder =
            ReedSolomonDecoder::new(shape.length.into(), shape.planned.into(), shape.size).ok()?;
        let mut symbol = Vec::with_capacity(shape.size);
        for (index, source) in sources {
            put_symbol(&source, shape.size, &mut symbol)?;
            decoder.add_original_shard(index.into(), &symbol).ok()?;
        }
        for (number, symbol) in coded {
            decoder.add_recovery_shard(number.into(), &symbol).ok()?;
        }
        let restored = decoder.decode().ok()?;
        let messages = restored.restored_original_iter();
        messages.map(|(index, symbol)| Some((index as u16, message_in(symbol)?))).collect()
    }
}

/// A message as a symbol.
fn put_symbol(message: &[u8], size: usize, symbol: &mut Vec<u8>) -> Option<()> {
    let len = u16::try_from(message.len()).ok().filter(|&len| PREFIX + usize::from(len) <= size)?;
    symbol.clear();
    symbol.extend_from_slice(&len.to_be_bytes());
    symbol.extend_from_slice(message);
    symbol.resize(size, 0);
    Some(())
}

/// The message of a symbol, in memory of its own.
pub(super) fn message_in(symbol: &[u8]) -> Option<Bytes> {
    let (len, rest) = symbol.split_first_chunk()?;
    rest.get(..u16::from_be_bytes(*len).into()).map(Bytes::copy_from_slice)
}

/// Bytes of a message's length in its symbol.
pub(super) const PREFIX: usize = 2;

#[cfg(test)]
mod tests {
    use carillon_core::{Rng, Seeds};

    use super::*;

    fn messages(rng: &mut Rng, length: u16, longest: u64) -> Vec<Bytes> {
        let message = |rng: &mut Rng| {
            let mut bytes = vec![0; rng.below(longest + 1) as usize];
            rng.fill(&mut bytes);
            Bytes::from(bytes)
        };
        (0..length).map(|_| message(rng)).collect()
    }

    /// So many of all, at random.
    fn some<T: Clone>(rng: &mut Rng, all: impl IntoIterator<Item = T>, mut count: usize) -> Vec<(u16, T)> {
        let mut left: Vec<_> = all.into_iter().enumerate().map(|(at, one)| (at as u16, one)).collect();
        let mut taken = Vec::new();
        while count > 0 && !left.is_empty() {
            taken.push(left.swap_remove(rng.below(left.len() as u64) as usize));
            count -= 1;
        }
        taken
    }

    #[test]
    fn any_so_many_symbols_suffice_and_one_fewer_does_not() {
        let (mut rng, code) = (Seeds::new(1).stream("erasure"), ReedSolomon);
        for round in 0..300 {
            let length = 1 + rng.below(if round % 10 == 0 { 300 } else { 40 }) as u16;
            let planned = 1 << rng.below(7);
            let sources = messages(&mut rng, length, 33);
            let size = Shape::size_for(sources.iter().map(Bytes::len).max().unwrap());
            let shape = Shape { length, planned, size };
            let coded = code.code(shape, &mut sources.iter().cloned()).expect("a code");
            assert_eq!(coded.len(), usize::from(planned) * size);
            let coded: Vec<_> = coded.chunks(size).map(Bytes::copy_from_slice).collect();
            let lost = rng.below(u64::from(length.min(planned)) + 1) as usize;
            let there = some(&mut rng, sources.iter().cloned(), usize::from(length) - lost);
            let mut helps = some(&mut rng, coded, lost);
            let restored = code
                .restore(shape, &mut there.iter().cloned(), &mut helps.iter().cloned())
                .expect("enough of them");
            assert_eq!(restored.len(), lost);
            for (index, message) in restored {
                assert_eq!(message, sources[usize::from(index)]);
                assert!(there.iter().all(|(other, _)| *other != index));
            }
            if lost > 0 {
                helps.pop();
                let restored = code.restore(shape, &mut there.into_iter(), &mut helps.into_iter());
                assert!(restored.is_none(), "one is lacking");
            }
        }
    }

    #[test]
    fn what_fits_no_symbol_of_the_block_is_refused() {
        let shape = Shape { length: 2, planned: 2, size: 6 };
        let (short, long) = (Bytes::from_static(b"abcd"), Bytes::from_static(b"abcde"));
        let both = |one: &Bytes, other: &Bytes| [one.clone(), other.clone()];
        assert!(ReedSolomon.code(shape, &mut both(&short, &long).into_iter()).is_none());
        let coded = ReedSolomon.code(shape, &mut both(&short, &short).into_iter()).expect("they fit");
        let coded = Bytes::from(coded);
        let restore = |symbol: Bytes, source: &Bytes, index: u16| {
            let source = (index, source.clone());
            ReedSolomon.restore(shape, &mut [source].into_iter(), &mut [(0, symbol)].into_iter())
        };
        assert_eq!(restore(coded.slice(..6), &short, 0), Some(vec![(1, short.clone())]));
        // A wrong length, a place that is none, a symbol of another size, a length beyond it.
        assert!(restore(coded.slice(..6), &long, 0).is_none());
        assert!(restore(coded.slice(..6), &short, 2).is_none());
        assert!(restore(coded.slice(..4), &short, 0).is_none());
        let odd = Shape { size: 5, ..shape };
        assert!(ReedSolomon.code(odd, &mut both(&short, &short).into_iter()).is_none());
        let mut wild = coded.slice(..6).to_vec();
        wild[0] ^= 0xff;
        assert!(restore(wild.into(), &short, 0).is_none());
    }
}
