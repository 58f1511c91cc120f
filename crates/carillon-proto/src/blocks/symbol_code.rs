//! Reed-Solomon code over GF(2^8) for raw symbols, as deployed implementations of RFC 5510 have it.
//!
//! The source symbols of a block are the values of a polynomial at the points 0, 1, a, a^2, …, and parity symbols are
//! its values at further points (Rizzo 1997, with the field polynomial 0x11d). Any symbols as many as the block has
//! sources determine the polynomial, hence all others, by Lagrange interpolation. The matrix in RFC 5510 has other
//! points, which no implementation uses.
//!
//! Framing is the caller's: symbols shorter than the block's size count as padded with zeros.

/// Symbol of a block: its index and its bytes.
pub type Symbol<'a> = (u8, &'a [u8]);

/// Maximum number of source and parity symbols of a block.
pub const MAX_SYMBOLS: usize = 255;

/// Computes the symbol with this index, `size` bytes long, from as many others as the block has sources. `known` must
/// name different indices; if the index is among them, its symbol is copied.
pub fn symbol(known: &[Symbol<'_>], index: u8, size: usize) -> Vec<u8> {
    let points: Vec<u8> = known.iter().map(|&(index, _)| point(index)).collect();
    let mut sum = vec![0; size];
    for ((_, bytes), weight) in known.iter().zip(weights(&points, point(index))) {
        add(&mut sum, bytes, weight);
    }
    sum
}

/// Weights of the values at `points` in the value at `at` (Lagrange's basis polynomials).
fn weights(points: &[u8], at: u8) -> Vec<u8> {
    let weight = |(place, &own): (usize, &u8)| {
        let others = points.iter().enumerate().filter(|&(other, _)| other != place).map(|(_, &x)| x);
        // Logarithms are below 255, and there are at most 255 of them in each sum.
        let (mut above, mut below) = (0u32, 0u32);
        for other in others {
            if at == other {
                return 0;
            }
            above += u32::from(LOG[usize::from(at ^ other)]);
            below += u32::from(LOG[usize::from(own ^ other)]);
        }
        EXP[((above + 255 * 256 - below) % 255) as usize]
    };
    points.iter().enumerate().map(weight).collect()
}

/// Adds `weight` times the bytes to the sum.
fn add(sum: &mut [u8], bytes: &[u8], weight: u8) {
    let row = &PRODUCTS[usize::from(weight)];
    for (sum, &byte) in sum.iter_mut().zip(bytes) {
        *sum ^= row[usize::from(byte)];
    }
}

/// Point of the symbol with this index: 0 for the first, then the powers of the generator.
fn point(index: u8) -> u8 {
    match index {
        0 => 0,
        _ => EXP[usize::from(index) - 1],
    }
}

/// Powers of the generator 2 of GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1.
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

/// Exponents of the nonzero elements.
const LOG: [u8; 256] = {
    let (mut exponents, mut at) = ([0; 256], 0);
    while at < 255 {
        exponents[EXP[at] as usize] = at as u8;
        at += 1;
    }
    exponents
};

/// Products of all pairs of elements.
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

#[cfg(test)]
mod tests {
    use carillon_core::Seeds;

    use super::*;

    /// Parity of three symbols as Rizzo's program computes it: by hand from the Vandermonde matrix at 0, 1 and 2.
    #[test]
    fn parity_equals_the_value_of_the_polynomial() {
        // The polynomial 5 + 3x + x^2 at 0, 1 and 2, and at 4, the next point.
        let value = |x: u8| {
            let product = |a: u8, b: u8| PRODUCTS[usize::from(a)][usize::from(b)];
            5 ^ product(3, x) ^ product(x, x)
        };
        let sources: Vec<[u8; 1]> = [0, 1, 2].map(|x| [value(x)]).into();
        let known: Vec<Symbol<'_>> = (0..).zip(sources.iter().map(|symbol| &symbol[..])).collect();
        assert_eq!(symbol(&known, 3, 1), [value(4)]);
        assert_eq!(symbol(&known, 4, 1), [value(8)]);
    }

    #[test]
    fn any_symbols_as_many_as_sources_give_all_others() {
        let mut rng = Seeds::new(1).stream("symbol-code");
        for _ in 0..200 {
            let length = 1 + rng.below(60) as usize;
            let size = 1 + rng.below(20) as usize;
            let sources: Vec<Vec<u8>> = (0..length)
                // Shorter symbols count as padded.
                .map(|_| (0..1 + rng.below(size as u64)).map(|_| rng.below(256) as u8).collect())
                .collect();
            let known: Vec<Symbol<'_>> = (0..).zip(sources.iter().map(|symbol| &symbol[..])).collect();
            let all: Vec<Vec<u8>> = (0..MAX_SYMBOLS as u8).map(|index| symbol(&known, index, size)).collect();
            let mut indices: Vec<u8> = (0..MAX_SYMBOLS as u8).collect();
            while indices.len() > length {
                indices.swap_remove(rng.below(indices.len() as u64) as usize);
            }
            let some: Vec<Symbol<'_>> =
                indices.iter().map(|&index| (index, &all[usize::from(index)][..])).collect();
            for index in [0, length as u8 - 1, 254] {
                assert_eq!(symbol(&some, index, size), all[usize::from(index)]);
            }
        }
    }

    /// Block of 16 source symbols with its parity, as another implementation sent it.
    #[test]
    fn recorded_parity_is_recomputed() {
        let recorded = include_str!("../../tests/vectors/norm-block.txt");
        let lines = recorded.lines().filter(|line| !line.starts_with('#'));
        let symbols: Vec<(u8, Vec<u8>)> = lines
            .map(|line| {
                let (index, hex) = line.split_once(' ').expect("an index and digits");
                let digits = hex.as_bytes().chunks_exact(2);
                let bytes = digits.map(|pair| {
                    u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("a byte")
                });
                (index.parse().expect("an index"), bytes.collect())
            })
            .collect();
        let known: Vec<Symbol<'_>> =
            symbols.iter().take(16).map(|(index, bytes)| (*index, &bytes[..])).collect();
        assert!(symbols.len() > 16);
        for (index, parity) in &symbols[16..] {
            assert_eq!(symbol(&known, *index, parity.len()), *parity, "symbol {index}");
        }
    }
}
