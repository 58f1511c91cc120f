//! Log of the total order at one member, and its progress in delivering it.

use std::collections::BTreeMap;

use super::Numbered;

/// Entry of a total order.
pub trait Placed {
    /// Rank of the member that sent the message, and its sequence number there; none if the entry is no message.
    fn message(&self) -> Option<(usize, u64)>;
}

/// Log up to the first gap (`T`), as far back as others may need it, and the knowledge beyond the gap (`E`).
///
/// Unlike `Reception`, it keeps messages in order, and a new view may take back undelivered ones. Always `base <=
/// delivered <= length`.
#[derive(Clone, Debug)]
pub struct OrderLog<T, E> {
    /// Entries in order, from the oldest one kept to the gap.
    held: Numbered<T>,
    /// Knowledge about places beyond the gap.
    early: BTreeMap<u64, E>,
    /// Place after the last delivered entry.
    delivered: u64,
    /// Next sequence number of each member, as of the gap.
    next: Vec<u64>,
}

impl<T: Placed, E> OrderLog<T, E> {
    /// Creates the empty log of a group of this size.
    pub fn new(members: usize) -> Self {
        OrderLog { held: Numbered::default(), early: BTreeMap::new(), delivered: 0, next: vec![0; members] }
    }

    /// Appends the entry at the first missing place.
    pub fn push(&mut self, entry: T) {
        if let Some((source, number)) = entry.message() {
            self.next[source] = number + 1;
        }
        // The entry replaces the partial knowledge about its place.
        let place = self.held.push(entry);
        self.early.remove(&place);
    }

    /// Delivers the next entry, if it is present and `may` permits.
    pub fn deliver_if(&mut self, may: impl FnOnce(&T) -> bool) -> Option<&T> {
        let entry = self.held.get(self.delivered).filter(|entry| may(entry))?;
        // The entry stays in the log, since other members may still need it.
        self.delivered += 1;
        Some(entry)
    }

    /// Drops everything from place `length` on and beyond the gap, since another view continues from there. Delivered
    /// entries stay.
    pub fn truncate(&mut self, length: u64) {
        // Knowledge beyond the gap stems from the view that ends.
        self.early.clear();
        // No view takes back what the application has received.
        let dropped: Vec<T> = self.held.split_off(length.max(self.delivered)).collect();
        // Iterate backwards, so that each member's next number becomes that of its first removed message.
        for (source, number) in dropped.iter().rev().filter_map(Placed::message) {
            self.next[source] = number;
        }
    }

    /// Restarts at this place with these next sequence numbers, since nothing before it is available.
    pub fn skip_to(&mut self, place: u64, numbers: Vec<u64>) {
        // Knowledge about later places stays valid, as the order itself does not change.
        self.early = self.early.split_off(&place);
        self.held = Numbered::starting_at(place);
        (self.delivered, self.next) = (place, numbers);
    }

    /// Drops the oldest delivered entries while `is_needless` holds for place, entry and number of entries.
    pub fn purge(&mut self, is_needless: impl Fn(u64, &T, usize) -> bool) {
        // An entry that is not delivered is kept in any case, since the application needs it.
        while self.base() < self.delivered
            && self.held.first().is_some_and(|first| is_needless(self.base(), first, self.len()))
        {
            self.held.pop();
        }
    }

    /// Knowledge beyond the gap, by place.
    pub fn early(&self) -> &BTreeMap<u64, E> {
        &self.early
    }

    /// Mutable knowledge beyond the gap.
    pub fn early_mut(&mut self) -> &mut BTreeMap<u64, E> {
        &mut self.early
    }

    /// Entry at this place, if it is in order and kept.
    pub fn get(&self, place: u64) -> Option<&T> {
        self.held.get(place)
    }

    /// Last entry in order.
    pub fn last(&self) -> Option<&T> {
        self.held.last()
    }

    /// Entries in order that are kept.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.held.iter()
    }

    /// Mutable entries in order that are kept.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.held.iter_mut()
    }

    /// First place that is kept.
    pub fn base(&self) -> u64 {
        self.held.start()
    }

    /// Place after the last delivered one.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// First missing place.
    pub fn length(&self) -> u64 {
        self.held.end()
    }

    /// Number of known places.
    pub fn len(&self) -> usize {
        self.held.len() + self.early.len()
    }

    /// Returns true if no place is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Next sequence number of this member in the order.
    pub fn next(&self, source: usize) -> u64 {
        self.next[source]
    }

    /// Encoded state for a member that joins at this place: the next sequence number of each member.
    pub fn state_at(&self, place: u64) -> Vec<u8> {
        let mut next = self.next.clone();
        let after = self.length().saturating_sub(place) as usize;
        // Iterate backwards: the last number written per member is that of its first message from `place` on.
        for (source, number) in self.held.iter().rev().take(after).filter_map(Placed::message) {
            next[source] = number;
        }
        next.into_iter().flat_map(u64::to_be_bytes).collect()
    }
}

