//! Messages of this member on their way: outbox, congestion window, and timeouts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{BuildContext, MessageId, OfferError, Outcome, Time};
use carillon_wire::rmp::{Id, Quality};

use super::config::Settings;
use super::context::{Context, Timer};
use super::slots::Message;
use crate::blocks::{CongestionWindow, Outbox, RetransmissionTimeout, Until};

/// Messages of this member.
#[derive(Debug)]
pub(super) struct Own {
    settings: Settings,
    /// Messages that get a slot, by sequence number.
    pub outbox: Outbox,
    /// Number and quality of each message in the outbox.
    labels: BTreeMap<u64, (u64, Quality)>,
    /// Unreliable messages that were not sent yet.
    unreliable: VecDeque<(u64, Bytes)>,
    /// Unreliable messages that were sent and complete after earlier messages.
    sent_unreliable: BTreeSet<u64>,
    /// Number of the next message.
    next_number: u64,
    /// Number of the next message to complete.
    next_completed: u64,
    /// First sequence number that was never sent.
    unsent: u64,
    window: CongestionWindow,
    timeout: RetransmissionTimeout,
    /// Time of the only transmission of messages without a slot.
    sent: BTreeMap<u64, Time>,
}

impl Own {
    /// Creates the empty outbox.
    pub fn new(build: &BuildContext, settings: Settings) -> Self {
        let window = settings.window as usize;
        let first = settings.data_timeout;
        let mut outbox = Outbox::new(window, Until::Ordered, build.max_payload as usize);
        if build.rejoining {
            // A returning member does not know the numbers of its earlier messages and must not reuse them.
            outbox.finish();
        }
        Own {
            settings,
            outbox,
            labels: BTreeMap::new(),
            unreliable: VecDeque::new(),
            sent_unreliable: BTreeSet::new(),
            next_number: 0,
            next_completed: 0,
            unsent: 0,
            window: CongestionWindow::new(settings.window),
            timeout: RetransmissionTimeout::adaptive(first, MIN_TIMEOUT.min(first), first * MAX_TIMEOUTS)
                .sparing_round_trips(),
            sent: BTreeMap::new(),
        }
    }

    /// Adds a message.
    pub fn offer(&mut self, payload: Bytes) -> Result<MessageId, OfferError> {
        let number = self.next_number;
        let quality = self.settings.service.of(number);
        if quality == Quality::Unreliable && !self.outbox.has_finished() {
            if self.unreliable.len() as u64 >= self.settings.window {
                return Err(OfferError::Full);
            }
            self.outbox.check(&payload)?;
            self.unreliable.push_back((number, payload));
        } else {
            let sequence = self.outbox.offer(payload)?;
            self.labels.insert(sequence, (number, quality));
        }
        self.next_number += 1;
        Ok(MessageId(number))
    }

    /// Takes the next unreliable message. It is complete once it was sent.
    pub fn poll_unreliable(&mut self, context: &mut Context) -> Option<Message> {
        let (number, payload) = self.unreliable.pop_front()?;
        self.sent_unreliable.insert(number);
        self.complete_unreliable(context);
        let id = Id { source: context.rank as u16, sequence: number };
        Some(Message { id, quality: Quality::Unreliable, number, payload })
    }

    /// Takes the next message to send that has a slot or will get one, with true if it was sent before.
    pub fn poll(&mut self, context: &mut Context) -> Option<(Message, bool)> {
        let sequence = self.outbox.first_due()?;
        // The congestion window limits new messages. A repeated one is in flight already.
        if sequence >= self.unsent && self.settings.is_adaptive && self.in_flight() >= self.window.size() {
            return None;
        }
        let (number, quality) = *self.labels.get(&sequence)?;
        let payload = self.outbox.get(sequence)?.clone();
        let before = self.outbox.send(sequence);
        self.unsent = self.unsent.max(sequence + 1);
        // A repeated message gives no sample of the round-trip time (Karn's rule).
        match before {
            true => _ = self.sent.remove(&sequence),
            false => _ = self.sent.insert(sequence, context.now),
        }
        context.timers.arm(Timer::Data(sequence), context.now + self.timeout.current());
        let id = Id { source: context.rank as u16, sequence };
        Some((Message { id, quality, number, payload }, before))
    }

