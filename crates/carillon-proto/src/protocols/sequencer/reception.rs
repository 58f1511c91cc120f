//! What a member holds of the one order, and how far its application has come.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::log::{Entry, Log};

/// The messages of the group as one member sees them.
///
/// Places count from 0. Always `consumed <= delivered <= contiguous <= horizon`.
#[derive(Clone, Debug)]
pub(super) struct Reception {
    log: Log,
    history: u64,
    /// The next place for the application.
    consumed: u64,
    /// One past the last place that the application may take.
    delivered: u64,
    /// The next message of each member, as of `delivered`.
    numbers: Vec<u64>,
    /// Messages before this one are accepted.
    accepted: u64,
    /// Messages before this one are with all members.
    purge: u64,
    /// One past the last place that is known to be taken.
    horizon: u64,
    /// The next message of each member, as of all places known.
    heard: Vec<u64>,
    /// Messages that have no place yet, by their source (BB).
    parked: Vec<BTreeMap<u64, Bytes>>,
    window: usize,
}

impl Reception {
    /// A group of so many members, none of which has sent anything.
    pub fn new(members: usize, history: usize, window: usize) -> Self {
        Reception {
            log: Log::starting_at(0),
            history: history as u64,
            consumed: 0,
            delivered: 0,
            numbers: vec![0; members],
            accepted: 0,
            purge: 0,
            horizon: 0,
            heard: vec![0; members],
            parked: vec![BTreeMap::new(); members],
            window,
        }
    }

    /// Begins here: nothing before this place is delivered.
    pub fn start_at(&mut self, place: u64, numbers: Vec<u64>) {
        let fresh = Reception::new(self.numbers.len(), self.history as usize, self.window);
        *self = Reception {
            log: Log::starting_at(place),
            consumed: place,
            delivered: place,
            accepted: place,
            purge: place,
            horizon: place,
            heard: numbers.clone(),
            numbers,
            ..fresh
        };
    }

    /// Goes on here, since nothing before this place is to be had any more. What has been delivered
    /// stays; how many places are lost.
    pub fn skip_to(&mut self, place: u64, numbers: Vec<u64>) -> u64 {
        let lost = place.saturating_sub(self.contiguous());
        if lost > 0 {
            self.log.skip_to(place);
            self.delivered = place;
            self.accepted = self.accepted.max(place);
            self.purge = self.purge.max(place);
            self.horizon = self.horizon.max(self.contiguous());
            for (heard, &number) in self.heard.iter_mut().zip(&numbers) {
                *heard = number.max(*heard);
            }
            self.numbers = numbers;
        }
        lost
    }

    /// A message is in this place; returns whether there is room for it.
    pub fn insert(&mut self, place: u64, mut entry: Entry) -> bool {
        if !self.has_room(place) {
            return false;
        }
        self.horizon = self.horizon.max(place + 1);
        let Entry { source, message, .. } = entry;
        self.heard[source] = self.heard[source].max(message + 1);
        let parked = self.parked[source].remove(&message);
        entry.body = entry.body.or(parked);
        self.log.insert(place, entry);
        true
    }

    /// A message of the log that another view goes on with; returns whether there is room for it.
    /// However far the application is behind, since nobody can go on without it.
    pub fn insert_fetched(&mut self, place: u64, entry: Entry) -> bool {
        let room = self.log.len() < FETCHED * self.history as usize;
        if room {
            self.log.insert(place, entry);
        }
        room
    }

    /// A message came that has no place yet.
    pub fn park(&mut self, source: usize, message: u64, body: Bytes) {
        let waits =
            |entry: &Entry| entry.source == source && entry.message == message && entry.body.is_none();
        let place = self.log.range(self.contiguous()).find(|(_, entry)| waits(entry));
        if let Some(place) = place.map(|(place, _)| place) {
            return self.log.insert(place, Entry { source, message, body: Some(body) });
        }
        let parked = &mut self.parked[source];
        parked.insert(message, body);
        // A member has no more than that under way: what is older is of no use.
        while parked.len() > self.window {
            parked.pop_first();
        }
    }

    /// Takes a parked message out.
    pub fn unpark(&mut self, source: usize, message: u64) -> Option<Bytes> {
        self.parked[source].remove(&message)
    }

    /// Whether this message is parked.
    pub fn is_parked(&self, source: usize, message: u64) -> bool {
        self.parked[source].contains_key(&message)
    }

    /// Forgets what has no place: it will be sent again.
    pub fn unpark_all(&mut self) {
        self.parked.iter_mut().for_each(BTreeMap::clear);
    }

    /// The sequencer says that so much is ordered, accepted, with all members.
    pub fn learn(&mut self, next: u64, accepted: u64, purge: u64) {
        let limit = self.contiguous() + self.history;
        self.horizon = self.horizon.max(next.min(limit));
        self.accepted = self.accepted.max(accepted);
        self.purge = self.purge.max(purge.min(self.contiguous()));
    }

    /// The next message that is accepted and the application's, if any: called until `None`.
    pub fn deliver(&mut self) -> Option<(usize, u64)> {
        if self.delivered >= self.accepted || self.delivered >= self.contiguous() {
            return None;
        }
        let &Entry { source, message, .. } = self.log.entry(self.delivered)?;
        self.delivered += 1;
        self.numbers[source] = message + 1;
        Some((source, message))
    }