/// Decodes the state of [`OrderLog::state_at`] in a group of this size. Returns none if it is invalid.
pub fn next_numbers(state: &[u8], members: usize) -> Option<Vec<u64>> {
    let (numbers, rest) = state.as_chunks::<8>();
    let numbers: Vec<u64> = numbers.iter().map(|&number| u64::from_be_bytes(number)).collect();
    // The state comes from a packet. A number near the end of the range would make later counts overflow.
    let fits = numbers.len() == members && rest.is_empty();
    (fits && numbers.iter().all(|&number| number <= MAX_MESSAGES)).then_some(numbers)
}

/// Maximum number of messages of one member: it leaves room to count without overflow.
pub const MAX_MESSAGES: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::*;

    /// Message of a member, or an empty entry.
    type Message = Option<(usize, u64)>;

    impl Placed for Message {
        fn message(&self) -> Option<(usize, u64)> {
            *self
        }
    }

    /// Next sequence number of each member after these messages.
    fn numbers(first: &[u64], order: &[Message]) -> Vec<u64> {
        let mut next = first.to_vec();
        order.iter().flatten().for_each(|&(source, number)| next[source] = number + 1);
        next
    }

    #[test]
    fn log_agrees_with_model_under_random_operations() {
        for seed in 0..20 {
            let mut rng = carillon_core::Seeds::new(seed).stream("order-log");
            let mut log: OrderLog<Message, u64> = OrderLog::new(3);
            // Model: all entries since the start of the order, and the place of that start.
            let (mut start, mut first, mut order, mut base, mut delivered) =
                (0, vec![0; 3], Vec::new(), 0, 0);
            for _ in 0..2000 {
                match rng.below(12) {
                    0..=5 => {
                        let source = rng.below(4) as usize;
                        let message = (source < 3).then(|| (source, log.next(source)));
                        log.push(message);
                        order.push(message);
                    }
                    6..=8 => {
                        let next = order.get((delivered - start) as usize).copied();
                        assert_eq!(log.deliver_if(|_| true).copied(), next);
                        delivered += u64::from(next.is_some());
                    }
                    9 => {
                        let keep = rng.below(20) as usize;
                        log.purge(|_, _, len| len > keep);
                        let held =
                            |base: u64| start as usize + order.len() + log.early().len() - base as usize;
                        while base < delivered && held(base) > keep {
                            base += 1;
                        }
                    }
                    10 => {
                        let length = (log.length() + 2).saturating_sub(rng.below(8));
                        log.truncate(length);
                        order.truncate((length.max(delivered) - start) as usize);
                        assert!(log.early().is_empty());
                    }
                    _ if rng.below(10) == 0 => {
                        let place = log.length() + rng.below(5);
                        first = numbers(&first, &order).iter().map(|number| number + rng.below(3)).collect();
                        log.skip_to(place, first.clone());
                        (start, base, delivered) = (place, place, place);
                        order.clear();
                        assert!(log.early().keys().all(|&early| early >= place));
                    }
                    _ => {
                        let place = log.length() + rng.below(4);
                        log.early_mut().insert(place, 0);
                    }
                }
                assert_eq!((log.base(), log.delivered()), (base, delivered));
                assert_eq!(log.length(), start + order.len() as u64);
                let at = base + rng.below(log.length() - base + 1);
                let state = log.state_at(at);
                let expected = numbers(&first, &order[..(at - start) as usize]);
                assert_eq!(next_numbers(&state, 3).unwrap(), expected);
                assert_eq!(log.get(at), order.get((at - start) as usize));
                assert!(log.iter().eq(&order[(base - start) as usize..]));
            }
        }
    }

    #[test]
    fn invalid_state_is_refused() {
        assert_eq!(next_numbers(&[0; 16], 2), Some(vec![0, 0]));
        assert_eq!(next_numbers(&[0; 16], 3), None);
        assert_eq!(next_numbers(&[0; 17], 2), None);
        assert_eq!(next_numbers(&[0xff; 8], 1), None);
    }
}
