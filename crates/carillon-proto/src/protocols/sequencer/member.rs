//! What a member does with the packets of its view, and when nothing comes.

use bytes::Bytes;
use carillon_core::{DropReason, Event, MessageId, Outcome, Time, expand};
use carillon_wire::reformation::Ranks;
use carillon_wire::sequencer::{Body, Report, Status};

use super::election::decode;
use super::log::Entry;
use super::peer::SequencerPeer;

impl SequencerPeer {
    /// A packet of this view from another of its members.
    pub(super) fn on_body(&mut self, from: usize, body: Body<'_>, bytes: &Bytes) {
        if from == self.reformation.view().leader() {
            self.follower.silence = 0;
            if std::mem::take(&mut self.follower.orphaned) {
                self.events.push(Event::MemberJoined { member: self.members[from] });
            }
        }
        match body {
            Body::Ordered { order, accepted, purge, source, message, payload } if self.follows(from) => {
                let payload = payload.map(|payload| bytes.slice_ref(payload));
                self.learn(order.wrapping_add(1), accepted, purge);
                self.on_ordered(order, source.into(), message, payload);
            }
            Body::Status { kind, next, accepted, purge, wanted } if self.follows(from) => {
                self.received(body.name(), u64::from(next));
                self.learn(next, accepted, purge);
                if wanted.contains(self.rank) {
                    self.on_status(kind);
                }
                if matches!(kind, Status::Phase1 | Status::Phase2) {
                    self.follower.wanted = wanted;
                }
            }
            Body::Gone { order, state } if self.follows(from) => self.on_gone(order, state),
            Body::Request { ack, message, broadcast, payload } => {
                let payload = bytes.slice_ref(payload);
                let number = near(message, self.number_of(from));
                self.received(body.name(), number);
                if self.leader.is_some() {
                    self.on_ack(from, ack);
                    self.on_request(from, number, payload);
                } else if broadcast {
                    self.reception.park(from, number, payload);
                } else {
                    self.events.dropped(DropReason::OutOfWindow);
                }
            }
            Body::Retrans { ack, order } if self.leader.is_some() => {
                let place = near(order, self.reception.contiguous());
                self.received(body.name(), place);
                self.on_ack(from, ack);
                self.repair(place, from);
            }
            Body::Report { kind, ack } if self.leader.is_some() => {
                self.received(body.name(), u64::from(ack));
                self.on_ack(from, ack);
                self.on_report(from, kind);
            }
            _ => self.events.dropped(DropReason::OutOfWindow),
        }
        self.deliver();
    }

    /// The sequencer, or the messages lacking, or an acceptance are waited for in vain.
    pub(super) fn on_wait(&mut self, now: Time) {
        if std::mem::take(&mut self.follower.progress) {
            self.follower.patience = 0;
            return;
        }
        self.follower.patience = (self.follower.patience + 1).min(MOST_PATIENCE);
        if self.on_silence(now) {
            return;
        }
        // What is in its place lacks only its acceptance, if it is here.
        if !self.outbox.retry() && self.reception.missing(MOST_ASKED).next().is_none() {
            self.follower.report = Some(Report::AliveReq);
        }
    }

    /// Messages that were asked for have not come.
    pub(super) fn on_retrans_timer(&mut self, now: Time) {
        let interval = self.settings.retrans_interval;
        self.follower.asked.retain(|_, &mut asked| asked + interval > now);
    }

    /// The next place to ask for.
    pub(super) fn next_to_ask(&mut self, now: Time) -> Option<u64> {
        let (asked, interval) = (&mut self.follower.asked, self.settings.retrans_interval);
        let missing: Vec<u64> = self.reception.missing(MOST_ASKED).collect();
        asked.retain(|place, _| missing.contains(place));
        missing.into_iter().find(|place| asked.get(place).is_none_or(|&asked| asked + interval <= now))
    }

    /// This member takes packets of the sequencer from that one.
    fn follows(&self, from: usize) -> bool {
        self.leader.is_none() && from == self.reformation.view().leader()
    }

    fn received(&mut self, packet: &'static str, message: u64) {
        self.events.push(Event::Received { packet, message: MessageId(message) });
    }

    /// The next message that is expected of a member.
    fn number_of(&self, source: usize) -> u64 {
        match &self.leader {
            Some(leader) => leader.ordered(source),
            None => self.reception.heard(source),
        }
    }

    fn learn(&mut self, next: u32, accepted: u32, purge: u32) {
        let at = self.reception.contiguous();
        self.reception.learn(near(next, at), near(accepted, at), near(purge, at));
    }

