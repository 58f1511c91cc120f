//! Conversion between 64-bit sequence numbers and shorter ones on the wire: 32 bits, or 1 to N.

use carillon_core::expand;

/// Sequence number as the wire carries it in 32 bits.
pub const fn wire(number: u64) -> u32 {
    (number % MODULUS) as u32
}

/// Sequence number nearest to the expected one that has these 32 bits.
pub fn near(wire: u32, expected: u64) -> u64 {
    expand(wire.into(), MODULUS, expected)
}

/// Modulus of 32-bit sequence numbers.
const MODULUS: u64 = 1 << 32;

/// Range of sequence numbers that the group has agreed on: 1 to N.
#[derive(Clone, Copy, Debug)]
pub struct WireNumbers {
    /// Largest sequence number on the wire.
    n: u64,
}

impl WireNumbers {
    /// Creates the range from 1 to `n`.
    pub const fn new(n: u64) -> Self {
        WireNumbers { n }
    }

    /// Sequence number of a message on the wire.
    pub fn wire(self, number: u64) -> u32 {
        (number % self.n) as u32 + 1
    }

    /// Message that a sequence number means at a receiver. Data may be new or repeated, so it is the message nearest
    /// to the expected one. This is right if the two are less than N / 2 apart. The source's condition N > B does not
    /// ensure that; N > 2 B does for all messages that can still be repaired.
    pub fn near(self, wire: u32, expected: u64) -> Option<u64> {
        Some(expand(self.offset(wire)?, self.n, expected))
    }

    /// Message that a NAK means at a sender: the last one before `next` with this number. Only sent messages are
    /// requested, so that N > B distinguishes all messages of the back window.
    pub fn before(self, wire: u32, next: u64) -> Option<u64> {
        let offset = self.offset(wire)?;
        // Distance back from `next`, from 1 to N: the messages sent last have the N different numbers.
        let back = (next + self.n - 1 - offset) % self.n + 1;
        // Early in the session, no message has had this number yet.
        next.checked_sub(back)
    }

    /// Number counted from 0, if it lies in the range.
    fn offset(self, wire: u32) -> Option<u64> {
        u64::from(wire).checked_sub(1).filter(|&offset| offset < self.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_run_from_one_to_n_and_wrap() {
        let numbers = WireNumbers::new(5);
        assert_eq!((0..7).map(|number| numbers.wire(number)).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 1, 2]);
        assert_eq!(numbers.near(0, 0), None);
        assert_eq!(numbers.near(6, 0), None);
        assert_eq!(numbers.before(6, 9), None);
    }

    #[test]
    fn sender_distinguishes_last_n_messages() {
        for n in 2..9 {
            let numbers = WireNumbers::new(n);
            for next in 0..30u64 {
                for number in next.saturating_sub(n)..next {
                    assert_eq!(numbers.before(numbers.wire(number), next), Some(number));
                }
            }
        }
        assert_eq!(WireNumbers::new(5).before(1, 0), None, "nothing was sent");
    }

    #[test]
    fn receiver_distinguishes_numbers_within_half_range() {
        for n in 2..12 {
            let numbers = WireNumbers::new(n);
            for expected in 0..30u64 {
                for number in expected.saturating_sub(n / 2)..expected + n.div_ceil(2) {
                    assert_eq!(numbers.near(numbers.wire(number), expected), Some(number));
                }
            }
        }
    }
}
