//! Reed-Solomon code for raw symbols, as deployed implementations of RFC 5510 have it.
//!
//! The source symbols of a block are the values of a polynomial at the points 0, 1, a, a^2, …, and parity symbols are
//! its values at further points (Rizzo 1997). Any symbols as many as the block has sources determine the polynomial,
//! hence all others, by Lagrange interpolation. The matrix in RFC 5510 has other points, which no implementation uses.
//!
//! Framing is the caller's: symbols shorter than the block's size count as padded with zeros.

use super::SymbolField;

/// Symbol of a block: its index and its bytes.
pub type Symbol<'a> = (u16, &'a [u8]);

/// Maximum number of source and parity symbols of a block over GF(2^8).
pub const MAX_SYMBOLS: usize = SymbolField::Gf8.max_symbols();

/// Polynomial through as many symbols of a block as it has sources.
#[derive(Debug)]
pub struct Interpolation<'a> {
    field: SymbolField,
    known: &'a [Symbol<'a>],
    points: Vec<u16>,
    /// Logarithm of the product of the differences between each point and all others.
    below: Vec<u32>,
}

impl<'a> Interpolation<'a> {
    /// Polynomial through these symbols. They must have different indices.
    pub fn new(field: SymbolField, known: &'a [Symbol<'a>]) -> Self {
        let points: Vec<u16> = known.iter().map(|&(index, _)| point(field, index)).collect();
        let below = |&own: &u16| {
            let others = points.iter().filter(|&&other| other != own);
            // Logarithms are below 2^16, and there are at most 2^10 of them in each sum.
            others.map(|&other| field.logarithm(own ^ other)).sum::<u32>() % field.order()
        };
        Interpolation { field, known, below: points.iter().map(below).collect(), points }
    }

    /// Computes the symbol with this index, `size` bytes long. A known one is copied.
    pub fn symbol(&self, index: u16, size: usize) -> Vec<u8> {
        let (field, at) = (self.field, point(self.field, index));
        let mut sum = vec![0; size];
        if let Some(place) = self.points.iter().position(|&point| point == at) {
            sum.iter_mut().zip(self.known[place].1).for_each(|(sum, &byte)| *sum = byte);
            return sum;
        }
        let order = field.order();
        let above = self.points.iter().map(|&point| field.logarithm(at ^ point)).sum::<u32>() % order;
        for ((&(_, bytes), &point), below) in self.known.iter().zip(&self.points).zip(&self.below) {
            // Weight of the value at this point (Lagrange's basis polynomial).
            let exponent = above + 2 * order - field.logarithm(at ^ point) - below;
            if !bytes.is_empty() {
                field.add(&mut sum, bytes, field.power(exponent % order));
            }
        }
        sum
    }
}

/// Computes the symbol of a block over GF(2^8) with this index, `size` bytes long, from as many others as the block has
/// sources. `known` must name different indices; if the index is among them, its symbol is copied.
pub fn symbol(known: &[Symbol<'_>], index: u16, size: usize) -> Vec<u8> {
    Interpolation::new(SymbolField::Gf8, known).symbol(index, size)
}

/// Point of the symbol with this index: 0 for the first, then the powers of the generator.
fn point(field: SymbolField, index: u16) -> u16 {
    match index {
        0 => 0,
        _ => field.power((u32::from(index) - 1) % field.order()),
    }
}

#[cfg(test)]
mod tests {
    use carillon_core::Seeds;

    use super::*;

    /// Parity of three symbols as Rizzo's program computes it: by hand from the Vandermonde matrix at 0, 1 and 2.
    #[test]
    fn parity_equals_the_value_of_the_polynomial() {
        // The polynomial 5 + 3x + x^2 at 0, 1 and 2, and at 4, the next point.
        let value = |x: u8| {
            let product = |a: u8, b: u8| {
                let mut product = [0];
                SymbolField::Gf8.add(&mut product, &[a], b.into());
                product[0]
            };
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
        for round in 0..200 {
            let field = if round % 2 == 0 { SymbolField::Gf8 } else { SymbolField::Gf16 };
            let total = if round == 1 { field.max_symbols() as u16 } else { 255 };
            let length = 1 + rng.below(60) as usize;
            // Symbols over GF(2^16) have an even size.
            let size = 2 + 2 * rng.below(10) as usize;
            let sources: Vec<Vec<u8>> = (0..length)
                // Shorter symbols count as padded.
                .map(|_| (0..rng.below(size as u64 + 1)).map(|_| rng.below(256) as u8).collect())
                .collect();
            let known: Vec<Symbol<'_>> = (0..).zip(sources.iter().map(|symbol| &symbol[..])).collect();
            let code = Interpolation::new(field, &known);
            let mut indices: Vec<u16> = (0..total).collect();
            while indices.len() > length {
                indices.swap_remove(rng.below(indices.len() as u64) as usize);
            }
            let all: Vec<Vec<u8>> = indices.iter().map(|&index| code.symbol(index, size)).collect();
            let some: Vec<Symbol<'_>> =
                indices.iter().copied().zip(all.iter().map(|symbol| &symbol[..])).collect();
            let other = Interpolation::new(field, &some);
            for index in [0, length as u16 - 1, total - 1, rng.below(total.into()) as u16] {
                assert_eq!(other.symbol(index, size), code.symbol(index, size), "{field:?}");
            }
        }
    }

    /// Block of 16 source symbols with its parity, as another implementation sent it.
    #[test]
    fn recorded_parity_is_recomputed() {
        let recorded = include_str!("../../tests/vectors/norm-block.txt");
        let lines = recorded.lines().filter(|line| !line.starts_with('#'));
        let symbols: Vec<(u16, Vec<u8>)> = lines
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
