//! Fuzzed bytes read as decisions, from which generators of packets and settings draw.

use carillon_core::AssociationId;

/// Bytes taken from the front, then zeros without end, so that every input is valid.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Input of all decisions in these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Input { rest: bytes }
    }

    /// Next byte.
    pub fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((&byte, rest)) => {
                self.rest = rest;
                byte
            }
            None => 0,
        }
    }

    /// Next four bytes as a number, in network byte order.
    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// Next eight bytes as a number, in network byte order.
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) << 32 | u64::from(self.u32())
    }

    /// Number below `bound`, which is 1 to 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// Random element of these values.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Up to `len` of the next bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        head
    }

    /// The right association in 255 of 256 cases, a wrong one otherwise.
    pub fn association(&mut self, right: AssociationId) -> AssociationId {
        match self.byte() {
            255 => AssociationId(right.0 ^ 1),
            _ => right,
        }
    }

    /// Returns true if the input is used up.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}
