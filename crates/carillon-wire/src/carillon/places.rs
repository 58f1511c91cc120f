//! Which messages of a block a sum is made of, in few bits: gaps in a Golomb-Rice code.

use crate::ParseError;
use crate::reader::Reader;

/// Places in a block, two or more, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolPositions {
    places: [u16; MAX],
    count: u8,
}

/// So many places, and bytes, a list has at most.
const MAX: usize = 16;
/// Bytes of a list, at most.
pub const MAX_POSITIONS_LEN: usize = MAX;
/// Gaps are coded so that all their unary parts together have fewer bits than this beyond one each.
const UNARY: usize = 16;

/// How many places of a block of this length fit a list whatever they are.
pub fn max_positions(length: u16) -> usize {
    MAX.min((8 * MAX_POSITIONS_LEN + 1 - UNARY) / (low_bits(length) as usize + 1))
}

/// Bits of a gap that go as they are, in a block of this length: those above, of all gaps, add up to less than [`UNARY`].
fn low_bits(length: u16) -> u32 {
    (u16::BITS - length.saturating_sub(1).leading_zeros()).saturating_sub(UNARY.ilog2())
}

impl SymbolPositions {
    /// These ones of a block of this length.
    ///
    /// # Panics
    ///
    /// If they are fewer than two, or more than [`max_positions`], or not ascending places of the block.
    pub fn new(places: &[u16], length: u16) -> Self {
        assert!((2..=max_positions(length)).contains(&places.len()), "{} places", places.len());
        let ascend = places.is_sorted_by(|one, other| one < other);
        assert!(ascend && places.last().is_some_and(|&last| last < length), "places of a block");
        let mut all = [0; MAX];
        all[..places.len()].copy_from_slice(places);
        SymbolPositions { places: all, count: places.len() as u8 }
    }

    /// The places.
    pub fn as_slice(&self) -> &[u16] {
        &self.places[..self.count.into()]
    }

    /// Bytes on the wire behind their number.
    pub(super) fn wire_len(&self, length: u16) -> usize {
        self.list(length).1
    }

    pub(super) fn emit(&self, length: u16, buf: &mut Vec<u8>) {
        let (list, len) = self.list(length);
        buf.push(self.count);
        buf.extend_from_slice(&list.to_be_bytes()[..len]);
    }

    /// The list from the highest bit on, and its bytes.
    fn list(&self, length: u16) -> (u128, usize) {
        let low = low_bits(length);
        let (mut list, mut bits, mut next) = (0u128, 0, 0);
        for &place in self.as_slice() {
            let gap = place - next;
            let ones = u32::from(gap >> low);
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
        let mut bytes = [0; MAX];
        let there = rest.len().min(MAX);
        bytes[..there].copy_from_slice(&rest[..there]);
        let (list, mut bits, mut next) = (u128::from_be_bytes(bytes), 0, 0);
        let mut places = [0; MAX];
        for place in &mut places[..count.into()] {
            let ones = (list << bits).leading_ones();
            let above = u128::BITS - (bits + ones + 1 + low).min(u128::BITS);
            bits += ones + 1 + low;
            let gap = ones << low | (list >> above) as u32 & ((1 << low) - 1);
            let number = next + gap;
            if bits >= u128::BITS || number >= length.into() {
                return Err(ParseError::Field { field: "place", value: number.into() });
            }
            (*place, next) = (number as u16, number + 1);
        }
        reader.bytes(bits.div_ceil(8) as usize)?;
        let padding = bits.next_multiple_of(8) - bits;
        if (list << bits).leading_zeros() < padding {
            return Err(ParseError::Field { field: "padding", value: bits.into() });
        }
        Ok(SymbolPositions { places, count })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(length in 2u16..=1 << 14, picks in prop::collection::btree_set(0u16..1 << 14, 2..40)) {
            let mut places: Vec<u16> = picks.into_iter().filter(|&place| place < length).collect();
            places.truncate(max_positions(length));
            if places.len() < 2 {
                places = vec![0, 1];
            }
            let mut bytes = Vec::new();
            let written = SymbolPositions::new(&places, length);
            written.emit(length, &mut bytes);
            prop_assert!(bytes.len() <= 1 + MAX_POSITIONS_LEN);
            prop_assert_eq!(bytes.len(), 1 + written.wire_len(length));
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(SymbolPositions::read(length, &mut reader).expect("places"), written);
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn what_is_read_is_what_would_be_written(length in 1u16..=1 << 14, bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut reader = Reader::new(&bytes);
            let Ok(places) = SymbolPositions::read(length, &mut reader) else { return Ok(()) };
            let mut again = Vec::new();
            SymbolPositions::new(places.as_slice(), length).emit(length, &mut again);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
        }
    }
}
