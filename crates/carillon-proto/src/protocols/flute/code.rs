//! Erasure codes of the FEC encodings, on raw symbols: the parity of a block, and a block from some of its symbols.

use std::collections::BTreeMap;

use carillon_wire::alc::Code;
use raptorq::{EncodingPacket, ObjectTransmissionInformation, SourceBlockDecoder, SourceBlockEncoder};

use crate::blocks::{MAX_SYMBOLS, symbol as code_symbol};

/// Erasure code of raw symbols of equal length. Framing is the caller's.
pub(super) trait SymbolCode: std::fmt::Debug + Send {
    /// Computes `count` parity symbols of a block. Its length is a multiple of the symbol's.
    fn parity(&self, block: &[u8], symbol: usize, count: usize) -> Vec<Vec<u8>>;

    /// Computes a block of `sources` symbols from as many or more of its symbols, by their numbers. `None` if they
    /// do not suffice.
    fn restore(&self, sources: usize, symbol: usize, known: &BTreeMap<u32, Vec<u8>>) -> Option<Vec<u8>>;

    /// Returns true if there may be a symbol with this number in a block of `sources` symbols.
    fn has(&self, sources: usize, number: u32) -> bool;

    /// Returns true if a block may have this number of source symbols.
    fn codes(&self, sources: usize) -> bool;
}

/// Returns the code with these parameters; `None` if it is not supported.
pub(super) fn code(code: Code, symbol: u16) -> Option<Box<dyn SymbolCode>> {
    match code {
        Code::NoCode { .. } => Some(Box::new(NoCode)),
        Code::ReedSolomon8 { total, .. } => Some(Box::new(Rizzo { total: total.into() })),
        Code::ReedSolomon { bits: 0 | 8, group: 0 | 1, total, .. } => Some(Box::new(Rizzo { total })),
        // Instance 0 is Reed-Solomon over GF(2^8) (RFC 5510, section 7).
        Code::SmallBlock { instance: 0, total, .. } => Some(Box::new(Rizzo { total })),
        Code::RaptorQ { sub_blocks: 1, alignment, .. } if is_aligned(symbol, alignment) => {
            Some(Box::new(RaptorQ { alignment }))
        }
        Code::Raptor { sub_blocks: 1, alignment, .. } if is_aligned(symbol, alignment) => {
            Some(Box::new(Raptor))
        }
        _ => None,
    }
}

fn is_aligned(symbol: u16, alignment: u8) -> bool {
    alignment > 0 && symbol.is_multiple_of(alignment.into())
}

/// No code: a block is its source symbols.
#[derive(Debug)]
struct NoCode;

impl SymbolCode for NoCode {
    fn parity(&self, _block: &[u8], _symbol: usize, _count: usize) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn restore(&self, _sources: usize, _symbol: usize, _known: &BTreeMap<u32, Vec<u8>>) -> Option<Vec<u8>> {
        None
    }

    fn has(&self, sources: usize, number: u32) -> bool {
        (number as usize) < sources
    }

    fn codes(&self, _sources: usize) -> bool {
        true
    }
}

/// Reed-Solomon code over GF(2^8), as deployed: [`code_symbol`]. A short block has its actual length.
#[derive(Debug)]
struct Rizzo {
    /// Maximum number of symbols of a block.
    total: u16,
}

impl SymbolCode for Rizzo {
    fn parity(&self, block: &[u8], symbol: usize, count: usize) -> Vec<Vec<u8>> {
        let known: Vec<_> = (0..).zip(block.chunks(symbol)).collect();
        let first = known.len();
        let last = (first + count).min(usize::from(self.total)).min(MAX_SYMBOLS);
        (first..last).map(|number| code_symbol(&known, number as u16, symbol)).collect()
    }

    fn restore(&self, sources: usize, symbol: usize, known: &BTreeMap<u32, Vec<u8>>) -> Option<Vec<u8>> {
        let some: Vec<(u16, &[u8])> =
            known.iter().take(sources).map(|(&number, bytes)| (number as u16, &bytes[..])).collect();
        if some.len() < sources {
            return None;
        }
        let mut block = Vec::with_capacity(sources * symbol);
        for number in 0..sources as u32 {
            match known.get(&number) {
                Some(bytes) => block.extend_from_slice(bytes),
                None => block.extend_from_slice(&code_symbol(&some, number as u16, symbol)),
            }
            block.resize((number as usize + 1) * symbol, 0);
        }
        Some(block)
    }

    fn has(&self, sources: usize, number: u32) -> bool {
        let total = usize::from(self.total).min(MAX_SYMBOLS).max(sources);
        (number as usize) < total
    }

    fn codes(&self, sources: usize) -> bool {
        sources <= MAX_SYMBOLS
    }
}

/// RaptorQ (RFC 6330), without sub-blocks.
#[derive(Debug)]
struct RaptorQ {
    alignment: u8,
}

impl RaptorQ {
    fn information(&self, sources: usize, symbol: usize) -> ObjectTransmissionInformation {
        // The length, the blocks and the sub-blocks do not matter for the code of one block.
        ObjectTransmissionInformation::new((sources * symbol) as u64, symbol as u16, 1, 1, self.alignment)
    }
}

impl SymbolCode for RaptorQ {
    fn parity(&self, block: &[u8], symbol: usize, count: usize) -> Vec<Vec<u8>> {
        let information = self.information(block.len() / symbol, symbol);
        let encoder = SourceBlockEncoder::new(0, &information, block);
        encoder.repair_packets(0, count as u32).iter().map(|packet| packet.data().to_vec()).collect()
    }

