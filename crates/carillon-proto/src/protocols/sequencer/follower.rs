//! What a member does that is not the sequencer: it says what it has and asks for what it lacks.

use std::collections::BTreeMap;

use bytes::Bytes;
use carillon_core::{DropReason, Event, MessageId, Time, Transmit};
use carillon_wire::reformation::Ranks;
use carillon_wire::sequencer::{Body, Report, Status};

use super::config::{MIN_INTERVAL, Settings};
use super::context::{Context, Timer};
use super::order::Order;
use crate::blocks::reformation::{To, View};
use crate::blocks::{Silence, near};

/// What a member has told the sequencer, and has to tell.
#[derive(Debug)]
pub(super) struct Follower {
    settings: Settings,
    /// Whether its acknowledgments make a message accepted: those of the first ones by rank do, beside the sequencer.
    is_acker: bool,
    /// After so many messages that it has not acknowledged it says so: a quarter to half of the history, each member at
    /// another time.
    dummy_after: u64,
    /// The last acknowledgment sent.
    reported: u64,
    /// An acknowledgment is to be sent, and why.
    report: Option<Report>,
    /// Places that have been asked for, and when.
    requested: BTreeMap<u64, Time>,
    /// Whom the sequencer has asked what they have, since the order went on last.
    wanted: Ranks,
    /// How often nothing came from the sequencer.
    pub silence: Silence,
    /// How often the request timeout has been doubled.
    doubled: u32,
    /// Something that it waits for came since the timer was set.
    pub progress: bool,
}

impl Follower {
    /// A member of this view, of whose order it has all.
    pub fn new(context: &Context, settings: &Settings, view: &View, length: u64) -> Self {
        let others = view.members.iter().filter(|&rank| rank != view.leader());
        let (history, count) = (settings.history as u64, context.nodes.len() as u64);
        Follower {
            is_acker: others.take(settings.resilience).any(|rank| rank == context.rank),
            dummy_after: (history / 4 + history / 4 * context.rank as u64 / count).max(1),
            settings: settings.clone(),
            reported: length,
            report: None,
            requested: BTreeMap::new(),
            wanted: Ranks::default(),
            silence: Silence::default(),
            doubled: 0,
            progress: false,
        }
    }

    /// 2.7: a message out of order is kept if there is room, and those before it are asked for. `of` is whose message it
    /// is, and the low bits of its number.
    pub fn on_ordered(
        &mut self,
        context: &mut Context,
        order: &mut Order,
        place: u64,
        of: (usize, u32),
        payload: Option<Bytes>,
    ) {
        let (before, source) = (order.log.length(), of.0);
        if source >= context.nodes.len() {
            return context.events.dropped(DropReason::Malformed);
        }
        let number = near(of.1, order.log.next(source));
        let known = order.has(place);
        // Its own messages it has itself.
        let own = || order.outbox.get(number).filter(|_| source == context.rank).cloned();
        let payload = payload.or_else(own);
        if known {
            context.events.dropped(DropReason::Duplicate);
        } else if order.insert(context, place, (source, number), payload) {
            context.received("ordered", number);
            self.wanted = Ranks::default();
            if source == context.rank {
                order.outbox.set_ordered(number);
                self.progress = true;
            }
        } else {
            context.events.dropped(DropReason::BufferFull);
        }
        let new =
            order.missing(context, MAX_RETRANS_REQUESTS).find(|place| !self.requested.contains_key(place));
        if let Some(lacking) = new {
            context.events.push(Event::LossFound { source: None, message: MessageId(lacking) });
        }
        let has = order.log.length();
        if self.is_acker {
            // Again if it comes again: the acknowledgment may have been lost.
            if has > before || (known && order.accepted < has) {
                self.report = Some(Report::Ack);
            }
        } else if has - self.reported.min(has) >= self.dummy_after {
            self.report.get_or_insert(Report::Dummy);
        }
    }

    /// The sequencer says what it knows, and who is to answer.
    pub fn on_status(&mut self, context: &Context, order: &Order, kind: Status, wanted: Ranks) {
        if wanted.contains(context.rank) {
            let report = match kind {
                Status::Phase1 if order.missing(context, MAX_RETRANS_REQUESTS).next().is_none() => {
                    Some(Report::AckCommit)
                }
                Status::Phase2 => Some(Report::AckPhase2),
                _ => None,
            };
            self.report = report.or(self.report);
        }
        if matches!(kind, Status::Phase1 | Status::Phase2) {
            self.wanted = wanted;
        }
    }

