//! Internet checksum, used by several protocols.

/// Ones' complement sum of the bytes as 16-bit numbers; an odd byte at the end counts as the high half (RFC 1071).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnesSum(u64);

impl OnesSum {
    /// Sum of these bytes without the 16-bit field at this even offset, the checksum itself.
    pub(crate) fn without(bytes: &[u8], at: usize) -> Self {
        match bytes.split_at_checked(at) {
            Some((before, [_, _, behind @ ..])) => OnesSum(sum(before) + sum(behind)),
            _ => OnesSum(sum(bytes)),
        }
    }

    /// Complement of the folded sum.
    pub(crate) fn complement(self) -> u16 {
        !u16::from_be(folded(self.0))
    }
}

/// Sum in the byte order of this machine, four bytes at a time. The sum is independent of byte order up to a swap of
/// its bytes (RFC 1071, section 2).
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let (pairs, odd) = rest.as_chunks::<2>();
    let words: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let pairs: u64 = pairs.iter().map(|pair| u64::from(u16::from_ne_bytes(*pair))).sum();
    words + pairs + odd.first().map_or(0, |&last| u64::from(u16::from_ne_bytes([last, 0])))
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn checksum_is_the_ones_complement_sum(bytes in prop::collection::vec(any::<u8>(), 0..80), at in 0..40usize) {
            let mut zeroed = bytes.clone();
            zeroed.iter_mut().skip(2 * at).take(2).filter(|_| 2 * at + 2 <= bytes.len()).for_each(|byte| *byte = 0);
            let mut plain: u32 = 0;
            for pair in zeroed.chunks(2) {
                plain += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
                plain = (plain & 0xffff) + (plain >> 16);
            }
            prop_assert_eq!(OnesSum::without(&bytes, 2 * at).complement(), !(plain as u16));
        }
    }
}
