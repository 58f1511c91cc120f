//! The role of the sequencer: assigns sequence numbers, tracks acknowledgments, and synchronises when the history is
//! full.

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{DropReason, Duration, Event, Time, Transmit};
use carillon_wire::reformation::Ranks;
use carillon_wire::sequencer::{Body, Report, Status};

use super::config::{MIN_INTERVAL, Settings};
use super::context::{Context, Timer};
use super::order::{Entry, Order};
use crate::blocks::MissedPolls;
use crate::blocks::reformation::To;

/// State of the sequencer: next sequence number, table of acknowledgments, and synchronisation (Segovia 1996, 2.7).
#[derive(Debug)]
pub(super) struct Leader {
    settings: Settings,
    /// Time of the last message or poll.
    idle_since: Time,
    /// Members that the sequencer awaits acknowledgments from.
    followers: Ranks,
    /// Number of followers that hold a message before it is accepted.
    resilience: usize,
    next: u64,
    /// Number after the last sequence number sent to the group.
    sent: u64,
    /// Acknowledged prefix for each rank.
    acks: Vec<u64>,
    /// Unanswered polls for each rank.
    silence: Vec<MissedPolls>,
    sync: Sync,
    due: Due,
}

/// State of the synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    /// Messages are ordered.
    Open,
    /// The history is full: all members fetch what they are missing.
    Phase1,
    /// Members that have yet to confirm the notice that every member is complete.
    Phase2(Ranks),
}

/// Packets due besides the next messages.
#[derive(Debug, Default)]
struct Due {
    /// Acceptances that no other packet has announced.
    accept: bool,
    /// PHASE1 to members not known to be complete, or PHASE2 to members that have not confirmed.
    phase: bool,
    /// Ranks with an unanswered ALIVEREQ.
    alive: Ranks,
    /// Repairs: sequence number and rank.
    repairs: BTreeSet<(u64, usize)>,
}

/// Emits a message with its sequence number to `to`, or GONE if it was purged. Without `leader` it answers a FETCH
/// between views.
pub(super) fn emit_message(
    context: &mut Context,
    order: &mut Order,
    view: u32,
    place: u64,
    to: To,
    leader: Option<&Leader>,
    buf: &mut Vec<u8>,
) -> Transmit {
    let Some(entry) = order.log.get(place) else {
        let first = order.log.base();
        let body = Body::Gone { order: first as u32, state: &order.log.state_at(first) };
        return context.control_to(to, view, body, first, buf);
    };
    let (source, number, payload) = (entry.source, entry.message, &entry.payload);
    let between =
        || Body::Fetched { order: place as u32, source: source as u8, message: number as u32, payload };
    context.emit(view, leader.map_or_else(between, |leader| leader.ordered(place, entry, false)), buf);
    let again = source == context.rank && order.outbox.send_placed(number);
    context.data_sent(to, (source, number), buf.len(), again, to != To::Group)
}

impl Leader {
    /// Creates the sequencer of a view. All its members hold the whole order.
    pub fn new(context: &Context, order: &mut Order, settings: &Settings, members: &Ranks) -> Self {
        let (next, count, mut followers) = (order.log.length(), context.nodes.len(), *members);
        followers.remove(context.rank);
        order.parked.set_turn(context.rank);
        Leader {
            settings: settings.clone(),
            idle_since: context.now,
            followers,
            resilience: settings.resilience.min(followers.len()),
            next,
            sent: next,
            acks: vec![next; count],
            silence: vec![MissedPolls::default(); count],
            sync: Sync::Open,
            due: Due::default(),
        }
    }

    /// Assigns sequence numbers to waiting messages, round-robin over the members.
    pub fn assign_sequence_numbers(&mut self, context: &Context, order: &mut Order) {
        // Send each message before the next one gets a number.
        while self.sent == self.next && self.sync == Sync::Open {
            let waiting = order.parked.in_turn(|source| match source == context.rank {
                true => order.outbox.get(order.log.next(source)).is_some(),
                false => order.parked.get(source, order.log.next(source)).is_some(),
            });
            let Some(source) = waiting else { return };
            // A full history: synchronise in two phases before more messages are ordered (2.7).
            if self.next - self.purge() >= self.settings.history as u64 {
                self.idle_since = context.now;
                (self.sync, self.due.phase) = (Sync::Phase1, true);
                return self.advance_sync();
            }
            if !order.has_room(context, self.next) {
                // The sequencer's own application is too slow.
                return;
            }
            let message = order.log.next(source);
            let own = || order.outbox.get(message).cloned();
            let payload = if source == context.rank { own() } else { None };
            order.insert(context, self.next, (source, message), payload);
            order.parked.set_turn(source);
            if source == context.rank {
                order.outbox.set_ordered(message);
            }
            self.next += 1;
        }
    }

