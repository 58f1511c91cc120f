//! A member of the group, which may become the sequencer.

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, DropReason, Event, MessageId, NodeId, ObservedState,
    OfferError, Outcome, Received, Role, Time, Transmit,
};
use carillon_wire::reformation::Ranks;
use carillon_wire::sequencer::{Body, Packet, Report};

use super::config::Settings;
use super::context::{Context, Timer};
use super::follower::{Follower, MAX_RETRANS_REQUESTS};
use super::leader::{Leader, emit_message};
use super::order::{Entry, Order};
use crate::blocks::reformation::{Reformation, Terms, To};
use crate::blocks::{Change, Membership, Part, Player, near, next_numbers};

/// Sends, delivers, and orders the messages of all members while it is the sequencer.
#[derive(Debug)]
pub struct SequencerPeer {
    settings: Settings,
    membership: Membership<Entry>,
    /// FETCHes to answer between views: sequence number and rank.
    serve: BTreeSet<(u64, usize)>,
    order: Order,
    follower: Follower,
    /// Sequencer's state, while this member is the sequencer.
    leader: Option<Leader>,
    /// True if the sequencer of the basic form has crashed, which has no successor.
    has_lost_sequencer: bool,
    /// Rank of a member in a newer view, which is to be told this member's view.
    newer: Option<usize>,
}

