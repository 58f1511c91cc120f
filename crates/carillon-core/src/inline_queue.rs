//! The queue of a node that is one of very many.

use std::collections::VecDeque;

/// A queue whose first `N` entries wait in place; only more of them take room elsewhere, which is let go with the last
/// of these. Each of a million nodes has some, empty most of the time: neither may they keep room, nor ask for it with
/// every datagram.
#[derive(Clone, Debug)]
pub struct InlineQueue<T, const N: usize> {
    /// The oldest, from `first` on and around.
    inline: [Option<T>; N],
    first: u8,
    /// How many of them are there.
    inline_len: u8,
    /// What came when these were taken.
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
    /// Adds one at the end.
    #[inline]
    pub fn push_back(&mut self, entry: T) {
        // When all places are taken this is the first one.
        let place = &mut self.inline[Self::wrapped(self.first + self.inline_len)];
        if self.overflow.is_none() && place.is_none() {
            *place = Some(entry);
            self.inline_len += 1;
        } else {
            self.push_overflow(entry);
        }
    }

    /// Takes the oldest.
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

    /// Takes all, the oldest first, each of which is looked at where it lies.
    #[inline]
    pub fn take_all(&mut self, mut each: impl FnMut(&T)) {
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

    /// Where that place is, which is less than twice around: a comparison, since a remainder by a number that is no
    /// power of two is several times as long, once for every event.
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

    /// How many are there.
    pub fn len(&self) -> usize {
        usize::from(self.inline_len) + self.overflow.as_ref().map_or(0, |overflow| overflow.len())
    }

    /// Whether there are none.
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
