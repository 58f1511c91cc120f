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
    lent_buffers: VecDeque<Bytes>,
    /// Those that have come back.
    returned_buffers: Vec<BytesMut>,
    capacity: usize,
}

impl BufferPool {
    /// One that remembers so many buffers; of more, the longest ago is forgotten, and goes when its holders let go of it.
    pub fn new(capacity: usize) -> Self {
        BufferPool { lent_buffers: VecDeque::new(), returned_buffers: Vec::new(), capacity }
    }

    /// Remembers a whole buffer that is given away.
    pub fn lend(&mut self, buffer: Bytes) {
        if self.is_full() {
            self.lent_buffers.pop_front();
        }
        self.lent_buffers.push_back(buffer);
    }

    /// Whether it remembers as many as it can, as far as it has [looked](Self::collect).
    pub fn is_full(&self) -> bool {
        self.lent_buffers.len() >= self.capacity
    }

    /// Looks which of them nobody holds any more.
    pub fn collect(&mut self) {
        for _ in 0..self.lent_buffers.len() {
            match self.lent_buffers.pop_front().map(Bytes::try_into_mut) {
                Some(Ok(buffer)) => self.returned_buffers.push(buffer),
                Some(Err(held)) => self.lent_buffers.push_back(held),
                None => {}
            }
        }
    }

    /// A buffer that nobody holds any more, with what was in it; of those that were [found](Self::collect).
    pub fn returned(&mut self) -> Option<BytesMut> {
        self.returned_buffers.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_returns_when_its_last_slice_is_dropped() {
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
    fn pool_forgets_the_oldest_buffer_beyond_its_capacity() {
        let mut pool = BufferPool::new(2);
        for len in 1..=3 {
            assert_eq!(pool.is_full(), len == 3);
            pool.lend(Bytes::from(vec![0; len]));
        }
        pool.collect();
        assert!(!pool.is_full());
        let mut returned_buffers =
            [pool.returned(), pool.returned(), pool.returned()].map(|one| one.map(|one| one.len()));
        returned_buffers.sort();
        assert_eq!(returned_buffers, [None, Some(2), Some(3)]);
    }
}
