//! The role of a member that is not the sequencer: acknowledgments, requests for missing messages, and retransmission
//! of its own.

use std::collections::BTreeMap;

use bytes::Bytes;
use carillon_core::{DropReason, Event, MessageId, Time, Transmit};
use carillon_wire::reformation::Ranks;
use carillon_wire::sequencer::{Body, Report, Status};

use super::config::{MIN_INTERVAL, Settings};
use super::context::{Context, Timer};
use super::order::Order;
use crate::blocks::reformation::{To, View};
use crate::blocks::{MissedPolls, near};

/// State of a member towards its sequencer.
#[derive(Debug)]
pub(super) struct Follower {
    settings: Settings,
    /// True if messages are accepted by this member's acknowledgments: it is one of the first `resilience` members by
    /// rank after the sequencer.
    is_acker: bool,
    /// Number of unacknowledged messages after which the member sends a DUMMY. Between a quarter and half of the
    /// history, staggered by rank.
    dummy_after: u64,
    /// Number of messages in the last acknowledgment sent.
    reported: u64,
    /// Report to send, and its reason.
    report: Option<Report>,
    /// Outstanding RETRANS requests by sequence number, with the time of each.
    requested: BTreeMap<u64, Time>,
    /// Ranks that the sequencer has polled since the last new message.
    wanted: Ranks,
    /// Silence of the sequencer.
    pub silence: MissedPolls,
    /// Number of doublings of the request timeout.
    doubled: u32,
    /// True if an awaited message or sequence number arrived since the timer was armed.
    pub progress: bool,
}

impl Follower {
    /// Creates a follower in this view that holds all `length` messages of the order.
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
            silence: MissedPolls::default(),
            doubled: 0,
            progress: false,
        }
    }

    /// Handles a message with its sequence number (2.7): keeps it if there is room, and requests earlier missing
    /// ones. `of` is the rank of its source and the low bits of its number.
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
        // A message of this member is in its own outbox.
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
        // A new gap below this message is a loss.
        let new =
            order.missing(context, MAX_RETRANS_REQUESTS).find(|place| !self.requested.contains_key(place));
        if let Some(missing) = new {
            context.events.push(Event::LossFound { source: None, message: MessageId(missing) });
        }
        let has = order.log.length();
        if self.is_acker {
            // A repeated packet repeats the acknowledgment, which may have been lost.
            if has > before || (known && order.accepted < has) {
                self.report = Some(Report::Ack);
            }
        } else if has - self.reported.min(has) >= self.dummy_after {
            self.report.get_or_insert(Report::Dummy);
        }
    }

    /// Handles a STATUS of the sequencer, with the ranks that are to answer.
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

    /// Handles the timeout of an awaited acceptance, message or sequence number. Returns true if the sequencer is
    /// considered crashed.
    pub fn on_wait(&mut self, context: &Context, order: &mut Order) -> bool {
        self.doubled = (self.doubled + 1).min(MAX_TIMEOUT_DOUBLINGS);
        if self.silence.missed(self.settings.patience, self.settings.request_timeout) {
            self.silence.heard();
            return true;
        }
        // Repeat the oldest request only: the sequencer keeps later ones until it has this, and more packets would
        // not help a congested network.
        if let Some(oldest) = order.outbox.first_unordered() {
            order.outbox.repeat(oldest);
        } else if order.missing(context, MAX_RETRANS_REQUESTS).next().is_none() {
            // The message is here and lacks its acceptance only: ask the sequencer for its status.
            self.report = Some(Report::AliveReq);
        }
        false
    }

    /// Drops outstanding RETRANS requests that have timed out, so that they are sent again.
    pub fn on_retrans_timer(&mut self, now: Time) {
        let interval = self.settings.retrans_interval;
        self.requested.retain(|_, &mut requested| requested + interval > now);
    }

    /// Emits the next packet. A pending acknowledgment rides on any packet to the sequencer.
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
        // Gaps first: messages behind them cannot be delivered.
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

    /// Arms the timers for the awaited packets.
    pub fn arm_timers(&mut self, context: &mut Context, order: &Order, has_lost_sequencer: bool) {
        if std::mem::take(&mut self.progress) {
            // Progress gives the next awaited packet a full timeout.
            self.doubled = 0;
            context.timers.cancel(Timer::Wait);
        }
        let waits = !order.outbox.is_empty() || order.waits();
        let alive = self.settings.alive_interval;
        // With outstanding requests wait for the sequencer; otherwise only check that it is alive.
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

    /// Returns true if this member awaits `rank`: the members that the sequencer polls, or else the sequencer.
    pub fn awaits(&self, order: &Order, view: &View, rank: usize) -> bool {
        let waits = !order.outbox.is_empty() || order.waits();
        waits && if self.wanted.is_empty() { rank == view.leader() } else { self.wanted.contains(rank) }
    }

    /// Sequence number of the next message to request.
    fn next_missing(&mut self, context: &Context, order: &Order) -> Option<u64> {
        let (requested, interval) = (&mut self.requested, self.settings.retrans_interval);
        let missing: Vec<u64> = order.missing(context, MAX_RETRANS_REQUESTS).collect();
        requested.retain(|place, _| missing.contains(place));
        missing.into_iter().find(|place| requested.get(place).is_none_or(|&at| at + interval <= context.now))
    }

    /// Records an acknowledgment that rode on another packet, and drops the separate report.
    fn on_reported(&mut self, has: u64) {
        self.reported = has;
        self.report.take_if(|report| matches!(report, Report::Ack | Report::Dummy | Report::AckCommit));
    }
}

/// Maximum number of outstanding RETRANS requests (Amoeba: 4). With more, a busy sequencer would answer so late that
/// they are repeated.
pub(super) const MAX_RETRANS_REQUESTS: u64 = 4;

/// Maximum number of doublings of the request timeout.
const MAX_TIMEOUT_DOUBLINGS: u32 = 2;
