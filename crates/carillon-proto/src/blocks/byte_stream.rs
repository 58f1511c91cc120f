//! Reassembly of a byte stream from pieces with arbitrary bounds.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

/// Pieces of a stream from the first missing byte on. Bytes that arrive again in other bounds are cut off.
///
/// The caller bounds how far ahead a piece may lie, and thereby the bytes kept. This type bounds the number of
/// pieces.
#[derive(Clone, Debug)]
pub struct ByteStream<T> {
    /// Position of the first missing byte.
    next: u64,
    /// Maximum number of pieces kept beyond a gap.
    most: usize,
    /// Pieces beyond the first missing byte, by position. They do not overlap.
    held: BTreeMap<u64, Piece<T>>,
    /// Ranges that these pieces cover, each with its exclusive end. Adjacent pieces form one range.
    spans: BTreeMap<u64, u64>,
    /// Pieces in order that were not taken yet.
    ready: VecDeque<Piece<T>>,
}

/// Bytes of the stream, and a mark that belongs to the last of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<T> {
    /// Bytes of the piece.
    pub bytes: Bytes,
    /// Mark of the last byte.
    pub mark: Option<T>,
}

impl<T: Clone> ByteStream<T> {
    /// Creates a stream from byte 0. At most `most` pieces are kept beyond a gap.
    pub fn new(most: usize) -> Self {
        ByteStream { next: 0, most, held: BTreeMap::new(), spans: BTreeMap::new(), ready: VecDeque::new() }
    }

    /// Sets the first byte of the stream. Call this before the first piece.
    pub fn start_at(&mut self, next: u64) {
        self.next = next;
    }

    /// Adds bytes from position `at`. Returns true if some were new and kept.
    pub fn insert(&mut self, mut at: u64, mut bytes: Bytes, mark: Option<T>) -> bool {
        // A forged position near the end of the range would overflow.
        let Some(end) = at.checked_add(bytes.len() as u64) else { return false };
        // Cut off the bytes that are present already: those in order, and those of the piece before.
        let covered = self.held.range(..=at).next_back().map_or(0, |(left, piece)| left + piece.len());
        let have = self.next.max(covered);
        if end <= have || bytes.is_empty() {
            return false;
        }
        if have > at {
            bytes = bytes.slice((have - at) as usize..);
            at = have;
        }
        if at == self.next && self.held.is_empty() {
            // Fast path: the piece is next in order.
            self.next = end;
            self.ready.push_back(Piece { bytes, mark });
            return true;
        }
        let mut kept = false;
        // Fill the gaps between the pieces that are present.
        while let Some((left, right)) =
            self.held.range(at..end).next().map(|(l, piece)| (*l, l + piece.len()))
        {
            if left > at {
                // The mark belongs to the last byte, which lies in a later part.
                kept |= self.hold(at, bytes.slice(..(left - at) as usize), None);
            }
            // The present piece covers the rest.
            if right >= end {
                self.advance();
                return kept;
            }
            bytes = bytes.slice((right - at) as usize..);
            at = right;
        }
        // The rest lies behind all present pieces that overlap, and ends with the marked byte.
        kept |= self.hold(at, bytes, mark);
        self.advance();
        kept
    }

    fn hold(&mut self, at: u64, bytes: Bytes, mark: Option<T>) -> bool {
        // A piece at the first missing byte is always kept, or the stream could stall.
        let fits = at == self.next || self.held.len() < self.most;
        if fits {
            self.cover(at, at + bytes.len() as u64);
            self.held.insert(at, Piece { bytes, mark });
        }
        fits
    }

    /// Adds the range of a piece, and joins it with the ranges next to it.
    fn cover(&mut self, left: u64, right: u64) {
        let right = self.spans.remove(&right).unwrap_or(right);
        match self.spans.range_mut(..left).next_back() {
            Some((_, end)) if *end == left => *end = right,
            _ => drop(self.spans.insert(left, right)),
        }
    }

    /// Moves the pieces that are now in order to the ready queue.
    fn advance(&mut self) {
        // All adjacent pieces move, and thereby one whole range.
        self.spans.remove(&self.next);
        while let Some(piece) = self.held.remove(&self.next) {
            self.next += piece.len();
            self.ready.push_back(piece);
        }
    }

    /// Takes the next piece in order.
    pub fn pop(&mut self) -> Option<Piece<T>> {
        self.ready.pop_front()
    }

    /// Position of the first missing byte.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Position after the last byte present.
    pub fn end(&self) -> u64 {
        self.held.last_key_value().map_or(self.next, |(left, piece)| left + piece.len())
    }

    /// Ranges present beyond the first missing byte, ascending, each with its exclusive end.
    pub fn spans(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.spans.iter().map(|(&left, &right)| (left, right))
    }

    /// Returns true if pieces are kept beyond a gap.
    pub fn has_gap(&self) -> bool {
        !self.held.is_empty()
    }
}

impl<T> Piece<T> {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_agrees_with_map_for_any_pieces() {
        let mut rng = carillon_core::Seeds::new(1).stream("byte-stream");
        let content = |at: u64| (at * 7 % 251) as u8;
        let mut stream = ByteStream::new(1000);
        stream.start_at(5);
        let (mut have, mut next, mut taken) = (std::collections::BTreeSet::new(), 5, 5);
        for _ in 0..20_000 {
            let at = (next + rng.below(60)).saturating_sub(10);
            let len = rng.below(20);
            let bytes: Vec<u8> = (at..at + len).map(content).collect();
            // A message ends after each byte at a position divisible by 16.
            let mark = (len > 0 && (at + len).is_multiple_of(16)).then_some(());
            let new: Vec<u64> = (at..at + len).filter(|byte| *byte >= next && !have.contains(byte)).collect();
            assert_eq!(stream.insert(at, bytes.into(), mark), !new.is_empty());
            have.extend(new);
            while have.remove(&next) {
                next += 1;
            }
            assert_eq!((stream.next(), stream.has_gap()), (next, !have.is_empty()));
            assert_eq!(stream.end(), have.last().map_or(next, |last| last + 1));
            let mut spans: Vec<(u64, u64)> = Vec::new();
            for &byte in &have {
                match spans.last_mut() {
                    Some(last) if last.1 == byte => last.1 += 1,
                    _ => spans.push((byte, byte + 1)),
                }
            }
            assert!(stream.spans().eq(spans));
            while let Some(piece) = stream.pop() {
                assert!(piece.bytes.iter().all(|&byte| {
                    taken += 1;
                    byte == content(taken - 1)
                }));
                assert!(piece.mark.is_none() || taken % 16 == 0, "a mark stays with its byte");
            }
            assert_eq!(taken, next);
        }
        assert!(next > 10_000);
    }

    #[test]
    fn kept_pieces_are_bounded_except_first_missing() {
        let mut stream: ByteStream<()> = ByteStream::new(3);
        for at in [10, 20, 30, 40, 50] {
            assert_eq!(stream.insert(at, Bytes::from_static(b"x"), None), at < 40);
        }
        assert!(stream.spans().eq([(10, 11), (20, 21), (30, 31)]));
        assert!(stream.insert(0, Bytes::from_static(b"0123456789"), None));
        assert!(stream.next() == 11 && stream.spans().eq([(20, 21), (30, 31)]));
        assert!(!stream.insert(u64::MAX, Bytes::from_static(b"xy"), None), "beyond the end of numbers");
    }
}
