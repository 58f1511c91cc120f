//! The total order as one member holds it: ordered messages, messages without a sequence number, and the
//! application's progress.

use bytes::Bytes;
use carillon_core::{BuildContext, Event, MessageId, Outcome};

use super::config::{MAX_FETCHED_HISTORIES, Settings};
use super::context::{Context, Timer};
use crate::blocks::reformation::View;
use crate::blocks::{OrderLog, Outbox, Placed, Unplaced, Until, ViewOrder, near};

/// Message with a sequence number, with its payload `P`.
#[derive(Clone, Debug)]
pub(super) struct Entry<P = Bytes> {
    /// Rank of the source.
    pub source: usize,
    /// Number among the messages of its source.
    pub message: u64,
    pub payload: P,
}

impl Placed for Entry {
    fn message(&self) -> Option<(usize, u64)> {
        Some((self.source, self.message))
    }
}

/// Message beyond a gap; its payload may be missing (BB).
type Early = Entry<Option<Bytes>>;

/// Messages of the group as one member holds them. Sequence numbers count from 0.
#[derive(Debug)]
pub(super) struct Order {
    pub log: OrderLog<Entry, Early>,
    /// Messages of others without a sequence number (BB).
    pub parked: Unplaced,
    pub outbox: Outbox,
    history: u64,
    window: usize,
    /// Number of accepted messages.
    pub accepted: u64,
    /// Number of messages that all members hold.
    purge: u64,
    /// Number after the highest assigned sequence number known.
    horizon: u64,
}

impl Order {
    /// Number of messages held, with and without a sequence number.
    pub fn held(&self) -> u64 {
        (self.log.len() + self.parked.len()) as u64
    }

    /// Creates an empty order.
    pub fn new(build: &BuildContext, settings: &Settings) -> Self {
        let members = build.members.len();
        Order {
            log: OrderLog::new(members),
            parked: Unplaced::new(members),
            outbox: Outbox::new(settings.window, Until::Delivered, build.max_payload as usize),
            history: settings.history as u64,
            window: settings.window,
            accepted: 0,
            purge: 0,
            horizon: 0,
        }
    }

    /// Inserts a message at a sequence number. Returns false if there is no room.
    pub fn insert(
        &mut self,
        context: &Context,
        place: u64,
        of: (usize, u64),
        payload: Option<Bytes>,
    ) -> bool {
        if !self.has_room(context, place) {
            return false;
        }
        self.horizon = self.horizon.max(place + 1);
        let (source, message) = of;
        let parked = self.parked.take(source, message);
        // A message at or beyond the first gap: keep it, and extend the log if the gap is filled.
        if place >= self.log.length() {
            let new = Early { source, message, payload: None };
            let slot = self.log.early_mut().entry(place).or_insert(new);
            if slot.payload.is_none() && (slot.source, slot.message) == of {
                slot.payload = payload.or(parked);
            }
            self.advance();
        }
        true
    }

    /// Stores a message that has no sequence number yet.
    pub fn park(&mut self, source: usize, message: u64, payload: Bytes) {
        let lacks = |early: &&mut Early| {
            early.source == source && early.message == message && early.payload.is_none()
        };
        if let Some(early) = self.log.early_mut().values_mut().find(lacks) {
            early.payload = Some(payload);
            return self.advance();
        }
        self.parked.keep(source, message, payload);
        // A source has at most a window of messages outstanding: older ones are useless.
        self.parked.keep_last(source, self.window);
    }

    /// Updates the bounds that the sequencer announced: ordered, accepted, and held by all.
    pub fn update_bounds(&mut self, next: u64, accepted: u64, purge: u64) {
        let length = self.log.length();
        self.horizon = self.horizon.max(next.min(length + self.history));
        self.accepted = self.accepted.max(accepted);
        self.purge = self.purge.max(purge.min(length));
    }

    /// Delivers accepted messages. Returns true if that is progress for this member: one of its own, or any if it has
    /// none outstanding. Its own messages may be lost while others get through.
    pub fn deliver(&mut self, context: &mut Context) -> bool {
        let (mut progress, accepted) = (false, self.accepted);
        while self.log.delivered() < accepted
            && let Some(entry) = self.log.deliver_if(|_| true)
        {
            let Entry { source, message, payload } = entry.clone();
            context.deliver(source, message, payload);
            if source == context.rank {
                progress |= self.complete_below(context, message + 1, Outcome::Acknowledged);
            }
            progress |= self.outbox.is_empty();
        }
        progress
    }

