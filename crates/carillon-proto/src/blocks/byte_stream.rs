//! What a receiver has of a stream of bytes: everything before one of them, and pieces beyond it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

/// The pieces of a stream from the first missing byte on, whatever their edges: what was there already is cut off a piece
/// that comes again in other bounds.
///
/// How far ahead a piece may lie is the caller's to check before it is inserted, and bounds the bytes; how many pieces
/// are kept is bounded here.
#[derive(Clone, Debug)]
pub struct ByteStream<T> {
    next: u64,
    most: usize,
    held: BTreeMap<u64, Piece<T>>,
    /// In order, and not taken yet.
    ready: VecDeque<Piece<T>>,
}

/// Bytes of the stream, and what goes with the last of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<T> {
    /// The bytes.
    pub bytes: Bytes,
    /// What goes with the last one.
    pub mark: Option<T>,
}

impl<T: Clone> ByteStream<T> {
    /// From byte 0 on; at most so many pieces lie beyond a gap.
    pub fn new(most: usize) -> Self {
        ByteStream { next: 0, most, held: BTreeMap::new(), ready: VecDeque::new() }
    }

    /// The stream begins with this byte. Of use before anything has come.
    pub fn start_at(&mut self, next: u64) {
        self.next = next;
    }

    /// Bytes came, of which the first has this number; returns whether any of them is new and was kept.
    pub fn insert(&mut self, mut at: u64, mut bytes: Bytes, mark: Option<T>) -> bool {
        let Some(end) = at.checked_add(bytes.len() as u64) else { return false };
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
            // As most comes.
            self.next = end;
            self.ready.push_back(Piece { bytes, mark });
            return true;
        }
        let mut kept = false;
        // Between those that are there already.
        while let Some((left, right)) =
            self.held.range(at..end).next().map(|(l, piece)| (*l, l + piece.len()))
        {
            if left > at {
                kept |= self.hold(at, bytes.slice(..(left - at) as usize), None);
            }
            if right >= end {
                self.advance();
                return kept;
            }
            bytes = bytes.slice((right - at) as usize..);
            at = right;
        }
        kept |= self.hold(at, bytes, mark);
        self.advance();
        kept
    }

    fn hold(&mut self, at: u64, bytes: Bytes, mark: Option<T>) -> bool {
        // The first missing one always has its place.
        let fits = at == self.next || self.held.len() < self.most;
        if fits {
            self.held.insert(at, Piece { bytes, mark });
        }
        fits
    }

    /// What has come to be in order.
    fn advance(&mut self) {
        while let Some(piece) = self.held.remove(&self.next) {
            self.next += piece.len();
            self.ready.push_back(piece);
        }
    }

    /// Takes the next piece in order.
    pub fn pop(&mut self) -> Option<Piece<T>> {
        self.ready.pop_front()
    }

    /// The first byte it lacks.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// One past the last byte that is there.
    pub fn end(&self) -> u64 {
        self.held.last_key_value().map_or(self.next, |(left, piece)| left + piece.len())
    }

    /// Ranges that are there beyond it, each from its first byte to one past its last, ascending.
    pub fn spans(&self) -> Vec<(u64, u64)> {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for (&left, piece) in &self.held {
            let right = left + piece.len();
            match spans.last_mut() {
                Some(last) if last.1 == left => last.1 = right,
                _ => spans.push((left, right)),
            }
        }
        spans
    }

    /// Whether something lies beyond a gap.
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
    fn it_agrees_with_a_map_of_bytes_whatever_the_pieces_are() {
        let mut rng = carillon_core::Seeds::new(1).stream("byte-stream");
        let content = |at: u64| (at * 7 % 251) as u8;
        let mut stream = ByteStream::new(1000);
        stream.start_at(5);
        let (mut have, mut next, mut taken) = (std::collections::BTreeSet::new(), 5, 5);
        for _ in 0..20_000 {
            let at = (next + rng.below(60)).saturating_sub(10);
            let len = rng.below(20);
            let bytes: Vec<u8> = (at..at + len).map(content).collect();
            // A message ends with each byte whose number is divisible by 16.
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
            assert_eq!(stream.spans(), spans);
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
    fn no_more_pieces_are_kept_than_were_agreed_and_the_missing_one_always_is() {
        let mut stream: ByteStream<()> = ByteStream::new(3);
        for at in [10, 20, 30, 40, 50] {
            assert_eq!(stream.insert(at, Bytes::from_static(b"x"), None), at < 40);
        }
        assert_eq!(stream.spans(), [(10, 11), (20, 21), (30, 31)]);
        assert!(stream.insert(0, Bytes::from_static(b"0123456789"), None));
        assert_eq!((stream.next(), stream.spans()), (11, vec![(20, 21), (30, 31)]));
        assert!(!stream.insert(u64::MAX, Bytes::from_static(b"xy"), None), "beyond the end of numbers");
    }
}