    /// 2.7: a message out of order is kept if there is room, and those before it are asked for.
    fn on_ordered(&mut self, order: u32, source: usize, message: u32, payload: Option<Bytes>) {
        let before = self.reception.contiguous();
        let place = near(order, before);
        if source >= self.members.len() {
            return self.events.dropped(DropReason::Malformed);
        }
        let number = near(message, self.reception.heard(source));
        let known = self.reception.log().get(place).is_some() || place < before;
        // Its own messages it has itself.
        let own = || self.outbox.get(number).map(|message| message.payload.clone());
        let payload = payload.or_else(|| (source == self.rank).then(own).flatten());
        if known {
            self.events.dropped(DropReason::Duplicate);
        } else if self.reception.insert(place, Entry { source, message: number, body: payload }) {
            self.received("ordered", number);
            self.follower.wanted = Ranks::default();
            if source == self.rank {
                self.outbox.set_ordered(number);
                self.follower.progress = true;
            }
        } else {
            self.events.dropped(DropReason::BufferFull);
        }
        let is_new = |place: &u64| !self.follower.asked.contains_key(place);
        if let Some(lacking) = self.reception.missing(MOST_ASKED).find(is_new) {
            self.events.push(Event::LossFound { source: None, message: MessageId(lacking) });
        }
        let has = self.reception.contiguous();
        if self.is_acker() {
            // Again if it comes again: the acknowledgment may have been lost.
            if has > before || (known && self.reception.accepted() < has) {
                self.follower.report = Some(Report::Ack);
            }
        } else if has - self.follower.reported.min(has) >= self.dummy_after() {
            self.follower.report.get_or_insert(Report::Dummy);
        }
    }

    fn on_status(&mut self, kind: Status) {
        let lacks = self.reception.missing(MOST_ASKED).next().is_some();
        let report = match kind {
            Status::Phase1 if !lacks => Some(Report::AckCommit),
            Status::Phase2 => Some(Report::AckPhase2),
            _ => None,
        };
        self.follower.report = report.or(self.follower.report);
    }

    /// The sequencer of the basic form has gone on without this member.
    fn on_gone(&mut self, order: u32, state: &[u8]) {
        let place = near(order, self.reception.contiguous());
        match decode(state, self.members.len()) {
            Some(numbers) if place > self.reception.contiguous() => self.skip_to(place, numbers),
            _ => self.events.dropped(DropReason::OutOfWindow),
        }
    }

    /// Nothing before this place can be had any more.
    pub(super) fn skip_to(&mut self, place: u64, numbers: Vec<u64>) {
        self.reception.accept_below(self.reception.contiguous());
        self.deliver();
        for (&old, &new) in self.reception.numbers_at(place).iter().zip(&numbers) {
            if old < new {
                self.events.push(Event::LossFound { source: None, message: MessageId(old) });
            }
        }
        // Those that had them all have delivered its own messages too.
        let own = numbers[self.rank];
        self.reception.skip_to(place, numbers);
        self.complete_below(own, Outcome::Acknowledged);
    }

    /// Counts that nothing came; returns whether the sequencer is taken to be dead.
    fn on_silence(&mut self, now: Time) -> bool {
        self.follower.silence += 1;
        let dead = self.follower.silence > self.settings.patience.tries(self.settings.request_timeout);
        if dead {
            self.follower.silence = 0;
            self.suspect(now, self.reformation.view().leader());
        }
        dead
    }

    /// This member is taken to be dead: a view without it is made, or, in the basic form, it is not
    /// waited for.
    pub(super) fn suspect(&mut self, now: Time, rank: usize) {
        if self.settings.resilience > 0 {
            if self.leader.is_some() || rank == self.reformation.view().leader() {
                self.reformation.begin(now);
            }
            return;
        }
        let member = self.members[rank];
        match self.leader.as_mut().map(|leader| leader.give_up(rank)) {
            Some(true) => self.events.member_lost(member),
            None if rank == self.reformation.view().leader() && !self.follower.orphaned => {
                self.follower.orphaned = true;
                self.events.member_lost(member);
                self.complete_below(u64::MAX, Outcome::Failed);
            }
            _ => {}
        }
    }

    /// Whether this member is one of those whose acknowledgments make a message accepted: the first
    /// ones by rank, beside the sequencer.
    fn is_acker(&self) -> bool {
        let view = self.reformation.view();
        let mut others = view.members.iter().filter(|&rank| rank != view.leader());
        others.by_ref().take(self.settings.resilience).any(|rank| rank == self.rank)
    }

    /// After so many messages that it has not acknowledged a member says so: a quarter to half of the
    /// history, each member at another time.
    fn dummy_after(&self) -> u64 {
        let (history, count) = (self.settings.history as u64, self.members.len() as u64);
        (history / 4 + history / 4 * self.rank as u64 / count).max(1)
    }
}

/// The number of these low 32 bits that is nearest to an expected one.
pub(super) fn near(low: u32, expected: u64) -> u64 {
    expand(low.into(), 1 << 32, expected)
}

/// Messages that are asked for at once, at most (Amoeba: 4): more than that would make the answers of a
/// busy sequencer come so late that they are asked for again.
pub(super) const MOST_ASKED: u64 = 4;

/// The request timeout doubles so often, at most, while nothing happens.
const MOST_PATIENCE: u32 = 2;
