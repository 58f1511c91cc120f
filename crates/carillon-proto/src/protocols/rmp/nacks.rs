//! Negative acknowledgments of a member for slots and messages that it is missing.
//!
//! Multicast ones wait a random time and are suppressed by those of others. One request covers a run of slots, and
//! one timer serves all requests of a member, so that `RequestSchedule` of `blocks`, which has a timer per number,
//! does not fit.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use carillon_core::{BuildContext, Event, MessageId};
use carillon_wire::rmp::{Body, Id, Item};

use super::config::{NackPolicy, Settings};
use super::context::{Context, Timer};
use super::order::Order;
use crate::blocks::reformation::To;
use crate::blocks::{FeedbackDelay, MeasuredTimeout, MissedPolls, RequestedRuns, Uniform};

/// Negative acknowledgments of one member.
#[derive(Debug)]
pub(super) struct Nacks {
    settings: Settings,
    delay: Uniform,
    /// First timestamp beyond all that are known to exist.
    known: u64,
    /// Member that reported `known`, and therefore holds everything before it.
    pub informant: u16,
    /// True once the random delay of the missing slots is over.
    is_due: bool,
    asked: RequestedRuns,
    /// Time in which requests for slots are answered, by the first slot and whether its message is requested.
    timeout: MeasuredTimeout<(u64, bool)>,
    /// Consecutive unanswered requests for slots.
    pub silence: MissedPolls,
    /// Messages without a slot that are missing before a later one of their source; true if a request is due.
    wanted: BTreeMap<Id, bool>,
}

/// Maximum number of slots in one request; it bounds the burst of repairs that follows.
pub(super) const MAX_REQUESTED_RUN: u64 = 32;

/// Maximum number of messages without a slot that are requested at a time.
const MAX_WANTED: usize = 64;

impl Nacks {
    /// Creates the requests of a member without gaps.
    pub fn new(build: &BuildContext, settings: Settings) -> Self {
        let delay = Uniform::new(settings.nack_delay, &build.seeds, "rmp.nack_delay");
        let timeout = settings.measured(settings.request_timeout);
        let (asked, silence, wanted) = Default::default();
        Nacks { settings, delay, known: 0, informant: 0, is_due: false, asked, timeout, silence, wanted }
    }

    /// Forgets everything missing, since another view begins.
    pub fn reset(&mut self) {
        (self.known, self.informant, self.is_due) = (0, 0, false);
        (self.asked, self.silence, self.wanted) = Default::default();
    }

    /// Records that a member holds all slots below a timestamp.
    pub fn learn(&mut self, below: u64, site: u16) {
        if below >= self.known {
            (self.known, self.informant) = (below, site);
        }
    }

    /// Records the messages without a slot that are missing before one that has arrived.
    pub fn miss(&mut self, order: &Order, id: Id) {
        for missing in order.missing_before(id).take(MAX_WANTED) {
            if self.wanted.len() < MAX_WANTED {
                self.wanted.entry(missing).or_insert(false);
            }
        }
    }

    /// Ends the random delay: requests are due.
    pub fn on_delay(&mut self) {
        self.is_due = true;
        self.wanted.values_mut().for_each(|due| *due = true);
    }

    /// Marks everything missing for another request. Returns true if slots stayed unanswered too often.
    pub fn on_timeout(&mut self) -> bool {
        self.is_due = true;
        self.wanted.values_mut().for_each(|due| *due = true);
        if !self.asked.again() {
            return false;
        }
        let has_failed = self.silence.missed(self.settings.patience, self.timeout.current());
        self.timeout.on_expiry();
        has_failed
    }

    /// Records a slot that has arrived, which answers a request for it.
    pub fn on_slot(&mut self, context: &Context, timestamp: u64, with_data: bool) {
        self.timeout.on_answer(context.now, (timestamp, with_data));
    }

    /// Time after which a request is repeated.
    pub fn interval(&self) -> Duration {
        self.timeout.current()
    }

    /// Suppresses the own request for slots after that of another member, which causes the same repairs.
    pub fn on_nack(&mut self, context: &mut Context, order: &Order, run: Range<u64>) {
        let Some((gap, _)) = self.gap(order) else { return };
        if run.contains(&gap.start) && context.timers.armed(Timer::Nack).is_some() {
            context.events.push(Event::RequestSuppressed { message: MessageId(gap.start) });
            self.wait(context);
        }
    }

    /// Suppresses the own request for a message after that of another member.
    pub fn on_nack_data(&mut self, context: &mut Context, id: Id) {
        if self.wanted.contains_key(&id) && context.timers.armed(Timer::Nack).is_some() {
            context.events.push(Event::RequestSuppressed { message: MessageId(id.sequence) });
            self.wait(context);
        }
    }

