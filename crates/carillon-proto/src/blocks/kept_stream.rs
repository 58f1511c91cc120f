//! Messages of one source as a member of a group knows and keeps them.

use bytes::Bytes;

use super::{Numbered, near};

/// The last messages of a source: those present are kept for repairs and delivered in order.
///
/// Unlike `Reception`, this type keeps what it delivers, since any member repairs, and keeps a request history for
/// earlier messages.
#[derive(Debug)]
pub struct KeptStream {
    /// Messages from the oldest kept one to the newest known one, with a slot for each missing message too.
    slots: Numbered<Slot>,
    /// Memory used by the messages present, in bytes.
    bytes: usize,
    /// Next message to deliver, not before `base`.
    deliver: u64,
    /// Memory used by the messages that are not delivered.
    undelivered: usize,
    /// Sequence number up to which this member has reported its reception.
    reported: u64,
    /// Number of messages that were ever present: received, or sent by this member.
    stored: u64,
    /// Number of these that are no longer present.
    gone: u64,
}

/// A message that was sent, whether it is present or not.
#[derive(Debug, Default)]
struct Slot {
    /// Bytes of the message, while it is present.
    payload: Option<Bytes>,
    /// Number of completed rounds of requests and repairs.
    rounds: u8,
    /// True if the message counts as lost: it is neither awaited nor delivered.
    is_lost: bool,
}

impl KeptStream {
    /// Creates a stream that begins with this message.
    pub fn new(first: u64) -> Self {
        KeptStream {
            slots: Numbered::starting_at(first),
            bytes: 0,
            deliver: first,
            undelivered: 0,
            reported: first,
            stored: 0,
            gone: 0,
        }
    }

    /// Expands a sequence number to the message nearest to the next one.
    pub fn expand(&self, sequence: u32) -> u64 {
        near(sequence, self.next())
    }

    /// First message that is not known to have been sent.
    pub fn next(&self) -> u64 {
        self.slots.end()
    }

    /// Oldest message that has a slot.
    pub fn base(&self) -> u64 {
        self.slots.start()
    }

    /// Next message to deliver.
    pub fn deliver(&self) -> u64 {
        self.deliver
    }

    /// Payload of a message that is present.
    pub fn payload(&self, number: u64) -> Option<&Bytes> {
        self.slot(number)?.payload.as_ref()
    }

    /// Memory used by the messages present, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory used by the messages that are not delivered, in bytes.
    pub fn undelivered(&self) -> usize {
        self.undelivered
    }

    /// Number of messages that were ever present. Unlike announced numbers, it cannot be forged.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// Number of messages delivered since the last report.
    pub fn unreported(&self) -> u64 {
        // Each report sets `reported` to the position of delivery, which never moves back.
        self.deliver - self.reported
    }

    /// First missing message, which is being reported now.
    pub fn mark_reported(&mut self) -> u64 {
        self.reported = self.deliver;
        self.deliver
    }

    /// Number of messages present.
    pub fn held(&self) -> u64 {
        self.stored - self.gone
    }

    /// Stores a message, if it has a slot.
    pub fn store(&mut self, number: u64, payload: Bytes) {
        let new = memory_cost(&payload);
        if let Some(slot) = self.slot_mut(number) {
            // The cost of a message is never 0, so that 0 stands for an empty slot. A duplicate replaces its copy and
            // counts once.
            let old = slot.payload.replace(payload).as_ref().map_or(0, memory_cost);
            self.bytes = self.bytes + new - old;
            self.stored += u64::from(old == 0);
            // A delivered message is kept for repairs. It takes no part of the room for messages that wait.
            if number >= self.deliver {
                self.undelivered = self.undelivered + new - old;
            }
        }
    }

    /// Appends a message that this member sends. Returns its sequence number.
    pub fn push(&mut self, payload: Bytes) -> u64 {
        self.bytes += memory_cost(&payload);
        self.stored += 1;
        let number = self.slots.push(Slot { payload: Some(payload), ..Slot::default() });
        // A member does not deliver its own messages to itself.
        self.deliver = number + 1;
        number
    }

