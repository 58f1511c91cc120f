//! A receiver's buffer for one source: what came early, what the application has not fetched, and what it may ask for.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;

use super::Reception;

/// A [`Reception`] with a bound: a message has room if it lies less than a buffer after the first that the
/// application has not fetched, so that early messages never keep the expected one out.
#[derive(Debug)]
pub struct ReceiveWindow {
    capacity: u64,
    /// One past the last message known to have been sent.
    announced: u64,
    /// Messages in order that the application has not fetched.
    waiting: u64,
    /// Nothing is known of the source yet: the first packet says where to start.
    joining: bool,
    reception: Reception,
    /// What is to be asked for, where each message that is missing is.
    asks: Option<BTreeSet<u64>>,
}

/// What became of a message that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is there now.
    New,
    /// It was there already.
    Duplicate,
    /// It is as good as lost.
    NoRoom,
}

/// Messages that will not come any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Skipped {
    /// All that were skipped.
    pub range: Range<u64>,
    /// Those among them that did come, ascending: they are in order now, and wait to be fetched.
    pub survivors: Vec<(u64, Bytes)>,
}

impl Skipped {
    /// How many did not come.
    pub fn lost(&self) -> u64 {
        self.range.end - self.range.start - self.survivors.len() as u64
    }
}

impl ReceiveWindow {
    /// From message 0 on; a node that joins late starts with what it hears first.
    pub fn new(capacity: u64, joining: bool) -> Self {
        ReceiveWindow {
            capacity,
            announced: 0,
            waiting: 0,
            joining,
            reception: Reception::default(),
            asks: None,
        }
    }

    /// The same, and each message that is missing is to be asked for: not the expected one alone.
    pub fn asking_for_all(self) -> Self {
        ReceiveWindow { asks: Some(BTreeSet::new()), ..self }
    }

    /// A packet named this message as sent or next: a node that joins late starts here.
    pub fn join_at(&mut self, number: u64) {
        if std::mem::take(&mut self.joining) {
            self.reception = Reception::starting_at(number);
            self.announced = number;
        }
    }

    /// Everything before `next` has been sent. Returns the first message of which that was not known, if there is one.
    pub fn announce(&mut self, next: u64) -> Option<u64> {
        let first = self.announced;
        self.announced = first.max(next);
        if next <= first {
            return None;
        }
        self.ask_from(first);
        Some(first)
    }

    /// A message came in: also that it was sent is news. [`ReceiveWindow::pop`] afterwards, until `None`.
    pub fn insert(&mut self, number: u64, payload: Bytes) -> Arrival {
        self.announced = self.announced.max(number + 1);
        if let Some(asks) = &mut self.asks {
            asks.remove(&number);
        }
        if self.reception.has(number) {
            return Arrival::Duplicate;
        }
        if number >= self.limit() {
            return Arrival::NoRoom;
        }
        self.reception.insert(number, payload);
        Arrival::New
    }

    /// Takes the next message in order, if it is there; it counts as waiting until it is fetched.
    pub fn pop(&mut self) -> Option<(u64, Bytes)> {
        let message = self.reception.pop()?;
        self.waiting += 1;
        Some(message)
    }

