//! Pool of large buffers for reuse.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Pool of buffers that are lent and return when their last slice is dropped.
///
/// Buffers that one thread allocates and another frees cost both threads: the first one faults in new pages each
/// time, and the second one returns them to the system. Reuse avoids both.
#[derive(Debug)]
pub struct BufferPool {
    /// Lent buffers, the oldest first.
    lent_buffers: VecDeque<Bytes>,
    /// Returned buffers.
    returned_buffers: Vec<BytesMut>,
    capacity: usize,
}

impl BufferPool {
    /// Pool that tracks up to `capacity` lent buffers. Beyond that it forgets the oldest, which is freed with its
    /// last slice.
    pub fn new(capacity: usize) -> Self {
        BufferPool { lent_buffers: VecDeque::new(), returned_buffers: Vec::new(), capacity }
    }

    /// Tracks a whole buffer that is lent.
    pub fn lend(&mut self, buffer: Bytes) {
        if self.is_full() {
            self.lent_buffers.pop_front();
        }
        self.lent_buffers.push_back(buffer);
    }

    /// Returns true if the pool tracks as many buffers as it can, as of the last [`collect`](Self::collect).
    pub fn is_full(&self) -> bool {
        self.lent_buffers.len() >= self.capacity
    }

    /// Finds the buffers that have no other holder and takes them back.
    pub fn collect(&mut self) {
        for _ in 0..self.lent_buffers.len() {
            // `try_into_mut` succeeds only for the last holder.
            match self.lent_buffers.pop_front().map(Bytes::try_into_mut) {
                Some(Ok(buffer)) => self.returned_buffers.push(buffer),
                Some(Err(held)) => self.lent_buffers.push_back(held),
                None => {}
            }
        }
    }

    /// Returned buffer with its old contents, among those that [`collect`](Self::collect) has found.
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