    /// Handles a message to be ordered.
    pub fn on_request(
        &mut self,
        context: &mut Context,
        order: &mut Order,
        from: usize,
        message: u64,
        payload: Bytes,
    ) {
        match message.checked_sub(order.log.next(from)) {
            Some(ahead) if ahead < self.settings.window as u64 => order.park(from, message, payload),
            Some(_) => context.events.dropped(DropReason::OutOfWindow),
            None => {
                // The message was ordered, which its source does not know. An ALIVE tells it how far the order is, so
                // that it requests what it misses.
                context.events.dropped(DropReason::Duplicate);
                self.due.alive.insert(from);
            }
        }
    }

    /// Handles a RETRANS for one sequence number.
    pub fn on_retrans(&mut self, from: usize, place: u64) {
        if place < self.next {
            self.due.repairs.insert((place, from));
        }
    }

    /// Handles the reason of a report.
    pub fn on_report(&mut self, from: usize, kind: Report) {
        match kind {
            Report::AckPhase2 => self.on_phase2_ack(from),
            Report::AliveReq => _ = self.due.alive.insert(from),
            Report::Ack | Report::Dummy | Report::AckCommit => {}
        }
    }

    /// Handles a cumulative acknowledgment of all messages before `ack`.
    pub fn on_ack(&mut self, context: &mut Context, order: &mut Order, rank: usize, ack: u64) {
        let before = self.accepted();
        self.silence[rank].heard();
        self.acks[rank] = self.acks[rank].max(ack.min(self.next));
        // The acceptance is announced by the next packet to the group, or by a STATUS.
        self.due.accept |= self.accepted() > before;
        self.advance_sync();
        // Basic form: a member that was dropped returns, unless it misses a purged message.
        if self.settings.resilience == 0 && ack >= order.log.base() && self.followers.insert(rank) {
            context.events.push(Event::MemberJoined { member: context.nodes[rank] });
        }
        self.commit(context, order);
    }

    /// Handles the idle timeout: polls again. Returns the ranks that stayed silent too long.
    pub fn on_sync_timer(&mut self, now: Time) -> Ranks {
        (self.idle_since, self.due.phase) = (now, true);
        let (patience, interval) = (self.settings.patience, self.sync_interval());
        self.phase().1.iter().filter(|&rank| self.silence[rank].missed(patience, interval)).collect()
    }

    /// Stops awaiting a member. Returns true if it was awaited.
    pub fn stop_awaiting(&mut self, rank: usize) -> bool {
        let waited = self.followers.remove(rank);
        self.on_phase2_ack(rank);
        self.advance_sync();
        waited
    }

