//! Set of polled children, in the shorter of two codes.

use std::fmt;

use crate::ParseError;

/// Set of 32-bit numbers that name children, in the shorter of two codes.
///
/// ```text
/// 0 | first, then each gap to the next less one          numbers of 7 bits a byte, the low ones first
/// 1 | first | a bit for each number from the first on    which is the lowest bit of the first byte
/// ```
///
/// The first code suits children with random names, or few of many; the second one suits numbers that lie together
/// and takes a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildSet<'a>(&'a [u8]);

impl<'a> ChildSet<'a> {
    /// Parses a set from all of these bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let set = ChildSet(bytes);
        let mut numbers = set.iter();
        let bad = |value| Err(ParseError::Field { field: "children", value });
        match bytes.first() {
            None => Ok(set),
            Some(&LIST) => {
                // The list is valid if every number in it can be read.
                while numbers.next().is_some() {}
                if numbers.rest.is_empty() && !numbers.wrong { Ok(set) } else { bad(u64::from(LIST)) }
            }
            Some(&BITS) => match number(&bytes[1..]) {
                // No number may exceed 32 bits.
                Some((first, rest)) if first + 8 * rest.len() as u64 <= 1 << 32 => Ok(set),
                _ => bad(u64::from(BITS)),
            },
            Some(&other) => bad(other.into()),
        }
    }

    /// Encodes ascending numbers into `buf`, which is cleared first.
    pub fn encode(numbers: &[u32], buf: &'a mut Vec<u8>) -> Self {
        buf.clear();
        let Some((&first, &last)) = numbers.first().zip(numbers.last()) else { return ChildSet(&[]) };
        // First try the list of gaps; its length depends on the numbers.
        buf.push(LIST);
        let mut next = 0;
        for &number in numbers {
            push(u64::from(number) - next, buf);
            next = u64::from(number) + 1;
        }
        let list = buf.len();
        // Then the bit map, if it can be shorter: its length depends on the range only.
        let bits = (u64::from(last - first) / 8 + 1) as usize;
        if bits + 1 < list {
            let mut shorter = vec![BITS];
            push(first.into(), &mut shorter);
            let start = shorter.len();
            // The map must be strictly shorter and must not pass the end of the numbers.
            if start + bits < list && u64::from(first) + 8 * bits as u64 <= 1 << 32 {
                shorter.resize(start + bits, 0);
                for &number in numbers {
                    let at = (number - first) as usize;
                    shorter[start + at / 8] |= 1 << (at % 8);
                }
                *buf = shorter;
            }
        }
        ChildSet(buf)
    }

    /// Returns true if a child is in the set.
    pub fn contains(self, child: u32) -> bool {
        match self.0.first() {
            Some(&BITS) => {
                let Some((first, bits)) = number(&self.0[1..]) else { return false };
                let Some(at) = u64::from(child).checked_sub(first) else { return false };
                bits.get((at / 8) as usize).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
            }
            // The list ascends, so the search ends at the first number that is not below the child.
            _ => self.iter().find(|&number| number >= child) == Some(child),
        }
    }

    /// Numbers in ascending order.
    pub fn iter(self) -> Children<'a> {
        let rest = self.0.get(1..).unwrap_or_default();
        if self.0.first() == Some(&BITS)
            && let Some((next, bits)) = number(rest)
        {
            return Children { bits: true, next, at: 0, rest: bits, wrong: false };
        }
        Children { bits: false, next: 0, at: 0, rest, wrong: false }
    }

    /// Encoded set.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Iterator over the numbers of a [`ChildSet`].
#[derive(Clone, Debug)]
pub struct Children<'a> {
    bits: bool,
    next: u64,
    at: usize,
    rest: &'a [u8],
    wrong: bool,
}

impl Iterator for Children<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.bits {
            while self.at < 8 * self.rest.len() {
                let at = self.at;
                self.at += 1;
                if self.rest[at / 8] >> (at % 8) & 1 == 1 {
                    return u32::try_from(self.next + at as u64).ok();
                }
            }
            return None;
        }
        if self.rest.is_empty() {
            return None;
        }
        let read =
            number(self.rest).and_then(|(gap, rest)| Some((u32::try_from(self.next + gap).ok()?, rest)));
        let Some((number, rest)) = read else {
            // A gap beyond 32 bits or a truncated number ends the list.
            self.wrong = true;
            return None;
        };
        self.rest = rest;
        self.next = u64::from(number) + 1;
        Some(number)
    }
}

impl fmt::Display for ChildSet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.0.first() == Some(&BITS) { "bits " } else { "" };
        write!(f, "{{{bits}")?;
        for (index, number) in self.iter().enumerate() {
            write!(f, "{}{number:x}", if index > 0 { " " } else { "" })?;
        }
        write!(f, "}}")
    }
}

/// Reads a number of at most 33 bits, 7 bits a byte.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

fn push(mut value: u64, buf: &mut Vec<u8>) {
    while value >= 0x80 {
        buf.push(value as u8 | 0x80);
        value >>= 7;
    }
    buf.push(value as u8);
}

const LIST: u8 = 0;
const BITS: u8 = 1;
