//! A member of the web: master, producer and consumer.

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, DropReason, Event, MessageId, NodeId, ObservedState,
    OfferError, Outcome, Received, Role, Time, Transmit,
};
use carillon_wire::mtp::{Body, Empty, Mark, Packet};
use carillon_wire::reformation::Ranks;

use super::config::Settings;
use super::consumer::{Alarm, Consumer};
use super::context::{Context, Timer};
use super::frame::{Frame, INSTANCES, transport_id};
use super::master::Master;
use super::order::{Effect, Entry, Order};
use super::producer::{NUMBER_LEN, Producer};
use super::web::{Standing, Web};
use crate::blocks::reformation::{Reformation, Terms};
use crate::blocks::{Membership, Part, Player, near};

/// Member of the web.
#[derive(Debug)]
pub struct MtpPeer {
    pub(super) settings: Settings,
    /// Number of this transport among those of the node: 0 for the first one, 1 after a loss of state.
    pub(super) instance: usize,
    pub(super) order: Order,
    pub(super) producer: Producer,
    pub(super) consumer: Consumer,
    /// State of the master, while this member is it.
    pub(super) master: Option<Master>,
    pub(super) web: Web,
    /// MTP-2: membership in views.
    pub(super) membership: Option<Membership<Entry>>,
    /// MTP-2: FETCHes to answer between views, by place and rank.
    pub(super) serve: BTreeSet<(u64, usize)>,
    /// MTP-2: rank of a member in a newer view, which is to be told this member's view.
    pub(super) newer: Option<usize>,
}