    /// Returns the next request and its destination.
    pub fn poll(&mut self, context: &mut Context, order: &Order) -> Option<(To, Body<'static>)> {
        if order.is_full(context) {
            return None;
        }
        // Messages that have arrived or have a slot meanwhile are no longer wanted.
        self.wanted.retain(|id, _| order.expected(id.source) <= id.sequence && order.waits(*id).is_none());
        let gap = self.gap(order);
        if gap.is_none() && self.wanted.is_empty() {
            context.timers.cancel(Timer::Request);
            context.timers.cancel(Timer::Nack);
            (self.is_due, self.asked, self.silence) = Default::default();
            return None;
        }
        let waits =
            context.timers.armed(Timer::Nack).is_some() || context.timers.armed(Timer::Request).is_some();
        if !waits && !self.is_due {
            self.delay(context);
        }
        let request = self.next(context, order, gap)?;
        if context.timers.armed(Timer::Request).is_none() {
            context.timers.arm(Timer::Request, context.now + self.timeout.current());
        }
        match request {
            (To::Rank(site), _) if site == context.rank => None,
            request => Some(request),
        }
    }

    /// First run of known slots that are missing, with true if their messages are missing and not the slots.
    pub fn gap(&self, order: &Order) -> Option<(Range<u64>, bool)> {
        let (from, early) = (order.log.length(), order.log.early());
        let known =
            self.known.max(early.last_key_value().map_or(0, |(&last, _)| last + 1)).min(order.limit());
        if from >= known {
            return None;
        }
        let with_data = early.contains_key(&from);
        // The run ends where something else is missing, or nothing.
        let lacks_data = |timestamp: u64| {
            early.get(&timestamp).map(|early| match early.slot.item {
                Item::Message(id) => early.message.is_none() && order.waits(id).is_none(),
                Item::Null | Item::List(_) => false,
            })
        };
        let wanted = with_data.then_some(true);
        let below = (from + 1..known).find(|&timestamp| lacks_data(timestamp) != wanted).unwrap_or(known);
        Some((from..below, with_data))
    }

    /// Next request that is due.
    fn next(
        &mut self,
        context: &mut Context,
        order: &Order,
        gap: Option<(Range<u64>, bool)>,
    ) -> Option<(To, Body<'static>)> {
        if let Some((run, with_data)) = gap.filter(|_| self.is_due) {
            let near = run.start..run.end.min(run.start + MAX_REQUESTED_RUN);
            if let Some(Range { start: from, end: below }) =
                self.asked.next(near, MAX_REQUESTED_RUN, |_| false)
            {
                let site = self.answerer(context, order, from, with_data);
                context.control("nack", from);
                self.timeout.on_request(context.now, (from, with_data));
                return Some((self.destination(site), Body::Nack { site, with_data, from, below }));
            }
        }
        let (&id, due) = self.wanted.iter_mut().find(|(_, due)| **due)?;
        *due = false;
        context.events.push(Event::LossFound { source: None, message: MessageId(id.sequence) });
        context.control("nack-data", id.sequence);
        Some((self.destination(id.source), Body::NackData(id)))
    }

    /// Member that shall answer the request for a slot.
    fn answerer(&self, context: &Context, order: &Order, from: u64, with_data: bool) -> u16 {
        let slot = order.log.early().get(&from).map(|early| early.slot.item);
        match (self.settings.nack, slot) {
            // The source keeps its message until all members hold it.
            (NackPolicy::Source, Some(Item::Message(id)))
                if with_data
                    && usize::from(id.source) != context.rank
                    && order.ring.contains(id.source.into()) =>
            {
                id.source
            }
            _ => self.informant,
        }
    }

    fn destination(&self, site: u16) -> To {
        if self.settings.nack == NackPolicy::Multicast { To::Group } else { To::Rank(site.into()) }
    }

    /// Starts the random delay before a multicast request; others need none.
    fn delay(&mut self, context: &mut Context) {
        let delay = self.delay.delay(0, 0.0);
        if self.settings.nack == NackPolicy::Multicast && !delay.is_zero() {
            context.timers.arm(Timer::Nack, context.now + delay);
        } else {
            self.on_delay();
        }
    }

    /// Waits for the answer to the request of another member.
    fn wait(&mut self, context: &mut Context) {
        context.timers.cancel(Timer::Nack);
        context.timers.arm(Timer::Request, context.now + self.timeout.current());
    }
}