    /// Handles the timeout of a message. Returns true after too many repetitions.
    pub fn on_timeout(&mut self, sequence: u64) -> bool {
        let limit = self.settings.patience.tries(self.timeout.current());
        if self.window.on_timeout(sequence, self.unsent) {
            self.timeout.on_expiry();
        }
        self.outbox.repeat(sequence) > limit
    }

    /// Handles the negative acknowledgment of one of this member's messages; `repeats` to send it again.
    pub fn on_nack(&mut self, sequence: u64, repeats: bool) {
        self.window.on_loss(sequence, self.unsent);
        if repeats {
            self.outbox.demand(sequence);
        }
    }

    /// Notes that a message has a slot, from the token site of this rank.
    pub fn on_ordered(&mut self, context: &mut Context, sequence: u64, site: usize) {
        self.outbox.set_ordered(sequence);
        context.timers.cancel(Timer::Data(sequence));
        self.window.on_acknowledged();
        match self.sent.remove(&sequence) {
            // A message that this member ordered itself has crossed no network. Such samples made the timeout shorter
            // than the way to the other token sites and back.
            Some(_) if site == context.rank => {}
            Some(sent) => self.timeout.on_sample(context.now.since(sent)),
            None => self.timeout.on_recovery(),
        }
    }

    /// Completes the messages before `end`, which were delivered here.
    pub fn complete_below(&mut self, context: &mut Context, end: u64) {
        while let Some((sequence, _)) = self.outbox.complete_below(end) {
            let Some((number, _)) = self.labels.remove(&sequence) else { continue };
            self.complete_unreliable(context);
            self.complete(context, number);
            self.complete_unreliable(context);
        }
    }

    /// Continues the numbering after messages that the group remembers of this member. Returns false if this member
    /// cannot have sent them.
    pub fn join(&mut self, context: &mut Context, next: u64) -> bool {
        if next > self.outbox.end() && !self.outbox.has_finished() {
            return false;
        }
        self.complete_below(context, next);
        // Messages that only this member has ordered are complete here, and the group does not know them. It would wait
        // for their numbers without end.
        let shift = self.outbox.renumber(next).saturating_sub(next);
        let labels = std::mem::take(&mut self.labels).into_iter();
        self.labels = labels.map(|(sequence, label)| (sequence - shift, label)).collect();
        self.unsent = self.unsent.saturating_sub(shift).max(next);
        self.window = CongestionWindow::new(self.settings.window);
        true
    }

    /// Applies a new view, in which the messages before `ordered_below` have slots.
    pub fn on_view(&mut self, ordered_below: u64) {
        self.outbox.reorder(ordered_below);
        self.sent.clear();
    }

    /// Returns true if all messages are complete and none will be offered.
    pub fn is_done(&self) -> bool {
        self.outbox.is_done() && self.unreliable.is_empty()
    }

    /// Number of messages that were sent and have no slot.
    fn in_flight(&self) -> u64 {
        self.unsent - self.outbox.first_unordered().map_or(self.unsent, |first| first.min(self.unsent))
    }

    /// Completes the unreliable messages that were sent, up to the next other one.
    fn complete_unreliable(&mut self, context: &mut Context) {
        while self.sent_unreliable.remove(&self.next_completed) {
            self.complete(context, self.next_completed);
        }
    }

    fn complete(&mut self, context: &mut Context, number: u64) {
        self.next_completed = number + 1;
        context.events.completed(MessageId(number), Outcome::Acknowledged, self.settings.window as u32);
    }
}

/// Lower bound of the time after which a message is repeated: a pass of the token takes time too.
const MIN_TIMEOUT: Duration = Duration::from_millis(20);
/// Upper bound of that time, in first timeouts.
const MAX_TIMEOUTS: u32 = 8;