    /// The application takes its next message.
    pub fn take(&mut self) -> Option<(usize, u64, Bytes)> {
        let (place, entry) = self.log.range(self.consumed).next()?;
        if place >= self.delivered {
            return None;
        }
        let taken = (entry.source, entry.message, entry.body.clone()?);
        self.consumed = place + 1;
        self.tidy();
        Some(taken)
    }

    /// Forgets the oldest messages that nobody needs.
    pub fn tidy(&mut self) {
        self.log.purge(self.purge.min(self.consumed), self.history as usize);
    }

    /// The places in which messages are known to be and lacking, not far ahead.
    pub fn missing(&self, most: u64) -> impl Iterator<Item = u64> {
        let start = self.contiguous();
        let end = self.horizon.min(start.saturating_add(most));
        (start..end).filter(|&place| self.has_room(place) && self.log.get(place).is_none())
    }

    /// Whether something is known to be under way that cannot be delivered yet.
    pub fn waits(&self) -> bool {
        self.delivered < self.horizon
    }

    /// The next message of each member, as of this place.
    pub fn numbers_at(&self, place: u64) -> Vec<u64> {
        let mut numbers = self.numbers.clone();
        if place >= self.delivered {
            for (_, entry) in self.log.range(self.delivered).take_while(|(at, _)| *at < place) {
                numbers[entry.source] = numbers[entry.source].max(entry.message + 1);
            }
        } else {
            for (_, entry) in self.log.range(place).rev() {
                numbers[entry.source] = numbers[entry.source].min(entry.message);
            }
        }
        numbers
    }

    /// Another view goes on from `length`, with what is held below it: the rest is forgotten.
    pub fn truncate(&mut self, length: u64) {
        self.log.truncate(length);
        self.horizon = length;
        self.heard = self.numbers_at(length);
        self.unpark_all();
    }

    /// Everything before this place is known to be accepted.
    pub fn accept_below(&mut self, place: u64) {
        self.accepted = self.accepted.max(place);
    }

    /// A view came into force: everything is accepted, and with all.
    pub fn commit_all(&mut self) {
        let length = self.contiguous();
        self.horizon = length;
        self.accepted = length;
        self.purge = length;
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// One past the last place up to which no message is lacking.
    pub fn contiguous(&self) -> u64 {
        self.log.contiguous()
    }

    /// One past the last place that may be delivered.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Messages before this one are accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// One past the last message of this member that is known.
    pub fn heard(&self, source: usize) -> u64 {
        self.heard[source]
    }

    /// Whether a message in this place could be kept: the application must not be too far behind,
    /// nor the slowest member.
    pub fn has_room(&self, place: u64) -> bool {
        place < self.consumed.saturating_add(self.history) && place < self.purge.saturating_add(self.history)
    }
}

/// Places kept while a new view is agreed on, at most: so many histories.
pub(super) const FETCHED: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(source: usize, message: u64) -> Entry {
        Entry { source, message, body: Some(Bytes::from_static(b"m")) }
    }

    /// Places 0 to 5 hold messages 0, 0, 1, 1, 2, 2 of two members.
    fn six() -> Reception {
        let mut reception = Reception::new(2, 8, 4);
        for place in 0..6 {
            assert!(reception.insert(place, entry(place as usize % 2, place / 2)));
        }
        reception
    }

    #[test]
    fn the_numbers_of_any_place_that_is_held_are_known() {
        let mut reception = six();
        reception.learn(6, 4, 0);
        while reception.deliver().is_some() {}
        assert_eq!(reception.delivered(), 4);
        for (place, numbers) in [(0, [0, 0]), (1, [1, 0]), (3, [2, 1]), (4, [2, 2]), (6, [3, 3])] {
            assert_eq!(reception.numbers_at(place), numbers, "at {place}");
        }
    }

    #[test]
    fn what_the_application_has_not_taken_is_not_forgotten_nor_is_what_a_member_lacks() {
        let mut reception = six();
        reception.learn(6, 6, 6);
        while reception.deliver().is_some() {}
        assert_eq!(std::iter::from_fn(|| reception.take()).count(), 6);
        for place in 6..14 {
            assert!(reception.has_room(place), "at {place}");
            reception.insert(place, entry(0, place));
            reception.learn(place + 1, place + 1, place - 6);
            while reception.deliver().is_some() {}
        }
        assert!(!reception.has_room(14), "the application has taken nothing since");
        assert_eq!(std::iter::from_fn(|| reception.take()).count(), 8);
        assert!(reception.has_room(14));
        assert!(!reception.has_room(15), "the slowest member has but seven");
        assert_eq!(reception.log().held_from(), 6, "a history is kept, and nothing that a member lacks goes");
    }

    #[test]
    fn after_a_gap_that_nobody_can_fill_delivery_goes_on() {
        let mut reception = six();
        reception.learn(6, 6, 0);
        while reception.deliver().is_some() {}
        assert_eq!(reception.skip_to(9, vec![5, 4]), 3);
        assert_eq!(reception.numbers_at(9), [5, 4]);
        assert_eq!(std::iter::from_fn(|| reception.take()).count(), 6, "what was there stays");
        assert!(reception.insert(9, entry(1, 4)));
        reception.learn(10, 10, 0);
        assert_eq!(reception.deliver(), Some((1, 4)));
        assert_eq!(reception.take().map(|(source, message, _)| (source, message)), Some((1, 4)));
        assert_eq!(reception.log().held_from(), 9, "what lies before the gap cannot be given to others");
    }
}
