//! The sum that the checksums of several protocols are made of.

/// The ones' complement sum of the bytes as 16-bit numbers, an odd one at the end as the high half: RFC 1071.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnesSum(u64);

impl OnesSum {
    /// Of these bytes, but for the number at this even place if it is there: the checksum field itself.
    pub(crate) fn without(bytes: &[u8], at: usize) -> Self {
        match bytes.split_at_checked(at) {
            Some((before, [_, _, behind @ ..])) => OnesSum(sum(before) + sum(behind)),
            _ => OnesSum(sum(bytes)),
        }
    }

    /// Folded, and its complement taken.
    pub(crate) fn complement(self) -> u16 {
        !u16::from_be(folded(self.0))
    }
}

/// In the order of bytes that this machine has, in which the sum is the same with its bytes swapped, and four at a time
/// (RFC 1071, section 2).
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
