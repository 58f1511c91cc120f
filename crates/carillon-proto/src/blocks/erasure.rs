//! Erasure codes: any lost messages of a block can be rebuilt from as many coded symbols.
//!
//! The code is systematic (RFC 5510): the messages themselves are its source symbols and are sent unchanged. For
//! coding, each message becomes a symbol of equal size: its length (16 bits), its bytes, and zeros.

use std::fmt::Debug;

use bytes::Bytes;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

/// Parameters of a coded block that both ends must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of messages in the block.
    pub length: u16,
    /// Number of coded symbols available for it, a power of two.
    pub planned: u16,
    /// Size of a symbol in bytes, an even number.
    pub size: usize,
}

impl Shape {
    /// Symbol size for messages of up to `longest` bytes.
    pub fn size_for(longest: usize) -> usize {
        (longest + PREFIX).next_multiple_of(2)
    }
}

/// Erasure code of which any `length` symbols of a block suffice (maximum distance separable).
pub trait ErasureCode: Debug + Send {
    /// Computes all coded symbols of these messages, concatenated; `None` if the code does not support the shape.
    fn code(&self, shape: Shape, sources: &mut dyn Iterator<Item = Bytes>) -> Option<Vec<u8>>;

    /// Rebuilds the missing messages, with their indices; `None` if the symbols are too few or do not fit the shape.
    fn restore(
        &self,
        shape: Shape,
        sources: &mut dyn Iterator<Item = (u16, Bytes)>,
        coded: &mut dyn Iterator<Item = (u16, Bytes)>,
    ) -> Option<Vec<(u16, Bytes)>>;
}

/// Reed-Solomon code over GF(2^16) in O(n log n) steps (Lin, Chung and Han 2014). The number of coded symbols is
/// fixed in advance, and any of them may be sent. The work is that of all `length + planned` symbols, rounded up to a
/// power of two.
///
/// The tables take 9 MB per process and some 25 ms to build. The first coded block builds them, since most transfers
/// need none.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReedSolomon;

impl ErasureCode for ReedSolomon {
    fn code(&self, shape: Shape, sources: &mut dyn Iterator<Item = Bytes>) -> Option<Vec<u8>> {
        let mut encoder =
            // Fails for an odd symbol size, or for more symbols than the code supports.
            ReedSolomonEncoder::new(shape.length.into(), shape.planned.into(), shape.size).ok()?;
        // One buffer serves all messages, as the encoder copies each symbol.
        let mut symbol = Vec::with_capacity(shape.size);
        for source in sources {
            put_symbol(&source, shape.size, &mut symbol)?;
            encoder.add_original_shard(&symbol).ok()?;
        }
        let coded = encoder.encode().ok()?;
        let mut all = Vec::with_capacity(usize::from(shape.planned) * shape.size);
        // The symbols borrow the encoder, so copy them out.
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
        // Indices and symbols stem from packets. The decoder refuses duplicates, and values that do not fit the shape.
        for (index, source) in sources {
            put_symbol(&source, shape.size, &mut symbol)?;
            decoder.add_original_shard(index.into(), &symbol).ok()?;
        }
        for (number, symbol) in coded {
            decoder.add_recovery_shard(number.into(), &symbol).ok()?;
        }
        let restored = decoder.decode().ok()?;
        // A forged symbol can restore to a message with an impossible length. Then no message is trusted.
        let messages = restored.restored_original_iter();
        messages.map(|(index, symbol)| Some((index as u16, message_in(symbol)?))).collect()
    }
}

/// Writes a message as a symbol. Returns `None` if the message is too long.
fn put_symbol(message: &[u8], size: usize, symbol: &mut Vec<u8>) -> Option<()> {
    // A length beyond the symbol would cut the message off in silence.
    let len = u16::try_from(message.len()).ok().filter(|&len| PREFIX + usize::from(len) <= size)?;
    symbol.clear();
    symbol.extend_from_slice(&len.to_be_bytes());
    symbol.extend_from_slice(message);
    // Encoder and decoder must pad alike, as the code also covers the padding.
    symbol.resize(size, 0);
    Some(())
}

/// Copies the message out of a symbol, so that the symbol's memory is freed.
pub(super) fn message_in(symbol: &[u8]) -> Option<Bytes> {
    let (len, rest) = symbol.split_first_chunk()?;
    rest.get(..u16::from_be_bytes(*len).into()).map(Bytes::copy_from_slice)
}

/// Number of bytes of the length before the message in a symbol.
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

    /// Random selection of `count` items.
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
    fn any_length_symbols_suffice_and_fewer_do_not() {
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
    fn mismatched_symbols_are_refused() {
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
        // Wrong length, invalid index, wrong symbol size, and a length beyond the symbol.
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
