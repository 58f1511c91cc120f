//! What a member holds of the one order, what waits for a place in it, and how far its application has come.

use bytes::Bytes;
use carillon_core::{BuildContext, Event, MessageId, Outcome};

use super::config::{MAX_FETCHED_HISTORIES, Settings};
use super::context::{Context, Timer};
use crate::blocks::reformation::View;
use crate::blocks::{OrderLog, Outbox, Placed, Unplaced, Until, ViewOrder, near};

/// A message in its place: its bytes, or perhaps these (`P`).
#[derive(Clone, Debug)]
pub(super) struct Entry<P = Bytes> {
    /// The rank of the member whose message it is.
    pub source: usize,
    /// Which of its messages.
    pub message: u64,
    pub payload: P,
}

impl Placed for Entry {
    fn message(&self) -> Option<(usize, u64)> {
        Some((self.source, self.message))
    }
}

/// What is known of a place beyond a gap: whose message has it, and the message, unless that is lacking (BB).
type Early = Entry<Option<Bytes>>;

/// The messages of the group as one member sees them. Places count from 0.
#[derive(Debug)]
pub(super) struct Order {
    pub log: OrderLog<Entry, Early>,
    /// Messages that have no place yet, of others (BB).
    pub parked: Unplaced,
    pub outbox: Outbox,
    history: u64,
    window: usize,
    /// Messages before this one are accepted.
    pub accepted: u64,
    /// Messages before this one are with all members.
    purge: u64,
    /// Number after the last place that is known to be taken.
    horizon: u64,
}

impl Order {
    /// Messages that are here, with a place and without.
    pub fn held(&self) -> u64 {
        (self.log.len() + self.parked.len()) as u64
    }

    /// Of a group of so many members, none of which has sent anything.
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

    /// A message is in this place; returns whether there is room for it.
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
        if place >= self.log.length() {
            let new = Early { source, message, payload: None };
            let there = self.log.early_mut().entry(place).or_insert(new);
            if there.payload.is_none() && (there.source, there.message) == of {
                there.payload = payload.or(parked);
            }
            self.advance();
        }
        true
    }

    /// A message came that has no place yet, as far as this member knows.
    pub fn park(&mut self, source: usize, message: u64, payload: Bytes) {
        let lacks = |early: &&mut Early| {
            early.source == source && early.message == message && early.payload.is_none()
        };
        if let Some(early) = self.log.early_mut().values_mut().find(lacks) {
            early.payload = Some(payload);
            return self.advance();
        }
        self.parked.keep(source, message, payload);
        // A member has no more than that under way: what is older is of no use.
        self.parked.keep_last(source, self.window);
    }

    /// The sequencer says that so much is ordered, accepted, with all members.
    pub fn update_bounds(&mut self, next: u64, accepted: u64, purge: u64) {
        let length = self.log.length();
        self.horizon = self.horizon.max(next.min(length + self.history));
        self.accepted = self.accepted.max(accepted);
        self.purge = self.purge.max(purge.min(length));
    }

    /// Hands what is accepted to the application. Returns whether that is what this member waits for: its own messages
    /// may have been lost while those of others go through.
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

    /// Is done with its own messages before this one; returns whether there were any.
    pub fn complete_below(&mut self, context: &mut Context, end: u64, outcome: Outcome) -> bool {
        let mut any = false;
        while let Some((number, sent)) = self.outbox.complete_below(end) {
            context.events.completed(MessageId(number), outcome, sent.unwrap_or(1));
            any = true;
        }
        any
    }

    /// Forgets the oldest messages that nobody needs.
    pub fn purge_history(&mut self, context: &Context) {
        let (limit, history) = (self.purge.min(self.consumed(context)), self.history as usize);
        self.log.purge(|place, _, held| place < limit && held > history);
    }

    /// Nothing before this place can be had any more.
    pub fn skip_to(&mut self, context: &mut Context, place: u64, numbers: Vec<u64>) {
        self.accepted = self.accepted.max(self.log.length());
        self.deliver(context);
        for (source, &number) in numbers.iter().enumerate() {
            let message = MessageId(self.log.next(source));
            if message.0 < number {
                context.events.push(Event::LossFound { source: None, message });
            }
        }
        // Those that had them all have delivered its own messages too.
        self.complete_below(context, numbers[context.rank], Outcome::Acknowledged);
        self.begin_at(place, numbers);
    }

    /// Whether the message of this place is here.
    pub fn has(&self, place: u64) -> bool {
        place < self.log.length() || self.log.early().get(&place).is_some_and(|early| early.payload.is_some())
    }

    /// The places in which messages are known to be and lacking, not far ahead.
    pub fn missing(&self, context: &Context, most: u64) -> impl Iterator<Item = u64> {
        let from = self.log.length();
        let end = self.horizon.min(from.saturating_add(most));
        (from..end).filter(|&place| self.has_room(context, place) && !self.has(place))
    }

    /// Whether something is known to be under way that cannot be delivered yet.
    pub fn waits(&self) -> bool {
        self.log.delivered() < self.horizon
    }

    /// The place of these low 32 bits that is nearest to the first that is lacking.
    pub fn near(&self, low: u32) -> u64 {
        near(low, self.log.length())
    }

    /// Whether a message in this place could be kept: the application must not be too far behind,
    /// nor the slowest member.
    pub fn has_room(&self, context: &Context, place: u64) -> bool {
        place < self.consumed(context).min(self.purge).saturating_add(self.history)
    }

    /// The next place for the application.
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

    fn most_apart(&self) -> u64 {
        MAX_FETCHED_HISTORIES * self.history
    }

    /// What has no place will be sent again.
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
