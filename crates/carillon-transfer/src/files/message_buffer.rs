//! Buffers for reading: a queue of bytes, and scratch memory.

use std::ops::{Deref, DerefMut};

/// A byte queue with stable memory, so that free space is not cleared again before each read.
#[derive(Debug, Default)]
pub struct MessageBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl MessageBuffer {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Returns space for `len` more bytes with unspecified contents; the caller reports the bytes written with
    /// [`fill`](Self::fill).
    pub fn free(&mut self, len: usize) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.bytes.len() < self.end + len {
            self.bytes.resize(self.end + len, 0);
        }
        &mut self.bytes[self.end..self.end + len]
    }

    /// Appends the first `len` bytes of the free space and returns them.
    pub fn fill(&mut self, len: usize) -> &[u8] {
        let from = self.end;
        self.end = (from + len).min(self.bytes.len());
        &self.bytes[from..self.end]
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) -> &[u8] {
        self.free(bytes.len()).copy_from_slice(bytes);
        self.fill(bytes.len())
    }

    /// Removes and returns at most `len` bytes.
    pub fn take(&mut self, len: usize) -> &[u8] {
        let from = self.start;
        self.start += len.min(self.len());
        &self.bytes[from..self.start]
    }
}

/// A buffer for repeated reads. Its start avoids the first bytes of a page: with nearly equal page offsets of source
/// and destination some processors copy ten times slower (4K aliasing).
#[derive(Debug)]
pub struct Scratch(Vec<u8>);

impl Scratch {
    /// Creates a buffer of this size.
    pub fn new(len: usize) -> Scratch {
        Scratch(vec![0; SHARED_PIECE_BYTES + len])
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0[SHARED_PIECE_BYTES..]
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0[SHARED_PIECE_BYTES..]
    }
}

/// Distance of the buffer from the start of a page: a quarter of a page.
const SHARED_PIECE_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_leave_in_order() {
        let mut room = MessageBuffer::default();
        let (mut put, mut taken) = (0u8, 0u8);
        for step in 0..1000usize {
            let more: Vec<u8> = (0..step % 7).map(|add| put.wrapping_add(add as u8)).collect();
            if step % 2 == 0 {
                assert_eq!(room.push(&more), more);
            } else {
                // More space was requested than filled.
                room.free(10)[..more.len()].copy_from_slice(&more);
                assert_eq!(room.fill(more.len()), more);
            }
            put = put.wrapping_add(more.len() as u8);
            for &byte in room.take(step % 5) {
                assert_eq!(byte, taken);
                taken = taken.wrapping_add(1);
            }
            assert_eq!(room.len() as u8, put.wrapping_sub(taken));
        }
        room.clear();
        assert!(room.len() == 0 && room.take(5).is_empty());
    }
}
