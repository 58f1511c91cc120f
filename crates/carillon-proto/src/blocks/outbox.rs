//! Messages that a member has submitted to a total order and not delivered yet.

use bytes::Bytes;
use carillon_core::OfferError;

use super::Numbered;

/// Message of this member in flight.
#[derive(Clone, Debug)]
struct Own {
    /// Bytes of the message.
    payload: Bytes,
    /// True if the message is to be sent.
    due: bool,
    /// True if the message has a place in the order, as far as this member knows.
    ordered: bool,
    /// Number of messages in flight at its first transmission.
    sent: Option<u32>,
    /// Number of repetitions since the last packet from the node that orders.
    tries: u32,
}

/// Event up to which a message counts for the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Count it until it has a place.
    Ordered,
    /// Count it until it is delivered.
    Delivered,
}

/// Own messages that this member has not delivered, oldest first. A message that loses its place in a view change is
/// sent again.
#[derive(Clone, Debug)]
pub struct Outbox {
    /// Messages in flight, from the oldest one on.
    messages: Numbered<Own>,
    /// Maximum number of messages that count for the window.
    window: usize,
    /// Event up to which a message counts.
    until: Until,
    /// Maximum size of a message in bytes.
    max_payload: usize,
    /// True if no more messages will be offered.
    finished: bool,
}

impl Outbox {
    /// Creates an outbox for up to `window` messages of up to `max_payload` bytes.
    pub fn new(window: usize, until: Until, max_payload: usize) -> Self {
        Outbox { messages: Numbered::default(), window, until, max_payload, finished: false }
    }