impl MtpPeer {
    /// Creates the member at the node of the context.
    pub fn new(
        build: &BuildContext,
        config: &Config,
        has_election: bool,
    ) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config, has_election)?;
        let mut context = Context::of_member(build, Ranks::CAPACITY)?;
        let order = Order::new(build, &settings);
        let membership = match &settings.election {
            Some(election) => {
                let terms = Terms::new(election.vote_interval, settings.patience, election.resilience);
                let rng = build.seeds.stream("mtp.election");
                let (rank, members) = (context.rank, context.nodes.len());
                let agreement = Reformation::new(rank, members, terms, rng, build.rejoining)?;
                Some(Membership::new(agreement, None))
            }
            None => None,
        };
        let rng = build.seeds.stream("mtp.nak");
        let mut peer = MtpPeer {
            order,
            producer: Producer::new(&settings),
            consumer: Consumer::new(&context, &settings, rng, false, 0),
            master: None,
            web: Web::new(&context, &settings, build.rejoining),
            membership,
            serve: BTreeSet::new(),
            newer: None,
            instance: build.rejoining.into(),
            settings,
        };
        peer.enter_view(&context);
        peer.step(&mut context);
        Ok(Player::of(peer, context))
    }

    /// Rank of the master.
    pub(super) fn master_rank(&self) -> usize {
        self.membership
            .as_ref()
            .map_or(self.web.master(), |membership| membership.agreement().view().leader())
    }

    /// Returns true if this node takes part in the web.
    pub(super) fn is_in_force(&self) -> bool {
        match &self.membership {
            Some(membership) => membership.agreement().takes_part(),
            None => matches!(self.web.standing(), Standing::Master | Standing::Member),
        }
    }

    /// Parameters of this member's packets.
    fn frame(&self) -> Frame {
        let view = self.membership.as_ref().map(|membership| membership.agreement().view().number());
        Frame::new(&self.settings, view, self.instance)
    }

    /// Returns true if the packet is addressed to this member, in this session and version.
    fn is_addressed(&self, context: &Context, packet: &Packet<'_>) -> bool {
        let web = context.association;
        let is_known = match packet.header.destination {
            // Only a newcomer does not know the web's identifier.
            0 => matches!(packet.body, Body::Join(..)),
            destination => destination == web.0 || rank_of(context, destination) == Some(context.rank),
        };
        is_known && packet.header.view.is_some() == self.membership.is_some()
    }

    /// Handles a packet of another member.
    fn on_packet(&mut self, context: &mut Context, from: usize, bytes: &Bytes, packet: Packet<'_>) {
        let source = rank_of(context, packet.header.source);
        // The master repairs messages of others in their name.
        let is_repair = matches!(packet.body, Body::Data(..)) && from == self.master_rank();
        let Some(source) = source.filter(|&source| source == from || is_repair) else {
            return context.events.dropped(DropReason::Foreign);
        };
        let message = self.order.near(packet.header.acceptance.message);
        match (&mut self.membership, packet.header.view) {
            (Some(_), Some(view)) => {
                if !self.admit_in_view(context, from, view, packet.body, bytes) {
                    return;
                }
            }
            _ => {
                if matches!(packet.body, Body::Join(..) | Body::Quit(..)) {
                    return self.on_join_or_quit(context, from, &packet);
                }
                if !self.web.admits(context, from) {
                    return;
                }
            }
        }
        self.on_body(context, (from, source), bytes, packet, message);
    }

    /// Handles a packet about membership (MTP).
    fn on_join_or_quit(&mut self, context: &mut Context, from: usize, packet: &Packet<'_>) {
        let before = self.web.standing();
        self.web.on_packet(context, &mut self.order, from, packet);
        if let (Some(master), Body::Quit(false, _)) = (&mut self.master, packet.body) {
            master.remove(&mut self.order, context.now, from);
            self.order.deliver(context);
        }
        if self.web.standing() == Standing::Left && before != Standing::Left {
            self.leave(context);
        }
    }

    /// Handles a packet of the web from another member.
    fn on_body(
        &mut self,
        context: &mut Context,
        (from, source): (usize, usize),
        bytes: &Bytes,
        packet: Packet<'_>,
        message: u64,
    ) {
        let (header, body) = (packet.header, packet.body);
        let is_master = from == self.master_rank();
        if is_master {
            self.consumer.on_master(context.now);
        }
        if let Some(master) = &mut self.master {
            master.on_alive(context.now, from, header.window);
        }
        self.order.on_record(context.now, message, &header.acceptance.status);
        if !matches!(body, Body::Data(..)) {
            self.order.see(message);
        }
        match (body, &mut self.master) {
            (Body::Data(mark, data), _) => {
                let at = (message, header.acceptance.packet);
                self.on_data(context, at, (source, header.subchannel), mark, data, bytes);
            }
            (Body::Nak(ranges), _) => {
                context.received("nak", message);
                self.producer.on_nak(context, &self.order, from, ranges);
            }
            (Body::Deny(ranges), _) => {
                context.received("nak_deny", message);
                for range in ranges.iter().take(1) {
                    let is_final = is_master || self.master.is_some();
                    self.consumer.on_deny(context.now, self.order.near(range.low.0), is_final);
                }
            }
            (Body::Empty(Empty::Cancel), Some(master)) => {
                context.received("cancel", message);
                master.on_cancel(&mut self.order, context.now, from, message);
            }
            (Body::Empty(empty), _) => {
                context.received(body.name(), message);
                self.consumer.detect(context, &self.order, empty != Empty::Cancel);
            }
            (Body::TokenRequest, Some(master)) => {
                context.received("token_request", message);
                master.on_request(from, header.subchannel, false);
            }
            (Body::TokenConfirm(_), _) if is_master => {
                context.received("token_confirm", message);
                self.order.see(message + 1);
                self.producer.on_token(context, &self.order, message);
            }
            (Body::IsMember(target), master) => {
                context.received("ismember_request", message);
                let is_master = master.is_some();
                match rank_of(context, target) {
                    Some(rank) if rank == context.rank => self.consumer.on_question(from, message),
                    rank if is_master => {
                        let known = rank.filter(|&rank| self.membership.is_some() || self.web.knows(rank));
                        self.consumer.on_third_party(from, target, known);
                    }
                    _ => context.events.dropped(DropReason::OutOfWindow),
                }
            }
            (Body::Member(..) | Body::NotMember(_), _) => context.received(body.name(), message),
            (Body::Held(length), Some(master)) => {
                context.received("held", length);
                master.on_held(&self.order, from, length);
            }
            _ => context.events.dropped(DropReason::OutOfWindow),
        }
        self.settle(context);
    }

    /// Handles a data packet.
    fn on_data(
        &mut self,
        context: &mut Context,
        (message, packet): (u64, u16),
        of: (usize, u8),
        mark: Mark,
        data: &[u8],
        bytes: &Bytes,
    ) {
        let Some((number, payload)) = data.split_first_chunk::<NUMBER_LEN>() else {
            return context.events.dropped(DropReason::Malformed);
        };
        let number = near(u32::from_be_bytes(*number), self.order.log.next(of.0));
        let payload = bytes.slice_ref(payload);
        match self.order.on_data(context, (message, packet), of, mark, (number, payload)) {
            Effect::New => context.received("data", number),
            Effect::Duplicate => context.events.dropped(DropReason::Duplicate),
            Effect::NoRoom => context.events.dropped(DropReason::BufferFull),
            Effect::Invalid => context.events.dropped(DropReason::OutOfWindow),
        }
        self.consumer.on_packet(context, &self.order, message);
        self.consumer.detect(context, &self.order, mark != Mark::Data);
    }

    /// Decides and delivers as far as possible.
    fn settle(&mut self, context: &mut Context) {
        if let Some(master) = &mut self.master {
            master.decide(&mut self.order, context.now);
        }
        self.consumer.forgive(&self.order);
        self.order.deliver(context);
        self.migrate(context);
    }

    /// Handles the heartbeat of the master.
    fn on_heartbeat(&mut self, context: &mut Context) {
        let Some(master) = &mut self.master else { return };
        let silent = master.on_heartbeat(context, &self.order);
        for rank in silent.iter() {
            self.suspect(context, rank);
        }
        if self.membership.is_none() {
            self.web.on_heartbeat(context);
        }
    }

    /// Handles a heartbeat of this member.
    fn on_tick(&mut self, context: &mut Context) {
        self.producer.on_tick(context.now);
        self.consumer.detect(context, &self.order, true);
        let is_master = self.master.is_some();
        if !is_master && self.membership.is_none() {
            let before = self.web.standing();
            self.web.on_heartbeat(context);
            if self.web.standing() == Standing::Left && before != Standing::Left {
                context.events.member_lost(context.nodes[self.web.master()]);
                return self.leave(context);
            }
        }
        if !self.is_in_force() {
            return;
        }
        let waits = self.order.waits() || !self.order.outbox.is_empty();
        for alarm in self.consumer.on_tick(context, &self.order, is_master, waits) {
            match alarm {
                Alarm::Master => self.suspect(context, self.master_rank()),
                Alarm::Lost(message) => self.on_lost(context, message),
            }
        }
    }

    /// Handles the suspected failure of a member.
    fn suspect(&mut self, context: &mut Context, rank: usize) {
        if let Some(membership) = &mut self.membership {
            membership.agreement_mut().begin(context.now);
            return self.step(context);
        }
        match &mut self.master {
            Some(master) => {
                master.remove(&mut self.order, context.now, rank);
                self.web.forget(context, rank);
                self.order.deliver(context);
            }
            // Without its master the transport is abandoned.
            None if rank == self.web.master() => {
                context.events.member_lost(context.nodes[self.web.master()]);
                self.web.abandon();
                self.leave(context);
            }
            None => {}
        }
    }

    /// Handles a message that no member repairs.
    fn on_lost(&mut self, context: &mut Context, message: u64) {
        if self.membership.is_some() {
            // A view change transfers the log, which is kept longer than repairs are.
            return self.suspect(context, self.master_rank());
        }
        match &self.master {
            // The producer keeps it no longer, so that it counts as failed: no member accepts the message.
            Some(master) => {
                if let Some(holder) = master.holder(message) {
                    self.suspect(context, holder);
                }
            }
            None => {
                context.events.loss_found(None, MessageId(message));
                self.web.quit();
            }
        }
    }

    /// Leaves the web: nothing more is sent or delivered.
    fn leave(&mut self, context: &mut Context) {
        context.timers.clear();
        self.producer.on_view();
        // The application learns that later messages do not arrive.
        for (rank, &node) in
            context.nodes.clone().iter().enumerate().filter(|&(rank, _)| rank != context.rank)
        {
            context.events.loss_final(node, MessageId(self.order.log.next(rank)));
        }
        self.order.complete_below(context, u64::MAX, Outcome::Failed);
        context.events.push(Event::StateChanged { state: Standing::Left.name() });
    }

    /// Emits the next packet.
    fn next_packet(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let frame = self.frame();
        if let Some(transmit) = self.poll_views(context, frame, buf) {
            return Some(transmit);
        }
        if self.membership.is_none() {
            let holds_all = self.master.as_ref().is_some_and(Master::holds_all_tokens);
            let transmit = self.web.poll(context, &self.order, frame, holds_all, buf);
            if transmit.is_some() {
                return transmit;
            }
        }
        if !self.is_in_force() {
            return None;
        }
        let rank = self.master_rank();
        if let Some(master) = &mut self.master
            && let Some(transmit) = master.poll(context, &self.order, frame, buf)
        {
            return Some(transmit);
        }
        let place = (rank, self.master.as_ref());
        if let Some(transmit) = self.consumer.poll(context, &self.order, frame, place, buf) {
            return Some(transmit);
        }
        let master = (rank != context.rank).then_some(rank);
        if let Some(transmit) = self.producer.poll_control(context, &self.order, frame, master, buf) {
            return Some(transmit);
        }
        let transmit = self.producer.poll_data(context, &mut self.order, frame, buf)?;
        if let Some(master) = &mut self.master {
            master.spoke = true;
        }
        self.settle(context);
        Some(transmit)
    }

    /// Arms the timers for everything that this member waits for.
    fn arm_timers(&mut self, context: &mut Context) {
        let is_in_force = self.is_in_force();
        if let Some(master) = self.master.as_ref().filter(|_| is_in_force) {
            master.arm_timer(context);
        } else {
            context.timers.cancel(Timer::Heartbeat);
        }
        let waits = self.consumer.waits()
            || self.producer.is_waiting()
            || self.order.is_crowded(context)
            || self.order.waits()
            || !self.order.outbox.is_empty();
        let asks = self.membership.is_none() && self.web.waits() && self.master.is_none();
        if is_in_force && waits || asks {
            if context.timers.armed(Timer::Tick).is_none() {
                context.timers.arm(Timer::Tick, context.now + self.settings.heartbeat);
            }
        } else {
            context.timers.cancel(Timer::Tick);
        }
        if is_in_force {
            self.consumer.arm_timer(context);
        } else {
            context.timers.cancel(Timer::Nak);
        }
    }

    /// Requests a token for waiting messages, and grants tokens.
    fn advance_tokens(&mut self, context: &mut Context) {
        if !self.is_in_force() {
            return;
        }
        let is_new = self.producer.request_token(&self.order);
        if let Some(master) = &mut self.master {
            if is_new {
                let stream = self.order.outbox.first_due().map_or(0, |number| self.settings.stream(number));
                master.on_request(context.rank, stream, true);
            }
            master.may_grant = self.membership.is_some() || self.web.may_grant();
            master.grant(context, &mut self.order, &mut self.producer);
        }
    }
}

