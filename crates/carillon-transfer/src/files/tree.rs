//! Incremental BLAKE3 of a file with the chaining values of its subtrees.

use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};
use carillon_wire::file::SUBTREE_BYTES;

/// Hashes a file from its beginning. Each [`SUBTREE_BYTES`] are a subtree. Its chaining value (32 bytes) is kept
/// and can be compared before the rest has arrived.
#[derive(Debug, Default)]
pub struct Tree {
    /// Hasher of the last subtree, complete or not.
    hasher: blake3::Hasher,
    /// Chaining values of the preceding subtrees.
    values: Vec<ChainingValue>,
}

impl Tree {
    /// Adds bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.hasher.count() == SUBTREE_BYTES {
                self.values.push(self.hasher.finalize_non_root());
                // Resetting the hasher keeps its offset, so a new one is created.
                self.hasher = blake3::Hasher::new();
                self.hasher.set_input_offset(self.values.len() as u64 * SUBTREE_BYTES);
            }
            let room = SUBTREE_BYTES - self.hasher.count();
            let (first, rest) = bytes.split_at(room.min(bytes.len() as u64) as usize);
            self.hasher.update(first);
            bytes = rest;
        }
    }

    /// Adds a subtree by its chaining value, at a multiple of [`SUBTREE_BYTES`]. The digest of a file that consists of
    /// a single such subtree cannot be computed.
    pub fn skip(&mut self, value: ChainingValue) {
        if self.hasher.count() == SUBTREE_BYTES {
            self.values.push(self.hasher.finalize_non_root());
        }
        self.values.push(value);
        self.hasher = blake3::Hasher::new();
        self.hasher.set_input_offset(self.values.len() as u64 * SUBTREE_BYTES);
    }

    /// Number of bytes so far.
    pub fn count(&self) -> u64 {
        self.values.len() as u64 * SUBTREE_BYTES + self.hasher.count()
    }

    /// Chaining value of the complete subtree that ends at this offset, if any.
    pub fn value(&self, end: u64) -> Option<ChainingValue> {
        let at = (end.is_multiple_of(SUBTREE_BYTES) && end > 0).then(|| end / SUBTREE_BYTES - 1)?;
        let last = end == self.count();
        let value = self.values.get(usize::try_from(at).ok()?).copied();
        value.or_else(|| last.then(|| self.hasher.finalize_non_root()))
    }

    /// Digest of all bytes so far.
    pub fn finalize(&self) -> blake3::Hash {
        if self.values.is_empty() {
            return self.hasher.finalize();
        }
        let mut values = self.values.clone();
        if self.hasher.count() > 0 {
            values.push(self.hasher.finalize_non_root());
        }
        let &[_, _, ..] = &values[..] else {
            return values.first().map_or_else(|| self.hasher.finalize(), |only| (*only).into());
        };
        let (left, right) = halves(&values);
        merge_subtrees_root(&merged(left), &merged(right), Mode::Hash)
    }

    /// Resets the tree for another file.
    pub fn reset(&mut self) {
        self.values.clear();
        self.hasher = blake3::Hasher::new();
    }
}

/// Chaining value of the parent of these subtrees, in order.
fn merged(values: &[ChainingValue]) -> ChainingValue {
    match values {
        [value] => *value,
        _ => {
            // BLAKE3, section 2.1: the parent of two complete subtrees.
            let (left, right) = halves(values);
            merge_subtrees_non_root(&merged(left), &merged(right), Mode::Hash)
        }
    }
}

/// Splits the subtrees: the tree is left-balanced, so the left half has the largest power of two that leaves a rest.
fn halves(values: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    values.split_at(values.len().next_power_of_two() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_yields_the_digest_and_every_subtree_value() {
        const SUBTREE: usize = SUBTREE_BYTES as usize;
        let bytes: Vec<u8> = (0..5 * SUBTREE + 4097)
            .map(|at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0])
            .collect();
        let mut tree = Tree::default();
        for len in
            [0, 1, SUBTREE - 1, SUBTREE, SUBTREE + 1, 2 * SUBTREE, 3 * SUBTREE + 7, 4 * SUBTREE, bytes.len()]
        {
            tree.reset();
            for piece in bytes[..len].chunks(1_000_003) {
                tree.update(piece);
            }
            assert_eq!((tree.count(), tree.finalize()), (len as u64, blake3::hash(&bytes[..len])));
            let values: Vec<_> = (0..8).map(|at| tree.value(at * SUBTREE_BYTES)).collect();
            for (at, value) in values.iter().enumerate() {
                let expected = (1..=len / SUBTREE).contains(&at).then(|| {
                    let mut alone = blake3::Hasher::new();
                    alone.set_input_offset((at as u64 - 1) * SUBTREE_BYTES);
                    alone.update(&bytes[(at - 1) * SUBTREE..at * SUBTREE]).finalize_non_root()
                });
                assert_eq!(*value, expected, "{at} of {len}");
            }
            assert_eq!(tree.value(SUBTREE_BYTES - 1), None);
            // Known subtrees need not be hashed.
            let mut known = Tree::default();
            for (at, part) in bytes[..len].chunks(SUBTREE).enumerate() {
                match values[at + 1].filter(|_| at % 2 == 1) {
                    Some(value) => known.skip(value),
                    None => known.update(part),
                }
            }
            assert_eq!((known.count(), known.finalize()), (tree.count(), tree.finalize()), "{len}");
            assert!((0..8).all(|at| known.value(at * SUBTREE_BYTES) == tree.value(at * SUBTREE_BYTES)));
        }
    }
}
