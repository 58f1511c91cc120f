//! What the sequencer does: it gives places, and knows what the other members have.

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{DropReason, Duration, Event, Time, Transmit};
use carillon_wire::reformation::Ranks;
use carillon_wire::sequencer::{Body, Report, Status};

use super::config::{MIN_INTERVAL, Settings};
use super::context::{Context, Timer};
use super::order::{Entry, Order};
use crate::blocks::Silence;
use crate::blocks::reformation::To;

/// The sequencer's side: the next place, the table of acknowledgments, the synchronisation
/// (Segovia 1996, 2.7).
#[derive(Debug)]
pub(super) struct Leader {
    settings: Settings,
    /// It has sent no message and asked nobody since then.
    idle_since: Time,
    /// The members whose acknowledgments it waits for.
    followers: Ranks,
    /// Followers that hold a message before it is accepted.
    resilience: usize,
    next: u64,
    /// Number after the last place that has been sent to all.
    sent: u64,
    /// For each rank, one past the last place up to which it lacks nothing.
    acks: Vec<u64>,
    /// For each rank, how often it has not answered.
    silence: Vec<Silence>,
    sync: Sync,
    due: Due,
}

/// Whether messages are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    /// They are.
    Open,
    /// The history is full: all members are to get what they lack.
    Phase1,
    /// They have; these are to know that all have.
    Phase2(Ranks),
}

/// What the sequencer has to send besides the next places.
#[derive(Debug, Default)]
struct Due {
    /// Messages have been accepted, and no other packet has said so.
    accept: bool,
    /// PHASE1, to those that are not known to have everything; or PHASE2, to those that have not answered it.
    phase: bool,
    /// Who asked whether it lives.
    alive: Ranks,
    /// Places, and who lacks them.
    repairs: BTreeSet<(u64, usize)>,
}

