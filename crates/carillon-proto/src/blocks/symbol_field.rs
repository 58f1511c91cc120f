//! Finite fields over which symbols are coded.

use std::sync::LazyLock;

/// Finite field over which symbols are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolField {
    /// GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1: each byte is an element.
    Gf8,
    /// GF(2^16) modulo x^16 + x^12 + x^3 + x + 1: each pair of bytes is an element, low byte first, as deployed
    /// implementations on x86 have it. An odd last byte is followed by a zero.
    Gf16,
}

impl SymbolField {
    /// Maximum number of source and parity symbols of a block. GF(2^16) has points for 65 535; but the time to compute
    /// a symbol grows with their number.
    pub const fn max_symbols(self) -> usize {
        match self {
            SymbolField::Gf8 => 255,
            SymbolField::Gf16 => 1024,
        }
    }

    /// Number of elements except zero, which are the powers of the generator.
    pub(super) fn order(self) -> u32 {
        match self {
            SymbolField::Gf8 => 255,
            SymbolField::Gf16 => 65_535,
        }
    }

    /// Power of the generator, which is 2. The exponent is below [`SymbolField::order`].
    pub(super) fn power(self, exponent: u32) -> u16 {
        match self {
            SymbolField::Gf8 => EXP[exponent as usize].into(),
            SymbolField::Gf16 => WORDS.powers[exponent as usize],
        }
    }

    /// Exponent of an element that is not zero.
    pub(super) fn logarithm(self, element: u16) -> u32 {
        match self {
            SymbolField::Gf8 => LOG[usize::from(element as u8)].into(),
            SymbolField::Gf16 => WORDS.logarithms[usize::from(element)].into(),
        }
    }

    /// Adds `weight` times the bytes to the sum.
    pub(super) fn add(self, sum: &mut [u8], bytes: &[u8], weight: u16) {
        match self {
            SymbolField::Gf8 => add_bytes(sum, bytes, weight as u8),
            SymbolField::Gf16 => add_words(sum, bytes, weight),
        }
    }
}

fn add_bytes(sum: &mut [u8], bytes: &[u8], weight: u8) {
    let row = &PRODUCTS[usize::from(weight)];
    for (sum, &byte) in sum.iter_mut().zip(bytes) {
        *sum ^= row[usize::from(byte)];
    }
}

fn add_words(sum: &mut [u8], bytes: &[u8], weight: u16) {
    let [low, high] = products_of_words(weight);
    let product =
        |[first, second]: [u8; 2]| (low[usize::from(first)] ^ high[usize::from(second)]).to_le_bytes();
    let (pairs, last) = bytes.as_chunks::<2>();
    let (sums, rest) = sum.split_at_mut(sum.len().min(2 * pairs.len()));
    for (sum, &pair) in sums.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
        let [first, second] = product(pair);
        sum[0] ^= first;
        sum[1] ^= second;
    }
    if let &[first] = last {
        rest.iter_mut().zip(product([first, 0])).for_each(|(sum, byte)| *sum ^= byte);
    }
}

/// Products of `weight` and each low byte, and of `weight` and each high byte.
fn products_of_words(weight: u16) -> [[u16; 256]; 2] {
    let mut products = [[0; 256]; 2];
    let mut doubled = weight;
    for half in &mut products {
        for bit in 0..8 {
            // The products of numbers with this highest bit are those of the numbers without it, plus this one.
            for number in 0..1 << bit {
                half[1 << bit | number] = doubled ^ half[number];
            }
            doubled = double(doubled.into());
        }
    }
    products
}

/// Twice an element of GF(2^16).
fn double(element: u32) -> u16 {
    let doubled = element << 1;
    (if doubled > 0xffff { doubled ^ 0x1100b } else { doubled }) as u16
}