impl Part for MtpPeer {
    type Timer = Timer;

    const ROLE: Role = Role::Peer;

    fn held(&self) -> Option<u64> {
        Some(self.order.held())
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let state = |of, state| ObservedState { of, about: 0, state, turn: 0 };
        match &self.membership {
            Some(membership) => tell(membership.agreement().state()),
            None => tell(state("member of the web", self.web.standing().name())),
        }
        tell(state("producer", self.producer.state()));
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Ok(packet) = Packet::parse(datagram.bytes) else {
            return context.events.dropped(DropReason::Malformed);
        };
        if !self.is_addressed(context, &packet) {
            return context.events.dropped(DropReason::Foreign);
        }
        let from = context.rank_of(datagram.source);
        match from.filter(|&from| from != context.rank) {
            Some(from) => self.on_packet(context, from, datagram.bytes, packet),
            None => context.events.dropped(DropReason::NotAMember),
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Heartbeat => self.on_heartbeat(context),
            Timer::Tick => self.on_tick(context),
            Timer::Window | Timer::Nak => {}
            Timer::Fetch => {
                if let Some(membership) = &mut self.membership {
                    membership.on_fetch_timeout();
                }
            }
        }
        self.order.purge(context, self.master.is_some());
    }

    fn handle_timeout(&mut self, context: &mut Context) {
        if let Some(membership) = &mut self.membership {
            membership.agreement_mut().handle_timeout(context.now, self.order.log.length());
            self.step(context);
        }
        self.fire(context);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.membership.as_ref()?.agreement().poll_timeout()
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.advance_tokens(context);
        let transmit = self.next_packet(context, buf);
        self.arm_timers(context);
        transmit
    }