    /// The sequencer, or the messages lacking, or an acceptance are waited for in vain. Returns whether the sequencer is
    /// taken to be dead.
    pub fn on_wait(&mut self, context: &Context, order: &mut Order) -> bool {
        self.doubled = (self.doubled + 1).min(MAX_TIMEOUT_DOUBLINGS);
        if self.silence.missed(self.settings.patience, self.settings.request_timeout) {
            self.silence.heard();
            return true;
        }
        // Only the oldest: the sequencer keeps later ones until it has that, and what is too much for
        // the network is not helped by more.
        if let Some(oldest) = order.outbox.first_unordered() {
            order.outbox.repeat(oldest);
        } else if order.missing(context, MAX_RETRANS_REQUESTS).next().is_none() {
            // What is in its place lacks only its acceptance, if it is here.
            self.report = Some(Report::AliveReq);
        }
        false
    }

    /// Messages that were asked for have not come.
    pub fn on_retrans_timer(&mut self, now: Time) {
        let interval = self.settings.retrans_interval;
        self.requested.retain(|_, &mut requested| requested + interval > now);
    }

    /// The next packet, if there is one. An acknowledgment that waits rides on whatever goes to the sequencer anyway.
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &mut Order,
        view: &View,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let (leader, view) = (To::Rank(view.leader()), view.number());
        let has = order.log.length();
        let ack = has as u32;
        if let Some(place) = self.next_missing(context, order) {
            self.requested.insert(place, context.now);
            self.on_reported(has);
            let body = Body::Retrans { ack, order: place as u32 };
            return Some(context.control_to(leader, view, body, place, buf));
        }
        if let Some(number) = order.outbox.first_due() {
            let payload = order.outbox.get(number)?;
            let broadcast = payload.len() >= self.settings.large;
            context.emit(view, Body::Request { ack, message: number as u32, broadcast, payload }, buf);
            let again = order.outbox.send(number);
            self.on_reported(has);
            let to = if broadcast { To::Group } else { leader };
            return Some(context.data_sent(to, (context.rank, number), buf.len(), again, again));
        }
        let kind = self.report.take()?;
        self.reported = has;
        Some(context.control_to(leader, view, Body::Report { kind, ack }, has, buf))
    }

    /// Sets the timers of what is waited for.
    pub fn arm_timers(&mut self, context: &mut Context, order: &Order, has_lost_sequencer: bool) {
        if std::mem::take(&mut self.progress) {
            // What is waited for next has all of the time.
            self.doubled = 0;
            context.timers.cancel(Timer::Wait);
        }
        let waits = !order.outbox.is_empty() || order.waits();
        let alive = self.settings.alive_interval;
        let wait = match has_lost_sequencer {
            false if waits => Some(self.settings.request_timeout.saturating_mul(1 << self.doubled)),
            false if !alive.is_zero() => Some(alive),
            _ => None,
        };
        match wait {
            None => _ = context.timers.cancel(Timer::Wait),
            Some(wait) if context.timers.armed(Timer::Wait).is_none_or(|at| at > context.now + wait) => {
                context.timers.arm(Timer::Wait, context.now + wait);
            }
            Some(_) => {}
        }
        match self.requested.values().min().map(|&requested| requested + self.settings.retrans_interval) {
            Some(at) => context.timers.arm(Timer::Retrans, at.max(context.now + MIN_INTERVAL)),
            None => _ = context.timers.cancel(Timer::Retrans),
        }
    }

    /// Whether it waits for this member: for the sequencer, which says for whom it waits itself.
    pub fn awaits(&self, order: &Order, view: &View, rank: usize) -> bool {
        let waits = !order.outbox.is_empty() || order.waits();
        waits && if self.wanted.is_empty() { rank == view.leader() } else { self.wanted.contains(rank) }
    }

    /// The next place to ask for.
    fn next_missing(&mut self, context: &Context, order: &Order) -> Option<u64> {
        let (requested, interval) = (&mut self.requested, self.settings.retrans_interval);
        let missing: Vec<u64> = order.missing(context, MAX_RETRANS_REQUESTS).collect();
        requested.retain(|place, _| missing.contains(place));
        missing.into_iter().find(|place| requested.get(place).is_none_or(|&at| at + interval <= context.now))
    }

    /// An acknowledgment rode on another packet: it need not go alone.
    fn on_reported(&mut self, has: u64) {
        self.reported = has;
        self.report.take_if(|report| matches!(report, Report::Ack | Report::Dummy | Report::AckCommit));
    }
}

/// Messages that are asked for at once, at most (Amoeba: 4): more than that would make the answers of a
/// busy sequencer come so late that they are asked for again.
pub(super) const MAX_RETRANS_REQUESTS: u64 = 4;

/// The request timeout doubles so often, at most, while nothing happens.
const MAX_TIMEOUT_DOUBLINGS: u32 = 2;