    /// Completes its own messages before `end`. Returns true if there were any.
    pub fn complete_below(&mut self, context: &mut Context, end: u64, outcome: Outcome) -> bool {
        let mut any = false;
        while let Some((number, sent)) = self.outbox.complete_below(end) {
            context.events.completed(MessageId(number), outcome, sent.unwrap_or(1));
            any = true;
        }
        any
    }

    /// Purges old messages that all members and the application have, beyond the history.
    pub fn purge_history(&mut self, context: &Context) {
        let (limit, history) = (self.purge.min(self.consumed(context)), self.history as usize);
        self.log.purge(|place, _, held| place < limit && held > history);
    }

    /// Skips to sequence number `place`, before which messages can no longer be obtained.
    pub fn skip_to(&mut self, context: &mut Context, place: u64, numbers: Vec<u64>) {
        // Everything held before the gap can be delivered: it was accepted by the members that moved on.
        self.accepted = self.accepted.max(self.log.length());
        self.deliver(context);
        for (source, &number) in numbers.iter().enumerate() {
            let message = MessageId(self.log.next(source));
            if message.0 < number {
                context.events.push(Event::LossFound { source: None, message });
            }
        }
        // The members that hold the skipped messages have delivered this member's own among them.
        self.complete_below(context, numbers[context.rank], Outcome::Acknowledged);
        self.begin_at(place, numbers);
    }

    /// Returns true if the message with this sequence number is here.
    pub fn has(&self, place: u64) -> bool {
        place < self.log.length() || self.log.early().get(&place).is_some_and(|early| early.payload.is_some())
    }

    /// Missing sequence numbers known to be assigned, within `most` of the first gap.
    pub fn missing(&self, context: &Context, most: u64) -> impl Iterator<Item = u64> {
        let from = self.log.length();
        let end = self.horizon.min(from.saturating_add(most));
        (from..end).filter(|&place| self.has_room(context, place) && !self.has(place))
    }

    /// Returns true if messages are known that cannot be delivered yet.
    pub fn waits(&self) -> bool {
        self.log.delivered() < self.horizon
    }

    /// Expands the low 32 bits to the nearest sequence number to the first gap.
    pub fn near(&self, low: u32) -> u64 {
        near(low, self.log.length())
    }

    /// Returns true if a message with this number fits: neither the application nor the slowest member may be more
    /// than a history behind.
    pub fn has_room(&self, context: &Context, place: u64) -> bool {
        place < self.consumed(context).min(self.purge).saturating_add(self.history)
    }

    /// Number of messages that the application has read.
    fn consumed(&self, context: &Context) -> u64 {
        self.log.delivered().saturating_sub(context.waiting() as u64)
    }

    fn begin_at(&mut self, place: u64, numbers: Vec<u64>) {
        self.log.skip_to(place, numbers);
        self.accepted = self.accepted.max(place);
        self.purge = self.purge.max(place);
        self.advance();
        self.horizon = self.horizon.max(self.log.length());
    }

    fn advance(&mut self) {
        while let Some(early) = self.log.early().get(&self.log.length()).cloned()
            && let Early { source, message, payload: Some(payload) } = early
        {
            self.log.push(Entry { source, message, payload });
        }
    }
}

impl ViewOrder<Timer> for Order {
    type Early = Early;
    type Entry = Entry;

    fn log(&self) -> &OrderLog<Entry, Early> {
        &self.log
    }

    fn max_fetched(&self) -> u64 {
        MAX_FETCHED_HISTORIES * self.history
    }

    /// Drops messages without a sequence number; their sources send them again in the next view.
    fn leave(&mut self) {
        self.parked.retain(|_, _| false);
    }

    fn replace(
        &mut self,
        context: &mut Context,
        from: u64,
        skipped: Option<Vec<u64>>,
        entries: impl Iterator<Item = Entry>,
    ) {
        match skipped {
            None => self.log.truncate(from),
            Some(numbers) => {
                self.log.truncate(self.log.delivered());
                self.skip_to(context, from, numbers);
            }
        }
        entries.for_each(|entry| self.log.push(entry));
        self.horizon = self.log.length();
    }

    fn join(&mut self, context: &mut Context, place: u64, numbers: Vec<u64>) -> bool {
        if self.outbox.is_empty() {
            self.outbox.number_from(numbers[context.rank]);
        }
        self.begin_at(place, numbers);
        true
    }

    fn install(&mut self, context: &mut Context, _view: &View) {
        let length = self.log.length();
        (self.horizon, self.accepted, self.purge) = (length, length, length);
        self.deliver(context);
        self.outbox.reorder(self.log.next(context.rank));
    }
}
