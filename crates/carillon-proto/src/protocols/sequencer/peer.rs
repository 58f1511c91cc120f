//! A member of the group: any of them can be the sequencer.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    AssociationId, BuildContext, Config, ConfigError, Delivery, DropReason, Duration, Event, Events, GroupId,
    Machine, MessageId, NodeId, OfferError, Outcome, Received, Receiver, Sender, Time, Timers, Transmit,
};
use carillon_wire::reformation::Ranks;
use carillon_wire::sequencer::{Body, Packet, Report};

use super::config::Settings;
use super::election::{Fetching, Serve};
use super::leader::Leader;
use super::outbox::Outbox;
use super::reception::Reception;
use crate::blocks::reformation::{Reformation, Terms};

/// A member: sends, delivers, and orders the messages of all while it is the sequencer.
#[derive(Debug)]
pub struct SequencerPeer {
    pub(super) association: AssociationId,
    pub(super) group: GroupId,
    pub(super) members: Arc<[NodeId]>,
    pub(super) rank: usize,
    pub(super) settings: Settings,
    pub(super) outbox: Outbox,
    pub(super) reception: Reception,
    pub(super) follower: Follower,
    /// The sequencer's side, while this member is the sequencer.
    pub(super) leader: Option<Leader>,
    /// The sequencer has sent no message and asked nobody since then.
    pub(super) quiet_since: Time,
    pub(super) reformation: Reformation,
    /// The members of the last view that was in force here.
    pub(super) known: Ranks,
    /// Who has sent a packet of a newer view, and is to be told which one this member is in.
    pub(super) newer: Option<usize>,
    pub(super) fetching: Option<Fetching>,
    pub(super) serve: Serve,
    pub(super) timers: Timers<Timer>,
    pub(super) events: Events,
}

/// The timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The sequencer has not done what this member waits for: ask.
    Wait,
    /// What was asked for has not come: ask again.
    Retrans,
    /// The sequencer: members are not known to have everything.
    Sync,
    /// Between views: what was asked for has not come.
    Fetch,
}

/// What a member has told the sequencer, and has to tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Follower {
    /// The last acknowledgment sent.
    pub reported: u64,
    /// An acknowledgment is to be sent, and why.
    pub report: Option<Report>,
    /// Places that have been asked for, and when.
    pub asked: BTreeMap<u64, Time>,
    /// Whom the sequencer has asked what they have, since the order went on last.
    pub wanted: Ranks,
    /// How often nothing came from the sequencer.
    pub silence: u32,
    /// How often the request timeout has been doubled.
    pub patience: u32,
    /// Something came since the timer was set.
    pub progress: bool,
    /// The sequencer of the basic form is dead, and nobody takes its place.
    pub orphaned: bool,
}

impl SequencerPeer {
    /// The member at the node of the context.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let settings = Settings::new(context, config);
        let count = context.members.len();
        let Some(rank) = context.rank() else {
            return Err(ConfigError::Conflict("this node must be one of the members".to_owned()));
        };
        let terms = Terms {
            interval: settings.vote_interval,
            tries: settings.patience.tries(settings.vote_interval),
            resilience: settings.resilience,
        };
        let rng = context.seeds.stream("sequencer.reformation");
        let reformation = Reformation::new(rank, count, terms, rng, context.rejoining)?;
        let leads = reformation.takes_part() && rank == reformation.view().leader();
        let known = reformation.view().members;
        let leader = || Leader::new(rank, &known, settings.resilience, 0, vec![0; count]);
        let mut peer = SequencerPeer {
            association: context.association,
            group: context.group,
            members: context.members.clone(),
            rank,
            outbox: Outbox::new(settings.window, context.max_payload as usize, 0),
            reception: Reception::new(count, settings.history, settings.window),
            follower: Follower::default(),
            leader: leads.then(leader),
            quiet_since: Time::ZERO,
            known,
            newer: None,
            fetching: None,
            serve: Serve::default(),
            settings,
            reformation,
            timers: Timers::new(),
            events: Events::default(),
        };
        peer.step_election(Time::ZERO);
        Ok(peer)
    }

    /// Hands what is accepted to the application.
    pub(super) fn deliver(&mut self) {
        while let Some((rank, message)) = self.reception.deliver() {
            let source = self.members[rank];
            self.events.push(Event::Delivered { source, message: MessageId(message) });
            if rank == self.rank {
                self.complete_below(message + 1, Outcome::Acknowledged);
            }
            // Its own messages may have been lost while those of others go through.
            self.follower.progress |= self.outbox.is_empty();
        }
    }

    /// Is done with its messages before this one.
    pub(super) fn complete_below(&mut self, end: u64, outcome: Outcome) {
        while self.outbox.first() < end
            && let Some((number, message)) = self.outbox.complete()
        {
            let window = message.sent.unwrap_or(1);
            self.events.completed(MessageId(number), outcome, window);
            self.follower.progress = true;
        }
    }

    /// Sets the timers of what is waited for.
    fn arm_timers(&mut self, now: Time) {
        let leads = self.leader.is_some();
        let waits = !self.follower.orphaned && (!self.outbox.is_empty() || self.reception.waits());
        let alive = self.settings.alive_interval;
        let wait = match self.reformation.takes_part() && !leads {
            true if waits => Some(self.settings.request_timeout.saturating_mul(1 << self.follower.patience)),
            true if !alive.is_zero() && !self.follower.orphaned => Some(alive),
            _ => None,
        };
        match wait {
            None => _ = self.timers.cancel(Timer::Wait),
            Some(wait) if self.timers.armed(Timer::Wait).is_none_or(|at| at > now + wait) => {
                self.timers.arm(Timer::Wait, now + wait);
            }
            Some(_) => {}
        }
        match &self.leader {
            // An acceptance makes it more patient: the timer may move back.
            Some(leader) if leader.waits() => {
                let at = (self.quiet_since + self.sync_interval()).max(now + LEAST_INTERVAL);
                self.timers.arm(Timer::Sync, at);
            }
            _ => _ = self.timers.cancel(Timer::Sync),
        }
        let asked = self.follower.asked.values().min();
        match asked.map(|&asked| asked + self.settings.retrans_interval) {
            Some(at) => self.timers.arm(Timer::Retrans, at.max(now + LEAST_INTERVAL)),
            None => _ = self.timers.cancel(Timer::Retrans),
        }
    }

    /// Takes in a packet of the member of this rank.
    fn on_packet(&mut self, now: Time, from: usize, bytes: &Bytes, packet: &Packet<'_>) {
        let (view, body) = match packet {
            // In the basic form nobody is replaced, so nobody can come back.
            Packet::Reformation(_) if self.settings.resilience == 0 => {
                return self.events.dropped(DropReason::OutOfWindow);
            }
            Packet::Reformation(packet) => {
                let length = MessageId(self.reception.contiguous());
                self.events.push(Event::Received { packet: packet.name(), message: length });
                self.reformation.handle(now, from, packet);
                return self.step_election(now);
            }
            Packet::Normal { view, body } => (*view, *body),
        };
        // What is asked for and answered between views carries the number of a ballot, and does not
        // show that its view is in force: a second GONE may come when this member is ready.
        let between = match body {
            Body::Fetch { .. } | Body::Fetched { .. } => true,
            Body::Gone { .. } => !self.reformation.takes_part(),
            _ => false,
        };
        if between {
            return self.on_transfer(now, from, view, body, bytes);
        }
        self.reformation.on_packet_of(now, from, view);
        self.step_election(now);
        let current = self.reformation.view().number();
        let takes_part = self.reformation.takes_part();
        if view < current {
            self.reformation.on_older_view(from);
        }
        if view > current && takes_part {
            // Whoever leads that view says so in answer.
            self.newer = Some(from);
        }
        if view != current || !takes_part {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        if !self.reformation.view().members.contains(from) {
            return self.events.dropped(DropReason::NotAMember);
        }
        self.on_body(from, body, bytes);
    }
}