    fn restore(&self, sources: usize, symbol: usize, known: &BTreeMap<u32, Vec<u8>>) -> Option<Vec<u8>> {
        let information = self.information(sources, symbol);
        let mut decoder = SourceBlockDecoder::new(0, &information, (sources * symbol) as u64);
        decoder.decode(known.iter().map(|(&number, bytes)| {
            let mut bytes = bytes.clone();
            bytes.resize(symbol, 0);
            EncodingPacket::new(raptorq::PayloadId::new(0, number), bytes)
        }))
    }

    fn has(&self, _sources: usize, number: u32) -> bool {
        number < 1 << 24
    }

    fn codes(&self, sources: usize) -> bool {
        (1..=MAX_RAPTOR_SYMBOLS).contains(&sources)
    }
}

/// Raptor (RFC 5053), without sub-blocks.
#[derive(Debug)]
struct Raptor;

impl SymbolCode for Raptor {
    fn parity(&self, block: &[u8], symbol: usize, count: usize) -> Vec<Vec<u8>> {
        let sources = block.len() / symbol;
        let Ok(mut encoder) = raptor_code::SourceBlockEncoder::new(block, sources) else { return Vec::new() };
        (sources..sources + count).map(|number| encoder.fountain(number as u32)).collect()
    }

    fn restore(&self, sources: usize, symbol: usize, known: &BTreeMap<u32, Vec<u8>>) -> Option<Vec<u8>> {
        let mut decoder = raptor_code::SourceBlockDecoder::new(sources);
        for (&number, bytes) in known {
            let mut bytes = bytes.clone();
            bytes.resize(symbol, 0);
            decoder.push_encoding_symbol(&bytes, number);
        }
        if !decoder.fully_specified() {
            return None;
        }
        decoder.decode(sources * symbol)
    }

    fn has(&self, _sources: usize, number: u32) -> bool {
        number < 1 << 16
    }

    fn codes(&self, sources: usize) -> bool {
        (MIN_RAPTOR_SYMBOLS..=MAX_RAPTOR_SYMBOLS).contains(&sources)
    }
}

/// Minimum number of source symbols of a block of Raptor (RFC 5053, section 5.4.2.1).
pub(super) const MIN_RAPTOR_SYMBOLS: usize = 4;
/// Maximum number of source symbols of a block of Raptor, and of accepted blocks of RaptorQ.
pub(super) const MAX_RAPTOR_SYMBOLS: usize = 8192;

#[cfg(test)]
mod tests {
    use carillon_core::Seeds;

    use super::*;

    /// Restores blocks with each code from as many symbols as it needs, whichever are lost.
    #[test]
    fn blocks_are_restored_from_any_symbols() {
        let mut rng = Seeds::new(1).stream("flute.code");
        let codes = [
            Code::ReedSolomon8 { block: 64, total: 80 },
            Code::RaptorQ { blocks: 1, sub_blocks: 1, alignment: 4 },
            Code::Raptor { blocks: 1, sub_blocks: 1, alignment: 4 },
        ];
        for parameters in codes {
            let some = code(parameters, 20).expect("it is supported");
            for sources in [4, 5, 20, 64] {
                let block: Vec<u8> = (0..sources * 20).map(|_| rng.below(256) as u8).collect();
                let parity = some.parity(&block, 20, 16);
                assert_eq!(parity.len(), 16);
                let sent = block.chunks(20).map(<[u8]>::to_vec).chain(parity);
                let mut known: BTreeMap<u32, Vec<u8>> = (0..).zip(sent).collect();
                let all = known.len();
                // Raptor may need some symbols more than the block has.
                while known.len() > sources + 4 {
                    known.remove(&(rng.below(all as u64) as u32));
                }
                assert_eq!(some.restore(sources, 20, &known), Some(block), "{parameters:?} {sources}");
                let few = known.into_iter().take(sources - 1).collect();
                assert_eq!(some.restore(sources, 20, &few), None, "{parameters:?} {sources}");
            }
        }
    }

    /// Blocks as another implementation sent them: parity is recomputed, and blocks are restored from it.
    #[test]
    fn recorded_parity_is_recomputed() {
        let mut recorded: BTreeMap<u8, BTreeMap<u32, Vec<u8>>> = BTreeMap::new();
        let mut current = 0;
        let lines = include_str!("../../../tests/vectors/flute-blocks.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (first, second) = line.split_once(' ').expect("two words");
            if first == "code" {
                current = second.parse().expect("a number");
                continue;
            }
            let digits: Vec<u8> =
                second.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
            let bytes = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
            recorded.entry(current).or_default().insert(first.parse().expect("a number"), bytes);
        }
        let codes = [
            Code::Raptor { blocks: 1, sub_blocks: 1, alignment: 4 },
            Code::ReedSolomon8 { block: 64, total: 80 },
            Code::RaptorQ { blocks: 1, sub_blocks: 1, alignment: 4 },
        ];
        assert_eq!(recorded.len(), codes.len());
        for (parameters, symbols) in codes.into_iter().zip(recorded.into_values()) {
            let some = code(parameters, 8).expect("it is supported");
            assert_eq!(symbols.len(), 66);
            let block: Vec<u8> = symbols.values().take(50).flatten().copied().collect();
            let parity: Vec<Vec<u8>> = symbols.values().skip(50).cloned().collect();
            assert_eq!(some.parity(&block, 8, 16), parity, "{parameters:?}");
            let late = symbols.into_iter().skip(14).collect();
            assert_eq!(some.restore(50, 8, &late), Some(block), "{parameters:?}");
        }
    }
}