    /// Emits the next packet.
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &mut Order,
        view: u32,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some((place, rank)) = self.due.repairs.pop_first() {
            return Some(emit_message(context, order, view, place, To::Rank(rank), Some(self), buf));
        }
        // Repairs come before new messages, so that no member falls behind the history.
        if self.sent < self.next {
            self.sent += 1;
            return self.multicast(context, order, view, self.sent - 1, buf);
        }
        let ((kind, wanted), to) = if let Some(rank) = self.due.alive.iter().next() {
            self.due.alive.remove(rank);
            ((Status::Alive, Ranks::default()), To::Rank(rank))
        } else if std::mem::take(&mut self.due.phase) && !self.phase().1.is_empty() {
            (self.phase(), To::Group)
        } else if self.due.accept {
            ((Status::Accept, Ranks::default()), To::Group)
        } else {
            return None;
        };
        // Packets to the group announce acceptances.
        self.due.accept &= to != To::Group;
        let (next, accepted, purge) = (self.next as u32, self.accepted() as u32, self.purge() as u32);
        let body = Body::Status { kind, next, accepted, purge, wanted };
        Some(context.control_to(to, view, body, self.next, buf))
    }

    /// Arms the timer of the synchronisation or idle poll.
    pub fn arm_timer(&self, context: &mut Context) {
        if self.purge() < self.next || self.sync != Sync::Open {
            // The interval grows when all messages are accepted, so the timer may move back.
            let at = (self.idle_since + self.sync_interval()).max(context.now + MIN_INTERVAL);
            context.timers.arm(Timer::Sync, at);
        } else {
            context.timers.cancel(Timer::Sync);
        }
    }

    /// Body of an ORDERED packet; `short` leaves out the payload (BB).
    pub fn ordered<'a>(&self, place: u64, entry: &'a Entry, short: bool) -> Body<'a> {
        Body::Ordered {
            order: place as u32,
            accepted: self.accepted() as u32,
            purge: self.purge() as u32,
            source: entry.source as u8,
            message: entry.message as u32,
            payload: (!short).then_some(&entry.payload),
        }
    }

    /// Returns true if ordering or acceptance waits for this member: every member once the history is full, and the
    /// first `resilience` members for each message.
    pub fn awaits(&self, rank: usize) -> bool {
        if self.sync != Sync::Open {
            return self.phase().1.contains(rank);
        }
        let first = self.followers.iter().take(self.resilience).any(|first| first == rank);
        first && self.has_tentative() && self.acks[rank] <= self.accepted()
    }

    /// Acknowledged prefix of a member.
    pub fn acknowledged(&self, rank: usize) -> u64 {
        self.acks[rank]
    }

    /// Emits a message with its sequence number to the group.
    fn multicast(
        &mut self,
        context: &mut Context,
        order: &mut Order,
        view: u32,
        place: u64,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        // The packet announces acceptances too.
        self.due.accept = false;
        let entry = order.log.get(place)?;
        let message = entry.message;
        // BB: the others have the payload from its source.
        let short = entry.source != context.rank && entry.payload.len() >= self.settings.large;
        let transmit = match short {
            true => context.control_to(To::Group, view, self.ordered(place, entry, short), message, buf),
            false => emit_message(context, order, view, place, To::Group, Some(self), buf),
        };
        self.commit(context, order);
        self.idle_since = context.now;
        Some(transmit)
    }

    /// Delivers accepted messages at the sequencer.
    fn commit(&self, context: &mut Context, order: &mut Order) {
        order.update_bounds(self.next, self.accepted(), self.purge());
        order.purge_history(context);
        order.deliver(context);
    }

    /// Time before the sequencer polls: shorter while a message waits for acceptance.
    fn sync_interval(&self) -> Duration {
        match self.has_tentative() || self.sync != Sync::Open {
            // A source awaits the acceptance.
            true => self.settings.retrans_interval.min(self.settings.sync_interval),
            false => self.settings.sync_interval,
        }
    }

    fn on_phase2_ack(&mut self, rank: usize) {
        if let Sync::Phase2(missing) = &mut self.sync {
            missing.remove(rank);
            self.advance_sync();
        }
    }

    /// Number of accepted messages: held by `resilience` members besides the sequencer.
    fn accepted(&self) -> u64 {
        if self.resilience == 0 {
            return self.sent;
        }
        // The r-th largest acknowledged prefix is held by r members.
        let mut acks: Vec<u64> = self.followers.iter().map(|rank| self.acks[rank]).collect();
        acks.sort_unstable_by(|a, b| b.cmp(a));
        acks.get(self.resilience - 1).copied().unwrap_or(0)
    }

    /// Number of messages that all members hold.
    fn purge(&self) -> u64 {
        self.followers.iter().map(|rank| self.acks[rank]).min().unwrap_or(self.next)
    }

    /// Phase of the synchronisation, and the ranks to poll.
    fn phase(&self) -> (Status, Ranks) {
        match self.sync {
            Sync::Phase2(missing) => (Status::Phase2, missing),
            Sync::Open | Sync::Phase1 => {
                let behind = self.followers.iter().filter(|&rank| self.acks[rank] < self.next);
                (Status::Phase1, behind.collect())
            }
        }
    }

    /// Returns true if a message waits for acceptance.
    fn has_tentative(&self) -> bool {
        self.accepted() < self.next
    }

    fn advance_sync(&mut self) {
        // Phase 1 ends when every member holds everything; phase 2 when every member knows so.
        if self.sync == Sync::Phase1 && self.purge() == self.next {
            (self.sync, self.due.phase) = (Sync::Phase2(self.followers), true);
        }
        if self.sync == Sync::Phase2(Ranks::default()) {
            (self.sync, self.due.phase) = (Sync::Open, false);
        }
    }
}