    /// The application has fetched a message.
    pub fn fetched(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// What lies before `oldest` will not come any more: goes on from there.
    pub fn skip_to(&mut self, oldest: u64) -> Option<Skipped> {
        let first = self.expected();
        if oldest <= first {
            return None;
        }
        let survivors = self.reception.skip_to(oldest);
        self.announced = self.announced.max(oldest);
        if let Some(asks) = &mut self.asks {
            *asks = asks.split_off(&oldest);
        }
        self.waiting += survivors.len() as u64;
        Some(Skipped { range: first..oldest, survivors })
    }

    /// All that is missing is to be asked for again.
    pub fn ask_again(&mut self) {
        self.ask_from(self.expected());
    }

    /// The next message to ask for now: each that is missing, or else the expected one if it was sent and has room.
    pub fn next_ask(&mut self) -> Option<u64> {
        match &mut self.asks {
            Some(asks) => asks.pop_first(),
            None => Some(self.expected()).filter(|&expected| expected < self.wanted()),
        }
    }

    /// Messages that are here and not in order.
    pub fn held(&self) -> u64 {
        self.reception.len() as u64
    }

    /// What came beyond the expected message.
    pub fn early(&self) -> &Reception {
        &self.reception
    }

    /// The first message it lacks.
    pub fn expected(&self) -> u64 {
        self.reception.expected()
    }

    /// One past the last message that may be asked for: it was sent, and there is room for it.
    pub fn wanted(&self) -> u64 {
        self.announced.min(self.limit())
    }

    /// Messages of the buffer in use if this one were the last.
    pub fn fill(&self, number: u64) -> u64 {
        number
            .checked_sub(self.expected())
            .map_or(0, |ahead| ahead.saturating_add(self.waiting).saturating_add(1))
    }

    /// How many the application has not fetched.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// What is missing from this message on is to be asked for, as far as it has room.
    fn ask_from(&mut self, first: u64) {
        let wanted = first..self.wanted();
        if let Some(asks) = &mut self.asks {
            asks.extend(self.reception.missing(wanted));
        }
    }

    /// The first message for which there is no room.
    pub fn limit(&self) -> u64 {
        self.expected().saturating_add(self.capacity.saturating_sub(self.waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_and_not_fetched_never_exceeds_the_capacity_and_the_expected_message_has_its_place() {
        let mut rng = carillon_core::Seeds::new(2).stream("window");
        for capacity in [1, 3, 17] {
            let mut window = ReceiveWindow::new(capacity, false);
            for _ in 0..10_000 {
                let (expected, waiting) = (window.expected(), window.waiting());
                let number = (expected + rng.below(2 * capacity + 2)).saturating_sub(2);
                let arrival = window.insert(number, Bytes::new());
                let fits = number < expected + (capacity - waiting);
                match arrival {
                    Arrival::Duplicate => assert!(window.early().has(number)),
                    Arrival::New => assert!(fits && number >= expected),
                    Arrival::NoRoom => assert!(!fits),
                }
                while window.pop().is_some() {}
                assert!(window.waiting() + window.early().len() as u64 <= capacity);
                assert!(window.wanted() <= window.expected() + capacity - window.waiting());
                if rng.below(3) > 0 && window.waiting() > 0 {
                    window.fetched();
                }
            }
            assert!(window.expected() > 100, "it goes on");
        }
    }

    #[test]
    fn one_that_joins_late_begins_with_what_it_hears_first() {
        let mut window = ReceiveWindow::new(4, true);
        window.join_at(7);
        assert_eq!(
            (window.insert(7, Bytes::new()), window.insert(6, Bytes::new())),
            (Arrival::New, Arrival::Duplicate)
        );
        window.join_at(100);
        assert_eq!(window.pop().map(|(number, _)| number), Some(7));
        assert_eq!(window.skip_to(7), None);
        assert_eq!(window.skip_to(9), Some(Skipped { range: 8..9, survivors: vec![] }));
    }

    #[test]
    fn each_message_that_is_missing_and_has_room_is_asked_for_once_until_all_are_again() {
        let mut rng = carillon_core::Seeds::new(3).stream("asks");
        let mut window = ReceiveWindow::new(20, false).asking_for_all();
        let mut asks = BTreeSet::new();
        for _ in 0..10_000 {
            let expected = window.expected();
            let number = (expected + rng.below(25)).saturating_sub(2);
            let missing = |window: &ReceiveWindow, from: u64| {
                (from..window.wanted()).filter(|&number| !window.early().has(number)).collect::<Vec<_>>()
            };
            match rng.below(5) {
                0 => {
                    if let Some(first) = window.announce(number) {
                        asks.extend(missing(&window, first));
                    }
                }
                1 | 2 => {
                    asks.remove(&number);
                    window.insert(number, Bytes::new());
                    while window.pop().is_some() {
                        window.fetched();
                    }
                }
                3 if rng.below(20) == 0 => {
                    if window.skip_to(number).is_some() {
                        asks = asks.split_off(&number);
                    }
                    (0..window.waiting()).for_each(|_| window.fetched());
                }
                3 if rng.below(4) == 0 => {
                    window.ask_again();
                    asks.extend(missing(&window, window.expected()));
                }
                _ => assert_eq!(window.next_ask(), asks.pop_first()),
            }
        }
        let mut one = ReceiveWindow::new(20, false);
        one.announce(5);
        assert_eq!((one.next_ask(), one.next_ask()), (Some(0), Some(0)), "the expected one, again and again");
    }
}
