//! Helpers of feedback forgers: changes of fields in emitted packets, for suites with dishonest members.

/// Increases the 32-bit field at byte `at`, modulo 2^32.
pub(super) fn raise(bytes: &mut [u8], at: usize, by: u32) {
    let Some(field) = bytes.get_mut(at..at + 4).and_then(|field| field.first_chunk_mut::<4>()) else {
        return;
    };
    *field = u32::from_be_bytes(*field).wrapping_add(by).to_be_bytes();
}

/// Clears a map and returns the position after its last set bit.
pub(super) fn clear(map: &mut [u8]) -> u32 {
    let words = map
        .chunks_exact(8)
        .map(|word| word.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte)));
    let last = (0_u32..).zip(words).filter(|(_, word)| *word != 0).last();
    let end = last.map_or(0, |(index, word)| 64 * index + 64 - word.leading_zeros());
    map.fill(0);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_set_bit_of_a_map_is_found() {
        for bit in [0, 5, 63, 64, 100, 191] {
            let mut map = [0_u8; 24];
            let words = [u64::from(bit != 0), 0, 0];
            for (index, word) in words.into_iter().enumerate() {
                let word = word | if bit / 64 == index { 1 << (bit % 64) } else { 0 };
                map[8 * index..8 * index + 8].copy_from_slice(&word.to_be_bytes());
            }
            assert_eq!(clear(&mut map), bit as u32 + 1);
            assert_eq!(clear(&mut map), 0);
        }
    }
}