    /// Creates slots for all messages before `next`.
    pub fn extend(&mut self, next: u64) {
        // Missing messages take memory too. The caller bounds their number, since `next` may be forged.
        while self.next() < next {
            self.slots.push(Slot::default());
        }
    }

    /// Drops the messages before `base`.
    pub fn forget_before(&mut self, base: u64) {
        // The loop ends with the last slot, even if a forged `base` lies billions of messages ahead.
        while self.base() < base
            && let Some((number, slot)) = self.slots.pop()
        {
            let freed = slot.payload.as_ref().map_or(0, memory_cost);
            self.gone += u64::from(slot.payload.is_some());
            self.bytes -= freed;
            if number >= self.deliver {
                self.undelivered -= freed;
            }
        }
        // Jump over the numbers that have no slot.
        if self.slots.is_empty() {
            self.slots.number_from(base.max(self.base()));
        }
        // A dropped message can no longer be delivered.
        self.deliver = self.deliver.max(base);
    }

    /// Takes the next message in order, if it is present, and counts it as delivered. Skips messages that were given
    /// up.
    pub fn take(&mut self) -> Option<(u64, Bytes)> {
        // A lost message has no payload, so that only the position moves.
        while self.slot(self.deliver)?.is_lost {
            self.deliver += 1;
        }
        // The copy shares its bytes with the slot, where they stay for repairs.
        let payload = self.payload(self.deliver)?.clone();
        self.undelivered -= memory_cost(&payload);
        self.deliver += 1;
        Some((self.deliver - 1, payload))
    }

    /// Returns true if the next message in order is present or lost.
    pub fn is_ready(&self) -> bool {
        self.payload(self.deliver).is_some() || self.slot(self.deliver).is_some_and(|slot| slot.is_lost)
    }

    /// Marks an undelivered message as lost. Returns false if it was marked before.
    pub fn mark_lost(&mut self, number: u64) -> bool {
        // Without a slot there is no record of an earlier report.
        let Some(slot) = self.slot_mut(number) else { return true };
        let is_news = !std::mem::replace(&mut slot.is_lost, true);
        let old = slot.payload.take().as_ref().map_or(0, memory_cost);
        self.bytes -= old;
        if number >= self.deliver {
            self.undelivered -= old;
        }
        is_news
    }

    /// Returns true if a message is missing and not marked as lost.
    pub fn is_awaited(&self, number: u64) -> bool {
        number >= self.deliver
            && self.slot(number).is_some_and(|slot| slot.payload.is_none() && !slot.is_lost)
    }

    /// Counts all messages before this one as delivered or lost.
    pub fn advance_to(&mut self, number: u64) {
        // Only known messages take memory. A forged number may lie far beyond them.
        while self.deliver < number.min(self.next()) {
            self.undelivered -= self.payload(self.deliver).map_or(0, memory_cost);
            self.deliver += 1;
        }
        // Skip the unknown messages in one step.
        self.deliver = self.deliver.max(number);
    }

    /// Number of completed rounds of requests and repairs for a message.
    pub fn rounds(&self, number: u64) -> u8 {
        self.slot(number).map_or(0, |slot| slot.rounds)
    }

    /// Sets the number of completed rounds for a message.
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

/// Memory that a kept message takes: its bytes, the header in the same buffer, and its slot.
pub fn memory_cost(payload: &Bytes) -> usize {
    payload.len() + OVERHEAD_PER_MESSAGE
}

/// Bytes per message beyond its payload: an upper bound of headers and slot.
const OVERHEAD_PER_MESSAGE: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_agrees_with_map_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("kept-stream");
        let mut stream = KeptStream::new(5);
        // Model: messages present, messages lost, and the three edges.
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
                    assert_eq!(stream.mark_lost(number), lost.insert(number));
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
            assert_eq!(stream.bytes(), here.values().map(memory_cost).sum::<usize>());
            let from = stream.deliver();
            assert_eq!(
                stream.undelivered(),
                here.range(from..).map(|(_, payload)| memory_cost(payload)).sum::<usize>()
            );
            let awaited = number >= from && (base..next).contains(&number);
            let is_there = here.contains_key(&number) || lost.contains(&number);
            assert_eq!(stream.is_awaited(number), awaited && !is_there);
        }
        assert!(base > 1000, "it goes on");
    }
}
