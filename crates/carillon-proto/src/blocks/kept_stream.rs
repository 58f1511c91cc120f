//! The messages of one source, as far as a member knows and keeps them.

use bytes::Bytes;

use super::{Numbered, near};

/// The last messages of a source: those that are there are kept for repairs and, in order, delivered.
///
/// Not a `Reception`, which hands over what it delivers: any member repairs here, and places before the next message have a
/// history of requests too.
#[derive(Debug)]
pub struct KeptStream {
    slots: Numbered<Slot>,
    /// What the messages that are here cost.
    bytes: usize,
    /// The message to be delivered next: not before `base`.
    deliver: u64,
    /// What the messages behind it cost that are here.
    undelivered: usize,
    /// As far as the others were told that this member has it.
    told: u64,
    /// How many have come, or were sent by this member; and how many of these are here no more.
    stored: u64,
    gone: u64,
}

/// A message that was sent, whether it is here or not.
#[derive(Debug, Default)]
struct Slot {
    payload: Option<Bytes>,
    /// Rounds of requests and repairs for it that are over.
    rounds: u8,
    /// It was given up: it is not awaited, and not delivered should it come.
    is_lost: bool,
}

impl KeptStream {
    /// A stream that begins with this message.
    pub fn new(first: u64) -> Self {
        KeptStream {
            slots: Numbered::starting_at(first),
            bytes: 0,
            deliver: first,
            undelivered: 0,
            told: first,
            stored: 0,
            gone: 0,
        }
    }

    /// The message that a sequence number means: the one nearest to the next one.
    pub fn expand(&self, sequence: u32) -> u64 {
        near(sequence, self.next())
    }

    /// The number of the first message that is not known to have been sent.
    pub fn next(&self) -> u64 {
        self.slots.end()
    }

    /// The oldest message that has a place.
    pub fn base(&self) -> u64 {
        self.slots.start()
    }

    /// The message to be delivered next.
    pub fn deliver(&self) -> u64 {
        self.deliver
    }

    /// A message that is here.
    pub fn payload(&self, number: u64) -> Option<&Bytes> {
        self.slot(number)?.payload.as_ref()
    }

    /// What the messages that are here cost in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same of those that are still to be delivered.
    pub fn undelivered(&self) -> usize {
        self.undelivered
    }

    /// How many messages have been here: others may say that there are more than there are.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// How many were delivered since the others were told.
    pub fn untold(&self) -> u64 {
        self.deliver - self.told
    }

    /// The message that is lacking first: the others are being told.
    pub fn tell(&mut self) -> u64 {
        self.told = self.deliver;
        self.deliver
    }

    /// How many are here.
    pub fn held(&self) -> u64 {
        self.stored - self.gone
    }

    /// Puts a message into its place, if it has one.
    pub fn store(&mut self, number: u64, payload: Bytes) {
        let new = cost(&payload);
        if let Some(slot) = self.slot_mut(number) {
            let old = slot.payload.replace(payload).as_ref().map_or(0, cost);
            self.bytes = self.bytes + new - old;
            self.stored += u64::from(old == 0);
            if number >= self.deliver {
                self.undelivered = self.undelivered + new - old;
            }
        }
    }

    /// One more message was sent by this member itself. Returns its number.
    pub fn push(&mut self, payload: Bytes) -> u64 {
        self.bytes += cost(&payload);
        self.stored += 1;
        let number = self.slots.push(Slot { payload: Some(payload), ..Slot::default() });
        self.deliver = number + 1;
        number
    }

    /// Places for all messages before `next`.
    pub fn extend(&mut self, next: u64) {
        while self.next() < next {
            self.slots.push(Slot::default());
        }
    }

    /// Messages before `base` lose their places.
    pub fn forget_before(&mut self, base: u64) {
        while self.base() < base
            && let Some((number, slot)) = self.slots.pop()
        {
            let freed = slot.payload.as_ref().map_or(0, cost);
            self.gone += u64::from(slot.payload.is_some());
            self.bytes -= freed;
            if number >= self.deliver {
                self.undelivered -= freed;
            }
        }
        if self.slots.is_empty() {
            self.slots.number_from(base.max(self.base()));
        }
        self.deliver = self.deliver.max(base);
    }

    /// The next message in order, if it is here; it counts as delivered. What was given up is passed
    /// over.
    pub fn take(&mut self) -> Option<(u64, Bytes)> {
        while self.slot(self.deliver)?.is_lost {
            self.deliver += 1;
        }
        let payload = self.payload(self.deliver)?.clone();
        self.undelivered -= cost(&payload);
        self.deliver += 1;
        Some((self.deliver - 1, payload))
    }