/// A message in its place, to all or to who asked for it, by the sequencer or between views; or that it is gone.
pub(super) fn answer(
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
    /// The sequencer of a view with these members, all of which hold everything there is.
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
            silence: vec![Silence::default(); count],
            sync: Sync::Open,
            due: Due::default(),
        }
    }

    /// Gives places to the messages that wait for them, the members taking turns.
    pub fn assign_sequence_numbers(&mut self, context: &Context, order: &mut Order) {
        // One at a time: what has a place is sent before the next has one.
        while self.sent == self.next && self.sync == Sync::Open {
            let waiting = order.parked.in_turn(|source| match source == context.rank {
                true => order.outbox.get(order.log.next(source)).is_some(),
                false => order.parked.get(source, order.log.next(source)).is_some(),
            });
            let Some(source) = waiting else { return };
            if self.next - self.purge() >= self.settings.history as u64 {
                self.idle_since = context.now;
                (self.sync, self.due.phase) = (Sync::Phase1, true);
                return self.advance_sync();
            }
            if !order.has_room(context, self.next) {
                // Its own application is too slow.
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

    /// A member wants a message ordered.
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
                // It has a place, which its source does not know: it asks for what it lacks when it learns
                // how far the order has come. Often the message is just on its way.
                context.events.dropped(DropReason::Duplicate);
                self.due.alive.insert(from);
            }
        }
    }

    /// A member lacks the message in this place.
    pub fn on_retrans(&mut self, from: usize, place: u64) {
        if place < self.next {
            self.due.repairs.insert((place, from));
        }
    }

    /// Why a member says what it has.
    pub fn on_report(&mut self, from: usize, kind: Report) {
        match kind {
            Report::AckPhase2 => self.on_phase2_ack(from),
            Report::AliveReq => _ = self.due.alive.insert(from),
            Report::Ack | Report::Dummy | Report::AckCommit => {}
        }
    }

    /// A member says that it has all messages before this place.
    pub fn on_ack(&mut self, context: &mut Context, order: &mut Order, rank: usize, ack: u64) {
        let before = self.accepted();
        self.silence[rank].heard();
        self.acks[rank] = self.acks[rank].max(ack.min(self.next));
        self.due.accept |= self.accepted() > before;
        self.advance_sync();
        // In the basic form it is waited for again, if it lacks nothing that is not held any more.
        if self.settings.resilience == 0 && ack >= order.log.base() && self.followers.insert(rank) {
            context.events.push(Event::MemberJoined { member: context.nodes[rank] });
        }
        self.commit(context, order);
    }

    /// Nothing has happened for long: asks again. Returns who has been silent too often.
    pub fn on_sync_timer(&mut self, now: Time) -> Ranks {
        (self.idle_since, self.due.phase) = (now, true);
        let (patience, interval) = (self.settings.patience, self.sync_interval());
        self.phase().1.iter().filter(|&rank| self.silence[rank].missed(patience, interval)).collect()
    }

    /// Waits for this member no more; returns whether it did.
    pub fn stop_awaiting(&mut self, rank: usize) -> bool {
        let waited = self.followers.remove(rank);
        self.on_phase2_ack(rank);
        self.advance_sync();
        waited
    }

    /// The next packet, if there is one.
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &mut Order,
        view: u32,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some((place, rank)) = self.due.repairs.pop_first() {
            return Some(answer(context, order, view, place, To::Rank(rank), Some(self), buf));
        }
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
        // What goes to all says what is accepted.
        self.due.accept &= to != To::Group;
        let (next, accepted, purge) = (self.next as u32, self.accepted() as u32, self.purge() as u32);
        let body = Body::Status { kind, next, accepted, purge, wanted };
        Some(context.control_to(to, view, body, self.next, buf))
    }

    /// Sets the timer of what is waited for.
    pub fn arm_timer(&self, context: &mut Context) {
        if self.purge() < self.next || self.sync != Sync::Open {
            // An acceptance makes it more patient: the timer may move back.
            let at = (self.idle_since + self.sync_interval()).max(context.now + MIN_INTERVAL);
            context.timers.arm(Timer::Sync, at);
        } else {
            context.timers.cancel(Timer::Sync);
        }
    }

    /// A message in its place.
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

    /// Whether ordering or accepting does not go on before this member has said what it has: all have
    /// to once the history is full, and the first ones by rank for each message.
    pub fn awaits(&self, rank: usize) -> bool {
        if self.sync != Sync::Open {
            return self.phase().1.contains(rank);
        }
        let first = self.followers.iter().take(self.resilience).any(|first| first == rank);
        first && self.has_tentative() && self.acks[rank] <= self.accepted()
    }

    /// Number after the last place up to which this member is known to lack nothing.
    pub fn acknowledged(&self, rank: usize) -> u64 {
        self.acks[rank]
    }

    /// A message in its place, to all.
    fn multicast(
        &mut self,
        context: &mut Context,
        order: &mut Order,
        view: u32,
        place: u64,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        // The packet says what is accepted.
        self.due.accept = false;
        let entry = order.log.get(place)?;
        let message = entry.message;
        // BB: the others have it from its source.
        let short = entry.source != context.rank && entry.payload.len() >= self.settings.large;
        let transmit = match short {
            true => context.control_to(To::Group, view, self.ordered(place, entry, short), message, buf),
            false => answer(context, order, view, place, To::Group, Some(self), buf),
        };
        self.commit(context, order);
        self.idle_since = context.now;
        Some(transmit)
    }

    /// What is accepted is delivered here.
    fn commit(&self, context: &mut Context, order: &mut Order) {
        order.update_bounds(self.next, self.accepted(), self.purge());
        order.purge_history(context);
        order.deliver(context);
    }

    /// How long it waits before it asks.
    fn sync_interval(&self) -> Duration {
        match self.has_tentative() || self.sync != Sync::Open {
            // Somebody waits for that.
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

    /// Messages before this place are accepted: `resilience` members have them beside the sequencer.
    fn accepted(&self) -> u64 {
        if self.resilience == 0 {
            return self.sent;
        }
        let mut acks: Vec<u64> = self.followers.iter().map(|rank| self.acks[rank]).collect();
        acks.sort_unstable_by(|a, b| b.cmp(a));
        acks.get(self.resilience - 1).copied().unwrap_or(0)
    }

    /// Messages before this place are with all members.
    fn purge(&self) -> u64 {
        self.followers.iter().map(|rank| self.acks[rank]).min().unwrap_or(self.next)
    }

    /// Whom it synchronises with: who has not answered PHASE2, or who is not known to have everything.
    fn phase(&self) -> (Status, Ranks) {
        match self.sync {
            Sync::Phase2(missing) => (Status::Phase2, missing),
            Sync::Open | Sync::Phase1 => {
                let behind = self.followers.iter().filter(|&rank| self.acks[rank] < self.next);
                (Status::Phase1, behind.collect())
            }
        }
    }

    /// Whether messages wait to be accepted.
    fn has_tentative(&self) -> bool {
        self.accepted() < self.next
    }

    fn advance_sync(&mut self) {
        if self.sync == Sync::Phase1 && self.purge() == self.next {
            (self.sync, self.due.phase) = (Sync::Phase2(self.followers), true);
        }
        if self.sync == Sync::Phase2(Ranks::default()) {
            (self.sync, self.due.phase) = (Sync::Open, false);
        }
    }
}