impl Machine for SequencerPeer {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        let parsed = Packet::parse(datagram.bytes);
        let Some(packet) = self.events.of_session(parsed, self.association) else { return };
        let from = self.members.iter().position(|&member| member == datagram.source);
        match from.filter(|&from| from != self.rank) {
            Some(from) => self.on_packet(now, from, datagram.bytes, &packet),
            None => self.events.dropped(DropReason::NotAMember),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.reformation.handle_timeout(now, self.reception.contiguous());
        self.step_election(now);
        while let Some(timer) = self.timers.expire(now) {
            match timer {
                Timer::Wait => self.on_wait(now),
                Timer::Retrans => self.on_retrans_timer(now),
                Timer::Sync => self.on_sync_timer(now),
                Timer::Fetch => self.on_fetch_timer(),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next().into_iter().chain(self.reformation.poll_timeout()).min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.order_waiting(now);
        let transmit = self.next_packet(now, buf);
        self.arm_timers(now);
        transmit
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Sender for SequencerPeer {
    fn offer(&mut self, _now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        let number = self.outbox.offer(payload)?;
        if self.follower.orphaned {
            self.complete_below(number + 1, Outcome::Failed);
        }
        Ok(MessageId(number))
    }

    fn finish(&mut self, _now: Time) {
        self.outbox.finish();
    }

    /// A view is made without it; in the basic form it is not waited for.
    fn expel(&mut self, now: Time, member: NodeId) {
        let rank = self.members.iter().position(|&known| known == member);
        let Some(rank) = rank.filter(|&rank| rank != self.rank) else { return };
        if self.settings.resilience == 0 {
            return self.suspect(now, rank);
        }
        self.reformation.expel(now, rank);
        self.step_election(now);
    }

    fn awaits(&self, member: NodeId) -> bool {
        let Some(rank) = self.members.iter().position(|&known| known == member) else { return false };
        if !self.reformation.takes_part() {
            let asked = self.fetching.as_ref().is_some_and(|fetching| fetching.from == rank);
            return asked || self.reformation.awaits(rank);
        }
        match &self.leader {
            Some(leader) => leader.awaits(rank),
            None if self.outbox.is_empty() && !self.reception.waits() => false,
            // The sequencer says for whom it waits itself.
            None if !self.follower.wanted.is_empty() => self.follower.wanted.contains(rank),
            None => rank == self.reformation.view().leader(),
        }
    }

    fn acknowledged(&self, member: NodeId) -> Option<u64> {
        let rank = self.members.iter().position(|&known| known == member)?;
        self.leader.as_ref().map(|leader| leader.acknowledged(rank))
    }

    fn is_finished(&self) -> bool {
        self.outbox.is_finished()
    }
}

impl Receiver for SequencerPeer {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        let (rank, message, payload) = self.reception.take()?;
        Some(Delivery { source: self.members[rank], message: MessageId(message), payload })
    }
}

/// A timer moves on when it fires.
const LEAST_INTERVAL: Duration = Duration::from_micros(1);