    /// Whether the next message in order is here.
    pub fn is_ready(&self) -> bool {
        self.payload(self.deliver).is_some() || self.slot(self.deliver).is_some_and(|slot| slot.is_lost)
    }

    /// Gives a message up that is not delivered yet. False if it was given up before.
    pub fn give_up(&mut self, number: u64) -> bool {
        let Some(slot) = self.slot_mut(number) else { return true };
        let is_news = !std::mem::replace(&mut slot.is_lost, true);
        let old = slot.payload.take().as_ref().map_or(0, cost);
        self.bytes -= old;
        if number >= self.deliver {
            self.undelivered -= old;
        }
        is_news
    }

    /// Whether a message is still awaited.
    pub fn is_awaited(&self, number: u64) -> bool {
        number >= self.deliver
            && self.slot(number).is_some_and(|slot| slot.payload.is_none() && !slot.is_lost)
    }

    /// All before this is delivered or given up.
    pub fn pass_to(&mut self, number: u64) {
        while self.deliver < number.min(self.next()) {
            self.undelivered -= self.payload(self.deliver).map_or(0, cost);
            self.deliver += 1;
        }
        self.deliver = self.deliver.max(number);
    }

    /// Rounds of requests and repairs for a message that are over.
    pub fn rounds(&self, number: u64) -> u8 {
        self.slot(number).map_or(0, |slot| slot.rounds)
    }

    /// So many rounds are over now.
    pub fn set_rounds(&mut self, number: u64, rounds: u8) {
        if let Some(slot) = self.slot_mut(number) {
            slot.rounds = rounds;
        }
    }

    fn slot(&self, number: u64) -> Option<&Slot> {
        self.slots.get(number)
    }

    fn slot_mut(&mut self, number: u64) -> Option<&mut Slot> {
        self.slots.get_mut(number)
    }
}

/// What a message that is kept costs: its bytes, the header in whose buffer they lie, and its place.
pub fn cost(payload: &Bytes) -> usize {
    payload.len() + BESIDE
}

/// More than headers and a place take.
const BESIDE: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_map_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("kept-stream");
        let mut stream = KeptStream::new(5);
        // The model: what is here, what was given up, and the three edges.
        let (mut here, mut lost) = (std::collections::BTreeMap::new(), std::collections::BTreeSet::new());
        let (mut base, mut deliver, mut next, mut stored) = (5u64, 5u64, 5u64, 0);
        for _ in 0..20_000 {
            let number = (deliver + rng.below(12)).saturating_sub(4);
            let has_place = (base..next).contains(&number);
            match rng.below(8) {
                0 | 1 => {
                    next = next.max(deliver + rng.below(8));
                    stream.extend(next);
                }
                2 | 3 => {
                    let payload = Bytes::from(vec![0; rng.below(50) as usize]);
                    if has_place && !lost.contains(&number) {
                        stream.store(number, payload.clone());
                        stored += u64::from(here.insert(number, payload).is_none());
                    }
                }
                4 if number >= deliver && has_place => {
                    assert_eq!(stream.give_up(number), lost.insert(number));
                    here.remove(&number);
                }
                5 => {
                    base = base.max(number.saturating_sub(3));
                    next = next.max(base);
                    deliver = deliver.max(base);
                    stream.forget_before(base);
                    here = here.split_off(&base);
                }
                _ => {
                    while lost.contains(&deliver) {
                        deliver += 1;
                    }
                    let wanted = here.get(&deliver).map(|payload| (deliver, payload.clone()));
                    assert_eq!(stream.is_ready(), wanted.is_some() || lost.contains(&stream.deliver()));
                    assert_eq!(stream.take(), wanted);
                    deliver += u64::from(wanted.is_some());
                }
            }
            lost = lost.split_off(&base);
            assert_eq!((stream.base(), stream.next()), (base, next));
            assert_eq!(stream.payload(number), here.get(&number));
            assert_eq!(stream.stored(), stored);
            assert_eq!(stream.bytes(), here.values().map(cost).sum());
            let from = stream.deliver();
            assert_eq!(stream.undelivered(), here.range(from..).map(|(_, payload)| cost(payload)).sum());
            let awaited = number >= from && (base..next).contains(&number);
            let is_there = here.contains_key(&number) || lost.contains(&number);
            assert_eq!(stream.is_awaited(number), awaited && !is_there);
        }
        assert!(base > 1000, "it goes on");
    }
}