    /// Adds a message. Returns its sequence number.
    pub fn offer(&mut self, payload: Bytes) -> Result<u64, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        self.check(&payload)?;
        // A message with a place stays here until its delivery, but need not take room in the window.
        let counts = |own: &&Own| self.until == Until::Delivered || !own.ordered;
        if self.messages.iter().filter(counts).count() >= self.window {
            return Err(OfferError::Full);
        }
        Ok(self.messages.push(Own { payload, due: true, ordered: false, sent: None, tries: 0 }))
    }

    /// Checks that a message is small enough.
    pub fn check(&self, payload: &Bytes) -> Result<(), OfferError> {
        let (len, max) = (payload.len(), self.max_payload);
        if len > max { Err(OfferError::TooLarge { len, max }) } else { Ok(()) }
    }

    /// Declares that no more messages will be offered.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Continues the numbering at `first`, which the group remembers of a member that lost its state.
    pub fn number_from(&mut self, first: u64) {
        // The caller ensures that no message is in flight, since its number would change.
        self.messages.number_from(first);
    }

    /// Numbers the messages in flight from `first` on, since the group knows none of them by its number. Returns the
    /// number of the oldest one before.
    pub fn renumber(&mut self, first: u64) -> u64 {
        let start = self.messages.start();
        let mut messages = Numbered::starting_at(first);
        while let Some((_, own)) = self.messages.pop() {
            messages.push(own);
        }
        self.messages = messages;
        start
    }

    /// Records a transmission. Returns true if the message was sent before.
    pub fn send(&mut self, number: u64) -> bool {
        let in_flight = self.messages.len() as u32;
        // A message that was completed meanwhile was sent before.
        let Some(own) = self.messages.get_mut(number) else { return true };
        own.due = false;
        let before = own.sent.is_some();
        // A repetition keeps the count of the first transmission, which is reported at completion.
        own.sent.get_or_insert(in_flight);
        before
    }

    /// Records that the ordering member sends its message in its place, which restarts the count of messages in
    /// flight for it. Returns true if it was sent before.
    pub fn send_placed(&mut self, number: u64) -> bool {
        let in_flight = self.messages.len() as u32;
        // A message that is no longer in flight was sent before, so that this is a repair.
        self.messages.get_mut(number).is_none_or(|own| own.sent.replace(in_flight).is_some())
    }

    /// Marks a message to be repeated. Returns the number of repetitions since the last packet from the ordering
    /// node.
    pub fn repeat(&mut self, number: u64) -> u32 {
        let Some(own) = self.messages.get_mut(number) else { return 0 };
        own.due = true;
        own.tries += 1;
        own.tries
    }

    /// Marks a message in flight to be repeated, since a member has requested it.
    pub fn demand(&mut self, number: u64) {
        if let Some(own) = self.messages.get_mut(number).filter(|own| own.sent.is_some()) {
            own.due = true;
        }
    }

    /// Resets the repetitions: the ordering node is alive.
    pub fn on_sequencer_alive(&mut self) {
        self.messages.iter_mut().for_each(|own| own.tries = 0);
    }

    /// Records that a message has a place.
    pub fn set_ordered(&mut self, number: u64) {
        if let Some(own) = self.messages.get_mut(number) {
            // From now on the order repairs the message like any other entry, so its source does not repeat it.
            (own.ordered, own.due) = (true, false);
        }
    }

    /// Records that the messages from this one on have lost their places.
    pub fn clear_places(&mut self, from: u64) {
        // The messages become due when the view is installed, if they have no place by then (`reorder`).
        for (_, own) in self.numbered_mut().filter(|(number, _)| *number >= from) {
            own.ordered = false;
        }
    }

    /// Applies a new view: the messages before `ordered_below` have places, and the others are sent again.
    pub fn reorder(&mut self, ordered_below: u64) {
        for (number, own) in self.numbered_mut() {
            own.ordered = number < ordered_below;
            // The new ordering node knows nothing of a message without a place, and has left no request unanswered.
            (own.due, own.tries) = (!own.ordered, 0);
        }
    }

    /// Removes the oldest message if it lies before `end`. Returns its number, and the number of messages in flight
    /// when it was first sent, or last sent in its place.
    pub fn complete_below(&mut self, end: u64) -> Option<(u64, Option<u32>)> {
        // Messages of one source are ordered by number, so that the oldest one is always complete first.
        let own = if self.messages.start() < end { self.messages.pop() } else { None };
        own.map(|(number, own)| (number, own.sent))
    }

    /// Payload of a message in flight.
    pub fn get(&self, number: u64) -> Option<&Bytes> {
        self.messages.get(number).map(|own| &own.payload)
    }

    /// First message to be sent.
    pub fn first_due(&self) -> Option<u64> {
        self.numbered().find(|(_, own)| own.due).map(|(number, _)| number)
    }

    /// Oldest message without a place.
    pub fn first_unordered(&self) -> Option<u64> {
        self.numbered().find(|(_, own)| !own.ordered).map(|(number, _)| number)
    }

    /// Number of the next message.
    pub fn end(&self) -> u64 {
        self.messages.end()
    }

    /// Returns true if no message is in flight.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns true if no more messages will be offered.
    pub fn has_finished(&self) -> bool {
        self.finished
    }

    /// Returns true if no message is in flight and none will be offered.
    pub fn is_done(&self) -> bool {
        self.finished && self.messages.is_empty()
    }

    fn numbered(&self) -> impl Iterator<Item = (u64, &Own)> {
        (self.messages.start()..).zip(self.messages.iter())
    }

    fn numbered_mut(&mut self) -> impl Iterator<Item = (u64, &mut Own)> {
        (self.messages.start()..).zip(self.messages.iter_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Message of the model: number, due, ordered.
    type Model = Vec<(u64, bool, bool)>;

    #[test]
    fn outbox_agrees_with_model_under_random_operations() {
        for until in [Until::Ordered, Until::Delivered] {
            let mut rng = carillon_core::Seeds::new(1).stream("outbox");
            let (mut outbox, mut model, mut next) = (Outbox::new(8, until, 4), Model::new(), 0u64);
            for _ in (0..20_000).step_by(carillon_testkit::sampling_step(5)) {
                let number = (next + 3).saturating_sub(rng.below(12));
                match rng.below(7) {
                    0 | 1 => {
                        let counts = |own: &&(u64, bool, bool)| until == Until::Delivered || !own.2;
                        let full = model.iter().filter(counts).count() >= 8;
                        let taken = outbox.offer(Bytes::from_static(b"m"));
                        assert_eq!(taken, if full { Err(OfferError::Full) } else { Ok(next) });
                        if !full {
                            model.push((next, true, false));
                            next += 1;
                        }
                    }
                    2 => {
                        if let Some(due) = outbox.first_due() {
                            outbox.send(due);
                            model.iter_mut().filter(|own| own.0 == due).for_each(|own| own.1 = false);
                        }
                    }
                    3 => {
                        outbox.set_ordered(number);
                        model
                            .iter_mut()
                            .filter(|own| own.0 == number)
                            .for_each(|own| (own.1, own.2) = (false, true));
                    }
                    4 => {
                        outbox.clear_places(number);
                        model.iter_mut().filter(|own| own.0 >= number).for_each(|own| own.2 = false);
                    }
                    5 => {
                        outbox.reorder(number);
                        model.iter_mut().for_each(|own| (own.1, own.2) = (own.0 >= number, own.0 < number));
                    }
                    _ => {
                        let first = model.first().filter(|own| own.0 < number).copied();
                        assert_eq!(outbox.complete_below(number).map(|own| own.0), first.map(|own| own.0));
                        model.drain(..usize::from(first.is_some()));
                    }
                }
                assert_eq!(outbox.first_due(), model.iter().find(|own| own.1).map(|own| own.0));
                assert_eq!(outbox.first_unordered(), model.iter().find(|own| !own.2).map(|own| own.0));
                assert_eq!((outbox.is_empty(), outbox.end()), (model.is_empty(), next));
            }
        }
    }

    #[test]
    fn large_or_late_message_is_refused() {
        let mut outbox = Outbox::new(1, Until::Delivered, 2);
        assert_eq!(outbox.offer(Bytes::from_static(b"abc")), Err(OfferError::TooLarge { len: 3, max: 2 }));
        outbox.finish();
        assert!(outbox.is_done());
        assert_eq!(outbox.offer(Bytes::new()), Err(OfferError::Finished));
    }

    #[test]
    fn repetitions_count_until_sequencer_is_heard() {
        let mut outbox = Outbox::new(1, Until::Ordered, 2);
        outbox.offer(Bytes::new()).unwrap();
        assert_eq!((outbox.send(0), outbox.repeat(0), outbox.repeat(0)), (false, 1, 2));
        outbox.on_sequencer_alive();
        assert_eq!((outbox.send(0), outbox.repeat(0)), (true, 1));
        assert_eq!(outbox.complete_below(1), Some((0, Some(1))));
    }
}
