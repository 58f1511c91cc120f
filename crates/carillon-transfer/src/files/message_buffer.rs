//! Buffers that are read into: one that is filled at its end and emptied at its beginning, and one that is used anew.

use std::ops::{Deref, DerefMut};

/// Bytes in a room that stays: what was read before need not be cleared before more is read into it.
#[derive(Debug, Default)]
pub struct MessageBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl MessageBuffer {
    /// How many are in it.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// None are.
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// MessageBuffer for so many more, with anything in it: tell what was [filled](Self::fill).
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

    /// So many were put into what was free: which.
    pub fn fill(&mut self, len: usize) -> &[u8] {
        let from = self.end;
        self.end = (from + len).min(self.bytes.len());
        &self.bytes[from..self.end]
    }

    /// Puts these in.
    pub fn push(&mut self, bytes: &[u8]) -> &[u8] {
        self.free(bytes.len()).copy_from_slice(bytes);
        self.fill(bytes.len())
    }

    /// Takes the first of them out, at most so many.
    pub fn take(&mut self, len: usize) -> &[u8] {
        let from = self.start;
        self.start += len.min(self.len());
        &self.bytes[from..self.start]
    }
}

/// A buffer for one read after the other. Memory that comes from the system begins a few bytes behind the start of a page, and so
/// shortly behind what the kernel copies from, which has some processors copy ten times slower: this begins elsewhere.
#[derive(Debug)]
pub struct Scratch(Vec<u8>);

impl Scratch {
    /// Of so many bytes.
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

/// A quarter of a page.
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
                // More was free than was filled.
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
