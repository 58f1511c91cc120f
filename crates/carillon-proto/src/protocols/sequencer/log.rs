//! The history buffer: messages in the order the sequencer gave them.

use std::collections::BTreeMap;

use bytes::Bytes;

/// A message in its place.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The rank of the member whose message it is.
    pub source: usize,
    /// Which of its messages.
    pub message: u64,
    /// The message; `None` while only its place is known (BB).
    pub body: Option<Bytes>,
}

/// The messages that a member holds, with gaps where it lacks some.
///
/// Not a `Reception`: it keeps what is in order for others, a place may be known before its message, and another view may
/// cut it short.
#[derive(Clone, Debug)]
pub(super) struct Log {
    entries: BTreeMap<u64, Entry>,
    /// The first place that has not been purged.
    first: u64,
    /// One past the last place up to which no message is lacking.
    contiguous: u64,
    /// No message from here up to that place is lacking, nor has been purged.
    run: u64,
}

impl Log {
    /// Nothing before `first` ever comes into it.
    pub fn starting_at(first: u64) -> Self {
        Log { entries: BTreeMap::new(), first, contiguous: first, run: first }
    }

    /// Puts a message in its place; what is there already stays, but for a missing body.
    pub fn insert(&mut self, order: u64, entry: Entry) {
        if order < self.first {
            return;
        }
        let there = self.entries.entry(order).or_insert_with(|| Entry { body: None, ..entry });
        if there.body.is_none() && (there.source, there.message) == (entry.source, entry.message) {
            there.body = entry.body;
        }
        self.advance();
    }

    /// Forgets everything from a place on.
    pub fn truncate(&mut self, from: u64) {
        self.entries.split_off(&from);
        self.contiguous = self.contiguous.min(from.max(self.first));
        self.run = self.run.min(self.contiguous);
    }

    /// Nothing before this place comes into it any more; what is there stays, up to the first gap.
    pub fn skip_to(&mut self, place: u64) {
        if place > self.contiguous {
            let after = self.entries.split_off(&place);
            self.entries.split_off(&self.contiguous);
            self.entries.extend(after);
            self.contiguous = place;
            self.run = place;
            self.advance();
        }
    }

    /// Forgets the oldest messages before `limit` while there are more than `capacity`.
    pub fn purge(&mut self, limit: u64, capacity: usize) {
        while self.entries.len() > capacity
            && let Some(entry) = self.entries.first_entry()
            && *entry.key() < limit.min(self.contiguous)
        {
            self.first = *entry.key() + 1;
            entry.remove();
        }
        self.run = self.run.max(self.first);
    }

    /// The message in this place, if it is there whole.
    pub fn get(&self, order: u64) -> Option<(&Entry, &Bytes)> {
        let entry = self.entries.get(&order)?;
        Some((entry, entry.body.as_ref()?))
    }

    /// What is known of this place.
    pub fn entry(&self, order: u64) -> Option<&Entry> {
        self.entries.get(&order)
    }

    /// The places from `from` on that are known, in order.
    pub fn range(&self, from: u64) -> impl DoubleEndedIterator<Item = (u64, &Entry)> {
        self.entries.range(from..).map(|(&order, entry)| (order, entry))
    }

    /// The first place from which on no message is lacking, nor has been purged.
    pub fn held_from(&self) -> u64 {
        self.run
    }

    /// How many places are known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// One past the last place up to which no message is lacking.
    pub fn contiguous(&self) -> u64 {
        self.contiguous
    }

    fn advance(&mut self) {
        while self.get(self.contiguous).is_some() {
            self.contiguous += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(body: Option<&'static str>) -> Entry {
        Entry { source: 1, message: 2, body: body.map(|body| Bytes::from_static(body.as_bytes())) }
    }

    #[test]
    fn a_place_without_its_message_is_a_gap() {
        let mut log = Log::starting_at(0);
        log.insert(0, entry(Some("a")));
        log.insert(1, entry(None));
        log.insert(2, entry(Some("c")));
        assert_eq!(log.contiguous(), 1);
        log.insert(1, entry(Some("b")));
        assert_eq!(log.contiguous(), 3);
        log.insert(1, entry(Some("x")));
        assert_eq!(log.get(1).unwrap().1, "b", "what is there stays");
    }

    #[test]
    fn only_what_is_old_and_too_much_is_purged() {
        let mut log = Log::starting_at(0);
        (0..6).for_each(|order| log.insert(order, entry(Some("m"))));
        log.purge(2, 3);
        assert_eq!((log.held_from(), log.contiguous()), (2, 6));
        log.purge(6, 3);
        assert_eq!(log.held_from(), 3);
        log.truncate(5);
        assert_eq!(log.contiguous(), 5);
    }
}