impl SequencerPeer {
    /// Creates the member at the node of the context.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config);
        let mut context = Context::of_member(build, Ranks::CAPACITY)?;
        let mut order = Order::new(build, &settings);
        let terms = Terms::new(settings.vote_interval, settings.patience, settings.resilience);
        let rng = build.seeds.stream("sequencer.reformation");
        let agreement = Reformation::new(context.rank, context.nodes.len(), terms, rng, build.rejoining)?;
        let view = *agreement.view();
        let leads = agreement.takes_part() && context.rank == view.leader();
        let mut peer = SequencerPeer {
            leader: leads.then(|| Leader::new(&context, &mut order, &settings, &view.members)),
            follower: Follower::new(&context, &settings, &view, 0),
            has_lost_sequencer: false,
            newer: None,
            settings,
            membership: Membership::new(agreement, None),
            serve: BTreeSet::new(),
            order,
        };
        peer.step(&mut context);
        Ok(Player::of(peer, context))
    }

    /// Follows the changes of the reformation.
    fn step(&mut self, context: &mut Context) {
        while let Some(change) = self.membership.follow(context, &mut self.order) {
            let is_installed = change == Change::Installed;
            if is_installed {
                // Fetches between the views are obsolete.
                self.serve.clear();
            }
            let (view, settings) = (self.membership.agreement().view(), &self.settings);
            let leads = is_installed && view.leader() == context.rank;
            self.follower = Follower::new(context, settings, view, self.order.log.length());
            self.leader = leads.then(|| Leader::new(context, &mut self.order, settings, &view.members));
        }
    }

    /// Handles a packet of the member with this rank.
    fn on_packet(&mut self, context: &mut Context, from: usize, bytes: &Bytes, packet: Packet<'_>) {
        let agreement = self.membership.agreement_mut();
        let (view, body) = match packet {
            // The basic form replaces no sequencer, so no member rejoins.
            Packet::Reformation(_) if self.settings.resilience == 0 => {
                return context.events.dropped(DropReason::OutOfWindow);
            }
            Packet::Reformation(packet) => {
                context.received(packet.name(), self.order.log.length());
                agreement.handle(context.now, from, &packet);
                return self.step(context);
            }
            Packet::Normal { view, body } => (view, body),
        };
        // FETCH and its answers carry the number of a ballot. They do not prove that its view is installed: a second
        // GONE may arrive after this member is ready.
        let between = match body {
            Body::Fetch { .. } | Body::Fetched { .. } => true,
            Body::Gone { .. } => !agreement.takes_part(),
            _ => false,
        };
        if between {
            self.on_between(context, from, view, body, bytes);
            return self.step(context);
        }
        agreement.on_packet_of(context.now, from, view);
        self.step(context);
        if self.membership.is_behind(view) {
            // The leader of that view will announce it in answer.
            self.newer = Some(from);
        }
        if self.membership.admits(context, from, view) {
            self.on_body(context, from, body, bytes);
        }
    }

    /// Handles FETCH, FETCHED and GONE between two views, as part of the [reformation](crate::blocks::reformation).
    fn on_between(&mut self, context: &mut Context, from: usize, view: u32, body: Body<'_>, bytes: &Bytes) {
        let (order, membership, members) = (&mut self.order, &mut self.membership, context.nodes.len());
        // Only the promised ballot may change the log.
        if view != membership.agreement().promised().number {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        let asked = membership.asks(from);
        let at = membership.missing().unwrap_or(order.log.length());
        match body {
            Body::Fetch { order: place } => {
                let place = order.near(place);
                context.received(body.name(), place);
                if place < order.log.length() {
                    self.serve.insert((place, from));
                }
            }
            Body::Fetched { order: place, source, message, payload }
                if asked && usize::from(source) < members =>
            {
                let (source, place) = (usize::from(source), near(place, at));
                let message = near(message, order.log.next(source));
                let entry = Entry { source, message, payload: bytes.slice_ref(payload) };
                context.received(body.name(), message);
                membership.on_fetched(context, order, from, place, entry);
            }
            Body::Gone { order: place, state } if asked => {
                if let Some(numbers) = next_numbers(state, members) {
                    membership.on_gone(context, order, near(place, at), numbers);
                }
            }
            _ => context.events.dropped(DropReason::OutOfWindow),
        }
    }

    /// Handles a packet of this view from another member.
    fn on_body(&mut self, context: &mut Context, from: usize, body: Body<'_>, bytes: &Bytes) {
        let (order, follower) = (&mut self.order, &mut self.follower);
        let is_leader = from == self.membership.agreement().view().leader();
        if is_leader {
            follower.silence.heard();
            if std::mem::take(&mut self.has_lost_sequencer) {
                context.events.push(Event::MemberJoined { member: context.nodes[from] });
            }
        }
        match (body, &mut self.leader) {
            (Body::Ordered { order: place, accepted, purge, source, message, payload }, None)
                if is_leader =>
            {
                let payload = payload.map(|payload| bytes.slice_ref(payload));
                let next = order.near(place.wrapping_add(1));
                order.update_bounds(next, order.near(accepted), order.near(purge));
                let (place, of) = (order.near(place), (usize::from(source), message));
                follower.on_ordered(context, order, place, of, payload);
            }
            (Body::Status { kind, next, accepted, purge, wanted }, None) if is_leader => {
                context.received(body.name(), u64::from(next));
                order.update_bounds(order.near(next), order.near(accepted), order.near(purge));
                follower.on_status(context, order, kind, wanted);
            }
            // Basic form: the sequencer has purged messages that this member misses.
            (Body::Gone { order: place, state }, None) if is_leader => {
                let place = order.near(place);
                match next_numbers(state, context.nodes.len()) {
                    Some(numbers) if place > order.log.length() => order.skip_to(context, place, numbers),
                    _ => context.events.dropped(DropReason::OutOfWindow),
                }
            }
            (Body::Request { ack, message, broadcast, payload }, leader) => {
                let (number, payload) = (near(message, order.log.next(from)), bytes.slice_ref(payload));
                context.received(body.name(), number);
                if let Some(leader) = leader {
                    leader.on_ack(context, order, from, order.near(ack));
                    leader.on_request(context, order, from, number, payload);
                } else if broadcast {
                    order.park(from, number, payload);
                } else {
                    context.events.dropped(DropReason::OutOfWindow);
                }
            }
            (Body::Retrans { ack, order: place }, Some(leader)) => {
                let place = order.near(place);
                context.received(body.name(), place);
                leader.on_ack(context, order, from, order.near(ack));
                leader.on_retrans(from, place);
            }
            (Body::Report { kind, ack }, Some(leader)) => {
                context.received(body.name(), u64::from(ack));
                leader.on_ack(context, order, from, order.near(ack));
                leader.on_report(from, kind);
            }
            _ => context.events.dropped(DropReason::OutOfWindow),
        }
        follower.progress |= order.deliver(context);
    }

    /// Handles the suspected crash of a member: starts a view without it, or in the basic form stops awaiting it.
    fn suspect(&mut self, context: &mut Context, rank: usize) {
        let agreement = self.membership.agreement_mut();
        let (member, is_leader) = (context.nodes[rank], rank == agreement.view().leader());
        if self.settings.resilience > 0 {
            if self.leader.is_some() || is_leader {
                agreement.begin(context.now);
            }
        } else if let Some(leader) = &mut self.leader {
            if leader.stop_awaiting(rank) {
                context.events.member_lost(member);
            }
        } else if is_leader && !self.has_lost_sequencer {
            self.has_lost_sequencer = true;
            context.events.member_lost(member);
            self.order.complete_below(context, u64::MAX, Outcome::Failed);
        }
    }

    /// Emits the next packet.
    fn next_packet(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let length = self.order.log.length();
        // The reformation comes first: no other packet is valid until a view is installed.
        if let Some((to, packet)) = self.membership.agreement_mut().poll_transmit(length) {
            context.control(packet.name(), length);
            Packet::Reformation(packet).emit(context.association, buf);
            return Some(context.transmit(to));
        }
        if let Some(transmit) = self.poll_between(context, buf) {
            return Some(transmit);
        }
        let (order, agreement) = (&mut self.order, self.membership.agreement());
        let view = Some(agreement.view()).filter(|_| agreement.takes_part())?;
        if let Some(rank) = self.newer.take() {
            let body = Body::Report { kind: Report::AliveReq, ack: length as u32 };
            return Some(context.control_to(To::Rank(rank), view.number(), body, length, buf));
        }
        match &mut self.leader {
            Some(leader) => leader.poll(context, order, view.number(), buf),
            None => self.follower.poll(context, order, view, buf),
        }
    }

    /// Emits FETCHes and their answers.
    fn poll_between(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let view = self.membership.agreement().promised().number;
        if let Some((place, rank)) = self.serve.pop_first() {
            return Some(emit_message(context, &mut self.order, view, place, To::Rank(rank), None, buf));
        }
        let (from, run) = self.membership.ask(MAX_RETRANS_REQUESTS, 1)?;
        if context.timers.armed(Timer::Fetch).is_none() {
            context.timers.arm(Timer::Fetch, context.now + self.settings.retrans_interval);
        }
        let body = Body::Fetch { order: run.start as u32 };
        Some(context.control_to(To::Rank(from), view, body, run.start, buf))
    }
}

