//! Receive window for one source: early messages, messages not fetched yet, and requests.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;

use super::Reception;

/// Bounded [`Reception`]. A message has room if it lies less than the capacity after the first message not fetched,
/// so that early messages never displace the expected one.
#[derive(Debug)]
pub struct ReceiveWindow {
    /// Maximum number of messages from the first one not fetched.
    capacity: u64,
    /// Sequence number after the last message known to have been sent.
    announced: u64,
    /// Number of messages in order that the application has not fetched.
    waiting: u64,
    /// True until the first packet tells where to start.
    joining: bool,
    reception: Reception,
    /// Missing messages to request, if each missing message is requested.
    asks: Option<BTreeSet<u64>>,
}

/// Outcome of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The message is new and was stored.
    New,
    /// The message was present already.
    Duplicate,
    /// The window has no room; the message counts as lost.
    NoRoom,
}

/// Messages that will not come.
#[derive(Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Range that was skipped.
    pub range: Range<u64>,
    /// Messages in the range that did arrive, ascending. They are in order now and wait to be fetched.
    pub survivors: Vec<(u64, Bytes)>,
}

impl Skipped {
    /// Number of messages that did not arrive.
    pub fn lost(&self) -> u64 {
        self.range.end - self.range.start - self.survivors.len() as u64
    }
}

impl ReceiveWindow {
    /// Creates a window from message 0. With `joining`, it starts at the first message that is announced.
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

    /// Requests each missing message instead of only the expected one.
    pub fn requesting_all(self) -> Self {
        ReceiveWindow { asks: Some(BTreeSet::new()), ..self }
    }

    /// Starts the window here, if this node joined late and has not started yet.
    pub fn join_at(&mut self, number: u64) {
        // Only the first packet determines the start. A later one must not skip messages that are still missing.
        if std::mem::take(&mut self.joining) {
            self.reception = Reception::starting_at(number);
            self.announced = number;
        }
    }

    /// Records that all messages before `next` were sent. Returns the first one of which that is new.
    pub fn announce(&mut self, next: u64) -> Option<u64> {
        let first = self.announced;
        self.announced = first.max(next);
        // An old announcement arrived late, or repeats the last one.
        if next <= first {
            return None;
        }
        self.ask_from(first);
        Some(first)
    }

    /// Stores a message, which also announces it. Call [`ReceiveWindow::pop`] afterwards until it returns `None`.
    pub fn insert(&mut self, number: u64, payload: Bytes) -> Arrival {
        // Even a message without room shows that it was sent, so that it is requested once there is room.
        self.announced = self.announced.max(number + 1);
        if let Some(asks) = &mut self.asks {
            asks.remove(&number);
        }
        if self.reception.has(number) {
            return Arrival::Duplicate;
        }
        // The bound holds for any number in a packet, also a forged one, and keeps memory finite.
        if number >= self.limit() {
            return Arrival::NoRoom;
        }
        self.reception.insert(number, payload);
        Arrival::New
    }

    /// Takes the next message in order. It counts as waiting until it is fetched.
    pub fn pop(&mut self) -> Option<(u64, Bytes)> {
        let message = self.reception.pop()?;
        // The message still takes room: the window moves on only when the application fetches it.
        self.waiting += 1;
        Some(message)
    }

    /// Records that the application has fetched a message.
    pub fn fetched(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Skips the messages before `oldest`, which will not come.
    pub fn skip_to(&mut self, oldest: u64) -> Option<Skipped> {
        let first = self.expected();
        if oldest <= first {
            return None;
        }
        let survivors = self.reception.skip_to(oldest);
        self.announced = self.announced.max(oldest);
        if let Some(asks) = &mut self.asks {
            // The source no longer holds the skipped messages, so requests for them are useless.
            *asks = asks.split_off(&oldest);
        }
        // The skipped messages that did arrive are delivered, and take room until then.
        self.waiting += survivors.len() as u64;
        Some(Skipped { range: first..oldest, survivors })
    }

    /// Marks all missing messages to be requested again.
    pub fn request_again(&mut self) {
        // Requests and repairs can be lost, so all gaps are requested and not only new ones.
        self.ask_from(self.expected());
    }

    /// Next message to request: each missing one, or the expected one if it was sent and has room.
    pub fn next_request(&mut self) -> Option<u64> {
        match &mut self.asks {
            Some(asks) => asks.pop_first(),
            None => Some(self.expected()).filter(|&expected| expected < self.wanted()),
        }
    }

    /// Number of messages present beyond the expected one.
    pub fn held(&self) -> u64 {
        self.reception.len() as u64
    }

    /// Messages present beyond the expected one.
    pub fn early(&self) -> &Reception {
        &self.reception
    }

    /// First missing message.
    pub fn expected(&self) -> u64 {
        self.reception.expected()
    }

    /// Sequence number after the last message that may be requested: it was sent and has room.
    pub fn wanted(&self) -> u64 {
        self.announced.min(self.limit())
    }

    /// Occupied part of the window if this message were the last one.
    pub fn fill(&self, number: u64) -> u64 {
        number
            // Room counts from the first message not fetched, hence the waiting messages.
            .checked_sub(self.expected())
            .map_or(0, |ahead| ahead.saturating_add(self.waiting).saturating_add(1))
    }

    /// Number of messages that the application has not fetched.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Marks the missing messages from this one on to be requested, as far as they have room.
    fn ask_from(&mut self, first: u64) {
        // A message without room would be dropped on arrival.
        let wanted = first..self.wanted();
        if let Some(asks) = &mut self.asks {
            asks.extend(self.reception.missing(wanted));
        }
    }

    /// First message for which there is no room.
    pub fn limit(&self) -> u64 {
        self.expected().saturating_add(self.capacity.saturating_sub(self.waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_messages_stay_within_capacity() {
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
    fn late_joiner_starts_at_first_announced_message() {
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
    fn missing_message_is_requested_once_until_repeated() {
        let mut rng = carillon_core::Seeds::new(3).stream("asks");
        let mut window = ReceiveWindow::new(20, false).requesting_all();
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
                    window.request_again();
                    asks.extend(missing(&window, window.expected()));
                }
                _ => assert_eq!(window.next_request(), asks.pop_first()),
            }
        }
        let mut one = ReceiveWindow::new(20, false);
        one.announce(5);
        assert_eq!(
            (one.next_request(), one.next_request()),
            (Some(0), Some(0)),
            "the expected one, again and again"
        );
    }
}
