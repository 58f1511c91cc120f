//! Queue with inline storage, for simulations with a million nodes.
//!
//! Each node has some queues, which are empty most of the time. Storage inside the node saves an allocation per
//! datagram, and the overflow is freed when it runs empty, so that idle nodes keep no memory.

use std::collections::VecDeque;

/// First-in first-out queue with room for `N` entries inline; further ones go to a heap-allocated overflow, which is
/// freed with its last entry.
#[derive(Clone, Debug)]
pub struct InlineQueue<T, const N: usize> {
    /// Ring buffer of the oldest entries, from `first` on.
    inline: [Option<T>; N],
    first: u8,
    /// Number of entries in the ring.
    inline_len: u8,
    /// Entries that were pushed while the ring was full.
    #[expect(clippy::box_collection, reason = "a quarter of the room while there are none")]
    overflow: Option<Box<VecDeque<T>>>,
}

impl<T, const N: usize> Default for InlineQueue<T, N> {
    fn default() -> Self {
        const { assert!(0 < N && N < 128) };
        InlineQueue { inline: [const { None }; N], first: 0, inline_len: 0, overflow: None }
    }
}

impl<T, const N: usize> InlineQueue<T, N> {
    /// Appends an entry.
    #[inline]
    pub fn push_back(&mut self, entry: T) {
        // This slot is the first one, and occupied, if the ring is full.
        let place = &mut self.inline[Self::wrapped(self.first + self.inline_len)];
        if self.overflow.is_none() && place.is_none() {
            *place = Some(entry);
            self.inline_len += 1;
        } else {
            self.push_overflow(entry);
        }
    }

    /// Takes the oldest entry.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        if self.inline_len == 0 {
            return if self.overflow.is_none() { None } else { self.pop_overflow() };
        }
        let entry = self.inline[usize::from(self.first)].take();
        self.first = Self::wrapped(self.first + 1) as u8;
        self.inline_len -= 1;
        entry
    }

    /// Passes all entries to `each`, the oldest first, without moving them, and empties the queue.
    #[inline]
    pub fn take_all(&mut self, mut each: impl FnMut(&T)) {
        // Reset the ring first; the entries are still in place.
        let (first, inline_len) = (self.first, self.inline_len);
        (self.first, self.inline_len) = (0, 0);
        for at in first..first + inline_len {
            let place = &mut self.inline[Self::wrapped(at)];
            if let Some(entry) = place {
                each(entry);
            }
            *place = None;
        }
        if let Some(overflow) = self.overflow.take() {
            overflow.iter().for_each(each);
        }
    }

    /// Wraps an index below 2 `N` into the ring. It uses a comparison, because a remainder by a number that is no
    /// power of two costs several times as much on the hottest path.
    #[inline]
    fn wrapped(at: u8) -> usize {
        let at = usize::from(at);
        if at < N { at } else { at - N }
    }

    #[cold]
    fn push_overflow(&mut self, entry: T) {
        self.overflow.get_or_insert_default().push_back(entry);
    }

    fn pop_overflow(&mut self) -> Option<T> {
        let overflow = self.overflow.as_mut()?;
        let entry = overflow.pop_front();
        if overflow.is_empty() {
            self.overflow = None;
        }
        entry
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        usize::from(self.inline_len) + self.overflow.as_ref().map_or(0, |overflow| overflow.len())
    }

    /// Returns true if the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.inline_len == 0 && self.overflow.is_none()
    }
}

impl<T, const N: usize> Extend<T> for InlineQueue<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, entries: I) {
        entries.into_iter().for_each(|entry| self.push_back(entry));
    }
}