impl Part for SequencerPeer {
    type Timer = Timer;

    const ROLE: Role = Role::Peer;

    fn held(&self) -> Option<u64> {
        Some(self.order.held())
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        tell(self.membership.agreement().state());
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        let from = context.rank_of(datagram.source);
        match from.filter(|&from| from != context.rank) {
            Some(from) => self.on_packet(context, from, datagram.bytes, packet),
            None => context.events.dropped(DropReason::NotAMember),
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Wait if self.follower.on_wait(context, &mut self.order) => {
                self.suspect(context, self.membership.agreement().view().leader());
            }
            Timer::Wait => {}
            Timer::Retrans => self.follower.on_retrans_timer(context.now),
            Timer::Sync => {
                let dead = self.leader.as_mut().map(|leader| leader.on_sync_timer(context.now));
                dead.unwrap_or_default().iter().for_each(|rank| self.suspect(context, rank));
            }
            Timer::Fetch => self.membership.on_fetch_timeout(),
        }
    }

    fn handle_timeout(&mut self, context: &mut Context) {
        self.membership.agreement_mut().handle_timeout(context.now, self.order.log.length());
        self.step(context);
        self.fire(context);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.membership.agreement().poll_timeout()
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(leader) = &mut self.leader {
            leader.assign_sequence_numbers(context, &mut self.order);
        }
        let transmit = self.next_packet(context, buf);
        match &self.leader {
            Some(leader) => leader.arm_timer(context),
            None => {
                // Between views no member awaits the sequencer.
                let idle = self.has_lost_sequencer || !self.membership.agreement().takes_part();
                self.follower.arm_timers(context, &self.order, idle);
            }
        }
        transmit
    }

    fn offer(&mut self, context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        let number = self.order.outbox.offer(payload)?;
        if self.has_lost_sequencer {
            self.order.complete_below(context, number + 1, Outcome::Failed);
        }
        Ok(MessageId(number))
    }

    fn finish(&mut self, _context: &mut Context) {
        self.order.outbox.finish();
    }

    /// Expels a member by a view without it; in the basic form stops awaiting it.
    fn expel(&mut self, context: &mut Context, member: NodeId) {
        let Some(rank) = context.rank_of(member).filter(|&rank| rank != context.rank) else { return };
        if self.settings.resilience == 0 {
            return self.suspect(context, rank);
        }
        self.membership.expel(context, rank);
        self.step(context);
    }

    fn awaits(&self, context: &Context, member: NodeId) -> bool {
        let (Some(rank), agreement) = (context.rank_of(member), self.membership.agreement()) else {
            return false;
        };
        match &self.leader {
            _ if !agreement.takes_part() => self.membership.awaits(rank),
            Some(leader) => leader.awaits(rank),
            None => self.follower.awaits(&self.order, agreement.view(), rank),
        }
    }

    fn acknowledged(&self, context: &Context, member: NodeId) -> Option<u64> {
        let rank = context.rank_of(member)?;
        self.leader.as_ref().map(|leader| leader.acknowledged(rank))
    }

    fn is_finished(&self) -> bool {
        self.order.outbox.is_done()
    }

    fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        self.order.purge_history(context);
        Some(delivery)
    }
}
