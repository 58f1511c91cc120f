//! The sum that the checksums of several protocols are made of.

/// The ones' complement sum of the bytes as 16-bit numbers, an odd one at the end as the high half: RFC 1071. A sum
/// of parts is the sum of their sums, as long as each but the last has an even length.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnesSum(u64);

impl OnesSum {
    /// Of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let (pairs, odd) = bytes.as_chunks::<2>();
        let sum: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
        OnesSum(sum + odd.first().map_or(0, |&last| u64::from(last) << 8))
    }

    /// Without a number that was among them: the checksum field itself.
    pub(crate) fn without(self, number: u16) -> Self {
        OnesSum(self.0 - u64::from(number))
    }

    /// Folded, and its complement taken.
    pub(crate) fn complement(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}