    fn offer(&mut self, context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        let number = self.order.outbox.offer(payload)?;
        if self.membership.is_none() && self.web.standing() == Standing::Left {
            self.order.complete_below(context, number + 1, Outcome::Failed);
        }
        Ok(MessageId(number))
    }

    fn finish(&mut self, _context: &mut Context) {
        self.order.outbox.finish();
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        let Some(rank) = context.rank_of(member).filter(|&rank| rank != context.rank) else { return };
        match &mut self.membership {
            Some(membership) => {
                membership.expel(context, rank);
                self.step(context);
            }
            None => self.suspect(context, rank),
        }
    }

    fn awaits(&self, context: &Context, member: NodeId) -> bool {
        let Some(rank) = context.rank_of(member) else { return false };
        match (&self.membership, &self.master) {
            (Some(membership), _) if !membership.agreement().takes_part() => membership.awaits(rank),
            (_, Some(master)) => self.web.expects(rank) || master.awaits(&self.order, rank),
            (_, None) => rank == self.master_rank() && (self.order.waits() || !self.order.outbox.is_empty()),
        }
    }

    fn is_finished(&self) -> bool {
        self.order.outbox.is_done()
    }

    fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        self.order.purge(context, self.master.is_some());
        Some(delivery)
    }
}

/// Rank of the member with this identifier.
fn rank_of(context: &Context, identifier: u32) -> Option<usize> {
    let web = context.association;
    let is_of = |rank| (0..INSTANCES).any(|instance| transport_id(web, rank, instance) == identifier);
    (0..context.nodes.len()).find(|&rank| is_of(rank))
}
