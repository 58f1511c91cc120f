//! Positions of the messages in an XOR packet: gaps in a Golomb-Rice code (Rice 1979).

use crate::ParseError;
use crate::reader::Reader;

/// Two or more ascending positions in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolPositions {
    positions: [u16; MAX_POSITIONS],
    count: u8,
}

/// Maximum number of positions in a list.
const MAX_POSITIONS: usize = 16;
/// Maximum length of a list in bytes.
pub const MAX_POSITIONS_LEN: usize = MAX_POSITIONS;
/// Bound of the unary parts: together they have fewer bits than this, without the terminating zeros.
const MAX_UNARY_BITS: usize = 16;

/// Maximum number of positions that fit a list for every choice of positions in a block of this length.
pub fn max_positions(length: u16) -> usize {
    MAX_POSITIONS.min((8 * MAX_POSITIONS_LEN + 1 - MAX_UNARY_BITS) / (low_bits(length) as usize + 1))
}

/// Number k of low bits of a gap that are coded verbatim in a block of this length. The high parts of all gaps then
/// sum up to less than [`MAX_UNARY_BITS`].
fn low_bits(length: u16) -> u32 {
    (u16::BITS - length.saturating_sub(1).leading_zeros()).saturating_sub(MAX_UNARY_BITS.ilog2())
}

impl SymbolPositions {
    /// Positions in a block of this length.
    ///
    /// # Panics
    ///
    /// Panics if they are fewer than two, more than [`max_positions`], not ascending, or beyond the block.
    pub fn new(positions: &[u16], length: u16) -> Self {
        assert!((2..=max_positions(length)).contains(&positions.len()), "{} places", positions.len());
        let ascend = positions.is_sorted_by(|one, other| one < other);
        assert!(ascend && positions.last().is_some_and(|&last| last < length), "places of a block");
        let mut all = [0; MAX_POSITIONS];
        all[..positions.len()].copy_from_slice(positions);
        SymbolPositions { positions: all, count: positions.len() as u8 }
    }

    /// Positions as a slice.
    pub fn as_slice(&self) -> &[u16] {
        &self.positions[..self.count.into()]
    }

    /// Bytes on the wire: the number and the list.
    pub(super) fn wire_len(&self, length: u16) -> usize {
        self.list(length).1
    }

    pub(super) fn emit(&self, length: u16, buf: &mut Vec<u8>) {
        let (list, len) = self.list(length);
        buf.push(self.count);
        buf.extend_from_slice(&list.to_be_bytes()[..len]);
    }

    /// Coded list, left-aligned in 128 bits, and its length in bytes.
    fn list(&self, length: u16) -> (u128, usize) {
        let low = low_bits(length);
        let (mut list, mut bits, mut next) = (0u128, 0, 0);
        for &place in self.as_slice() {
            let gap = place - next;
            let ones = u32::from(gap >> low);
            // Rice code: the high part in unary, a zero, then the low bits.
            let code = ((1u128 << ones) - 1) << (low + 1) | u128::from(gap & ((1 << low) - 1));
            bits += ones + 1 + low;
            list |= code << (u128::BITS - bits);
            next = place + 1;
        }
        (list, bits.div_ceil(8) as usize)
    }

    pub(super) fn read(length: u16, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (count, low) = (reader.u8()?, low_bits(length));
        if !(2..=max_positions(length)).contains(&count.into()) {
            return Err(ParseError::Field { field: "places", value: count.into() });
        }
        let rest = reader.rest();
        let mut bytes = [0; MAX_POSITIONS];
        let there = rest.len().min(MAX_POSITIONS);
        bytes[..there].copy_from_slice(&rest[..there]);
        let (list, mut bits, mut next) = (u128::from_be_bytes(bytes), 0, 0);
        let mut positions = [0; MAX_POSITIONS];
        for place in &mut positions[..count.into()] {
            // The highest bits of the list come first; `bits` counts those decoded so far.
            let ones = (list << bits).leading_ones();
            let above = u128::BITS - (bits + ones + 1 + low).min(u128::BITS);
            bits += ones + 1 + low;
            let gap = ones << low | (list >> above) as u32 & ((1 << low) - 1);
            let number = next + gap;
            // A list that runs out of bits or leaves the block is refused.
            if bits >= u128::BITS || number >= length.into() {
                return Err(ParseError::Field { field: "place", value: number.into() });
            }
            (*place, next) = (number as u16, number + 1);
        }
        reader.bytes(bits.div_ceil(8) as usize)?;
        // The padding up to a whole byte must be zero, so that each list has one encoding.
        let padding = bits.next_multiple_of(8) - bits;
        if (list << bits).leading_zeros() < padding {
            return Err(ParseError::Field { field: "padding", value: bits.into() });
        }
        Ok(SymbolPositions { positions, count })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn positions_survive_emit_and_parse(length in 2u16..=1 << 14, picks in prop::collection::btree_set(0u16..1 << 14, 2..40)) {
            let mut positions: Vec<u16> = picks.into_iter().filter(|&place| place < length).collect();
            positions.truncate(max_positions(length));
            if positions.len() < 2 {
                positions = vec![0, 1];
            }
            let mut bytes = Vec::new();
            let written = SymbolPositions::new(&positions, length);
            written.emit(length, &mut bytes);
            prop_assert!(bytes.len() <= 1 + MAX_POSITIONS_LEN);
            prop_assert_eq!(bytes.len(), 1 + written.wire_len(length));
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(SymbolPositions::read(length, &mut reader).expect("places"), written);
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn accepted_lists_are_canonical(length in 1u16..=1 << 14, bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut reader = Reader::new(&bytes);
            let Ok(positions) = SymbolPositions::read(length, &mut reader) else { return Ok(()) };
            let mut again = Vec::new();
            SymbolPositions::new(positions.as_slice(), length).emit(length, &mut again);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
        }
    }
}
