//! Buffers that are used again.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Large buffers that were given away and come back when nobody holds a slice of them any more.
///
/// A buffer that one thread takes from the allocator and another gives back costs both: the first finds new pages each
/// time, the second returns them to the system.
#[derive(Debug)]
pub struct BufferPool {
    /// The longest ago first.
    lent: VecDeque<Bytes>,
    /// Those that have come back.
    back: Vec<BytesMut>,
    most: usize,
}

impl BufferPool {
    /// One that remembers so many buffers; of more, the longest ago is forgotten, and goes when its holders let go of it.
    pub fn new(most: usize) -> Self {
        BufferPool { lent: VecDeque::new(), back: Vec::new(), most }
    }

    /// Remembers a whole buffer that is given away.
    pub fn lend(&mut self, buffer: Bytes) {
        if self.is_full() {
            self.lent.pop_front();
        }
        self.lent.push_back(buffer);
    }

    /// Whether it remembers as many as it can, as far as it has [looked](Self::collect).
    pub fn is_full(&self) -> bool {
        self.lent.len() >= self.most
    }

    /// Looks which of them nobody holds any more.
    pub fn collect(&mut self) {
        for _ in 0..self.lent.len() {
            match self.lent.pop_front().map(Bytes::try_into_mut) {
                Some(Ok(buffer)) => self.back.push(buffer),
                Some(Err(held)) => self.lent.push_back(held),
                None => {}
            }
        }
    }

    /// A buffer that nobody holds any more, with what was in it; of those that were [found](Self::collect).
    pub fn returned(&mut self) -> Option<BytesMut> {
        self.back.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_last_slice_is_gone() {
        let mut pool = BufferPool::new(2);
        let buffer = Bytes::from(vec![7; 100_000]);
        let (at, slice) = (buffer.as_ptr(), buffer.slice(10..20));
        pool.lend(buffer);
        pool.collect();
        assert!(pool.returned().is_none(), "a slice is held");
        drop(slice);
        pool.collect();
        let again = pool.returned().expect("it is back");
        assert_eq!((again.as_ptr(), &again[..]), (at, &[7; 100_000][..]));
        pool.collect();
        assert!(pool.returned().is_none(), "once");
    }

    #[test]
    fn those_beyond_its_bound_are_forgotten() {
        let mut pool = BufferPool::new(2);
        for len in 1..=3 {
            assert_eq!(pool.is_full(), len == 3);
            pool.lend(Bytes::from(vec![0; len]));
        }
        pool.collect();
        assert!(!pool.is_full());
        let mut back =
            [pool.returned(), pool.returned(), pool.returned()].map(|one| one.map(|one| one.len()));
        back.sort();
        assert_eq!(back, [None, Some(2), Some(3)]);
    }
}