/// Powers of the generator 2 of GF(2^8).
const EXP: [u8; 255] = {
    let (mut powers, mut value, mut at) = ([0; 255], 1u16, 0);
    while at < 255 {
        powers[at] = value as u8;
        value <<= 1;
        if value > 255 {
            value ^= 0x11d;
        }
        at += 1;
    }
    powers
};

/// Exponents of the nonzero elements of GF(2^8).
const LOG: [u8; 256] = {
    let (mut exponents, mut at) = ([0; 256], 0);
    while at < 255 {
        exponents[EXP[at] as usize] = at as u8;
        at += 1;
    }
    exponents
};

/// Products of all pairs of elements of GF(2^8).
static PRODUCTS: [[u8; 256]; 256] = {
    let (mut products, mut a) = ([[0; 256]; 256], 1);
    while a < 256 {
        let mut b = 1;
        while b < 256 {
            products[a][b] = EXP[(LOG[a] as usize + LOG[b] as usize) % 255];
            b += 1;
        }
        a += 1;
    }
    products
};

/// Powers and exponents of GF(2^16), 256 KiB that only sessions with such blocks need.
struct Words {
    powers: Vec<u16>,
    logarithms: Vec<u16>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let mut logarithms = vec![0; 1 << 16];
    let powers: Vec<u16> =
        std::iter::successors(Some(1), |&power: &u16| Some(double(power.into()))).take(65_535).collect();
    for (exponent, &power) in (0..=u16::MAX).zip(&powers) {
        logarithms[usize::from(power)] = exponent;
    }
    Words { powers, logarithms }
});

#[cfg(test)]
mod tests {
    use super::*;

    /// Product by the definition: shifts and the field polynomial.
    fn product(mut a: u32, mut b: u32, (bits, polynomial): (u32, u32)) -> u32 {
        let mut product = 0;
        while b > 0 {
            product ^= if b & 1 == 1 { a } else { 0 };
            a <<= 1;
            a ^= if a >> bits == 1 { polynomial } else { 0 };
            b >>= 1;
        }
        product
    }

    #[test]
    fn products_are_those_of_the_definition() {
        let elements = (0..65_536).step_by(257).chain([1, 2, 255, 256, 65_535]);
        for a in elements.clone() {
            for b in [0, 1, 2, 3, 0x1d, 0xff, 0x100, 0x1234, 0x8000, 0xffff] {
                let (first, second) = (a as u8, b as u8);
                let mut sum = [0x55, 1];
                SymbolField::Gf8.add(&mut sum, &[first, 0], second.into());
                let expected = product(first.into(), second.into(), (8, 0x11d)) as u8;
                assert_eq!(sum, [0x55 ^ expected, 1], "{first} x {second}");
                let mut sum = [1, 2, 3];
                SymbolField::Gf16.add(&mut sum, &(a as u16).to_le_bytes(), b as u16);
                let [low, high] = (product(a, b, (16, 0x1100b)) as u16).to_le_bytes();
                assert_eq!(sum, [1 ^ low, 2 ^ high, 3], "{a} x {b}");
            }
        }
        for field in [SymbolField::Gf8, SymbolField::Gf16] {
            for exponent in (0..field.order()).step_by(17) {
                assert_eq!(field.logarithm(field.power(exponent)), exponent);
            }
        }
    }

    #[test]
    fn odd_symbols_count_as_padded() {
        for (length, room) in [(1, 1), (1, 2), (3, 4), (5, 5), (5, 3)] {
            let bytes = [7; 5];
            let (mut short, mut padded) = (vec![0; room], vec![0; 6]);
            SymbolField::Gf16.add(&mut short, &bytes[..length], 0x1234);
            let mut whole = [0; 6];
            whole[..length].copy_from_slice(&bytes[..length]);
            SymbolField::Gf16.add(&mut padded, &whole, 0x1234);
            let same = room.min(length.next_multiple_of(2));
            assert_eq!(short[..same - same % 2], padded[..same - same % 2], "{length} bytes into {room}");
        }
    }
}
