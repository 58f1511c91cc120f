//! A member of the group: any of them can be the sequencer.

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, DropReason, Event, InState, MessageId, NodeId, OfferError,
    Outcome, Received, Role, Time, Transmit,
};
use carillon_wire::reformation::Ranks;
use carillon_wire::sequencer::{Body, Packet, Report};

use super::config::Settings;
use super::follower::{Follower, MOST_ASKED};
use super::leader::{Leader, answer};
use super::order::{Entry, Order};
use super::scene::{Scene, Timer};
use crate::blocks::reformation::{Reformation, Terms, To};
use crate::blocks::{Change, Membership, Part, Player, near, next_numbers};

/// A member: sends, delivers, and orders the messages of all while it is the sequencer.
#[derive(Debug)]
pub struct SequencerPeer {
    settings: Settings,
    membership: Membership<Entry>,
    /// Between views: the places that others lack, and their ranks.
    serve: BTreeSet<(u64, usize)>,
    order: Order,
    follower: Follower,
    /// The sequencer's side, while this member is the sequencer.
    leader: Option<Leader>,
    /// The sequencer of the basic form is dead, and nobody takes its place.
    is_orphaned: bool,
    /// Who has sent a packet of a newer view, and is to be told which one this member is in.
    newer: Option<usize>,
}

impl SequencerPeer {
    /// The member at the node of the context.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(context, config);
        let mut scene = Scene::of_member(context, Ranks::CAPACITY)?;
        let mut order = Order::new(context, &settings);
        let terms = Terms::new(settings.vote_interval, settings.patience, settings.resilience);
        let rng = context.seeds.stream("sequencer.reformation");
        let agreement = Reformation::new(scene.rank, scene.nodes.len(), terms, rng, context.rejoining)?;
        let view = *agreement.view();
        let leads = agreement.takes_part() && scene.rank == view.leader();
        let mut peer = SequencerPeer {
            leader: leads.then(|| Leader::new(&scene, &mut order, &settings, &view.members)),
            follower: Follower::new(&scene, &settings, &view, 0),
            is_orphaned: false,
            newer: None,
            settings,
            membership: Membership::new(agreement, None),
            serve: BTreeSet::new(),
            order,
        };
        peer.step(&mut scene);
        Ok(Player::of(peer, scene))
    }

    /// Does what the reformation says.
    fn step(&mut self, scene: &mut Scene) {
        while let Some(change) = self.membership.follow(scene, &mut self.order) {
            let is_installed = change == Change::Installed;
            if is_installed {
                // What was asked for between two views is not any more.
                self.serve.clear();
            }
            let (view, settings) = (self.membership.agreement().view(), &self.settings);
            let leads = is_installed && view.leader() == scene.rank;
            self.follower = Follower::new(scene, settings, view, self.order.log.length());
            self.leader = leads.then(|| Leader::new(scene, &mut self.order, settings, &view.members));
        }
    }

    /// Takes in a packet of the member of this rank.
    fn on_packet(&mut self, scene: &mut Scene, from: usize, bytes: &Bytes, packet: Packet<'_>) {
        let agreement = self.membership.agreement_mut();
        let (view, body) = match packet {
            // In the basic form nobody is replaced, so nobody can come back.
            Packet::Reformation(_) if self.settings.resilience == 0 => {
                return scene.events.dropped(DropReason::OutOfWindow);
            }
            Packet::Reformation(packet) => {
                scene.received(packet.name(), self.order.log.length());
                agreement.handle(scene.now, from, &packet);
                return self.step(scene);
            }
            Packet::Normal { view, body } => (view, body),
        };
        // What is asked for and answered between views carries the number of a ballot, and does not
        // show that its view is in force: a second GONE may come when this member is ready.
        let between = match body {
            Body::Fetch { .. } | Body::Fetched { .. } => true,
            Body::Gone { .. } => !agreement.takes_part(),
            _ => false,
        };
        if between {
            self.on_between(scene, from, view, body, bytes);
            return self.step(scene);
        }
        agreement.on_packet_of(scene.now, from, view);
        self.step(scene);
        if self.membership.is_behind(view) {
            // Whoever leads that view says so in answer.
            self.newer = Some(from);
        }
        if self.membership.admits(scene, from, view) {
            self.on_body(scene, from, body, bytes);
        }
    }

    /// FETCH, FETCHED and GONE between two views: what the [reformation](crate::blocks::reformation) asks for.
    fn on_between(&mut self, scene: &mut Scene, from: usize, view: u32, body: Body<'_>, bytes: &Bytes) {
        let (order, membership, members) = (&mut self.order, &mut self.membership, scene.nodes.len());
        if view != membership.agreement().promised().number {
            return scene.events.dropped(DropReason::OutOfWindow);
        }
        let asked = membership.asks(from);
        let at = membership.missing().unwrap_or(order.log.length());
        match body {
            Body::Fetch { order: place } => {
                let place = order.near(place);
                scene.received(body.name(), place);
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
                scene.received(body.name(), message);
                membership.on_fetched(scene, order, from, place, entry);
            }
            Body::Gone { order: place, state } if asked => {
                if let Some(numbers) = next_numbers(state, members) {
                    membership.on_gone(scene, order, near(place, at), numbers);
                }
            }
            _ => scene.events.dropped(DropReason::OutOfWindow),
        }
    }

    /// A packet of this view from another of its members.
    fn on_body(&mut self, scene: &mut Scene, from: usize, body: Body<'_>, bytes: &Bytes) {
        let (order, follower) = (&mut self.order, &mut self.follower);
        let is_leader = from == self.membership.agreement().view().leader();
        if is_leader {
            follower.silence.heard();
            if std::mem::take(&mut self.is_orphaned) {
                scene.events.push(Event::MemberJoined { member: scene.nodes[from] });
            }
        }
        match (body, &mut self.leader) {
            (Body::Ordered { order: place, accepted, purge, source, message, payload }, None)
                if is_leader =>
            {
                let payload = payload.map(|payload| bytes.slice_ref(payload));
                let next = order.near(place.wrapping_add(1));
                order.learn(next, order.near(accepted), order.near(purge));
                let (place, of) = (order.near(place), (usize::from(source), message));
                follower.on_ordered(scene, order, place, of, payload);
            }
            (Body::Status { kind, next, accepted, purge, wanted }, None) if is_leader => {
                scene.received(body.name(), u64::from(next));
                order.learn(order.near(next), order.near(accepted), order.near(purge));
                follower.on_status(scene, order, kind, wanted);
            }
            // The sequencer of the basic form has gone on without this member.
            (Body::Gone { order: place, state }, None) if is_leader => {
                let place = order.near(place);
                match next_numbers(state, scene.nodes.len()) {
                    Some(numbers) if place > order.log.length() => order.skip_to(scene, place, numbers),
                    _ => scene.events.dropped(DropReason::OutOfWindow),
                }
            }
            (Body::Request { ack, message, broadcast, payload }, leader) => {
                let (number, payload) = (near(message, order.log.next(from)), bytes.slice_ref(payload));
                scene.received(body.name(), number);
                if let Some(leader) = leader {
                    leader.on_ack(scene, order, from, order.near(ack));
                    leader.on_request(scene, order, from, number, payload);
                } else if broadcast {
                    order.park(from, number, payload);
                } else {
                    scene.events.dropped(DropReason::OutOfWindow);
                }
            }
            (Body::Retrans { ack, order: place }, Some(leader)) => {
                let place = order.near(place);
                scene.received(body.name(), place);
                leader.on_ack(scene, order, from, order.near(ack));
                leader.on_retrans(from, place);
            }
            (Body::Report { kind, ack }, Some(leader)) => {
                scene.received(body.name(), u64::from(ack));
                leader.on_ack(scene, order, from, order.near(ack));
                leader.on_report(from, kind);
            }
            _ => scene.events.dropped(DropReason::OutOfWindow),
        }
        follower.progress |= order.deliver(scene);
    }

    /// This member is taken to be dead: a view without it is made, or, in the basic form, it is not
    /// waited for.
    fn suspect(&mut self, scene: &mut Scene, rank: usize) {
        let agreement = self.membership.agreement_mut();
        let (member, is_leader) = (scene.nodes[rank], rank == agreement.view().leader());
        if self.settings.resilience > 0 {
            if self.leader.is_some() || is_leader {
                agreement.begin(scene.now);
            }
        } else if let Some(leader) = &mut self.leader {
            if leader.give_up(rank) {
                scene.events.member_lost(member);
            }
        } else if is_leader && !self.is_orphaned {
            self.is_orphaned = true;
            scene.events.member_lost(member);
            self.order.complete_below(scene, u64::MAX, Outcome::Failed);
        }
    }

    /// The next packet, if there is one.
    fn next_packet(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        let length = self.order.log.length();
        if let Some((to, packet)) = self.membership.agreement_mut().poll_transmit(length) {
            scene.control(packet.name(), length);
            Packet::Reformation(packet).emit(scene.association, buf);
            return Some(scene.transmit(to));
        }
        if let Some(transmit) = self.poll_between(scene, buf) {
            return Some(transmit);
        }
        let (order, agreement) = (&mut self.order, self.membership.agreement());
        let view = Some(agreement.view()).filter(|_| agreement.takes_part())?;
        if let Some(rank) = self.newer.take() {
            let body = Body::Report { kind: Report::AliveReq, ack: length as u32 };
            return Some(scene.control_to(To::Rank(rank), view.number(), body, length, buf));
        }
        match &mut self.leader {
            Some(leader) => leader.poll(scene, order, view.number(), buf),
            None => self.follower.poll(scene, order, view, buf),
        }
    }

    /// FETCH, and the answers to it.
    fn poll_between(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        let view = self.membership.agreement().promised().number;
        if let Some((place, rank)) = self.serve.pop_first() {
            return Some(answer(scene, &mut self.order, view, place, To::Rank(rank), None, buf));
        }
        let (from, run) = self.membership.ask(MOST_ASKED, 1)?;
        if scene.timers.armed(Timer::Fetch).is_none() {
            scene.timers.arm(Timer::Fetch, scene.now + self.settings.retrans_interval);
        }
        let body = Body::Fetch { order: run.start as u32 };
        Some(scene.control_to(To::Rank(from), view, body, run.start, buf))
    }
}

impl Part for SequencerPeer {
    type Timer = Timer;

    const ROLE: Role = Role::Peer;

    fn held(&self) -> Option<u64> {
        Some(self.order.held())
    }

    fn tell_states(&self, _scene: &Scene, tell: &mut dyn FnMut(InState)) {
        tell(self.membership.agreement().state());
    }

    fn handle_datagram(&mut self, scene: &mut Scene, datagram: Received<'_>) {
        let Some(packet) = scene.of_session(Packet::parse(datagram.bytes)) else { return };
        let from = scene.rank_of(datagram.source);
        match from.filter(|&from| from != scene.rank) {
            Some(from) => self.on_packet(scene, from, datagram.bytes, packet),
            None => scene.events.dropped(DropReason::NotAMember),
        }
    }

    fn on_timer(&mut self, scene: &mut Scene, timer: Timer) {
        match timer {
            Timer::Wait if self.follower.on_wait(scene, &mut self.order) => {
                self.suspect(scene, self.membership.agreement().view().leader());
            }
            Timer::Wait => {}
            Timer::Retrans => self.follower.on_retrans_timer(scene.now),
            Timer::Sync => {
                let dead = self.leader.as_mut().map(|leader| leader.on_sync_timer(scene.now));
                dead.unwrap_or_default().iter().for_each(|rank| self.suspect(scene, rank));
            }
            Timer::Fetch => self.membership.on_fetch_timeout(),
        }
    }

    fn handle_timeout(&mut self, scene: &mut Scene) {
        self.membership.agreement_mut().handle_timeout(scene.now, self.order.log.length());
        self.step(scene);
        self.fire(scene);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.membership.agreement().poll_timeout()
    }

    fn poll_transmit(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(leader) = &mut self.leader {
            leader.give_places(scene, &mut self.order);
        }
        let transmit = self.next_packet(scene, buf);
        match &self.leader {
            Some(leader) => leader.arm_timer(scene),
            None => {
                // Between views nobody waits for the sequencer.
                let idle = self.is_orphaned || !self.membership.agreement().takes_part();
                self.follower.arm_timers(scene, &self.order, idle);
            }
        }
        transmit
    }

    fn offer(&mut self, scene: &mut Scene, payload: Bytes) -> Result<MessageId, OfferError> {
        let number = self.order.outbox.offer(payload)?;
        if self.is_orphaned {
            self.order.complete_below(scene, number + 1, Outcome::Failed);
        }
        Ok(MessageId(number))
    }

    fn finish(&mut self, _scene: &mut Scene) {
        self.order.outbox.finish();
    }

    /// A view is made without it; in the basic form it is not waited for.
    fn expel(&mut self, scene: &mut Scene, member: NodeId) {
        let Some(rank) = scene.rank_of(member).filter(|&rank| rank != scene.rank) else { return };
        if self.settings.resilience == 0 {
            return self.suspect(scene, rank);
        }
        self.membership.expel(scene, rank);
        self.step(scene);
    }

    fn awaits(&self, scene: &Scene, member: NodeId) -> bool {
        let (Some(rank), agreement) = (scene.rank_of(member), self.membership.agreement()) else {
            return false;
        };
        match &self.leader {
            _ if !agreement.takes_part() => self.membership.awaits(rank),
            Some(leader) => leader.awaits(rank),
            None => self.follower.awaits(&self.order, agreement.view(), rank),
        }
    }

    fn acknowledged(&self, scene: &Scene, member: NodeId) -> Option<u64> {
        let rank = scene.rank_of(member)?;
        self.leader.as_ref().map(|leader| leader.acknowledged(rank))
    }

    fn is_finished(&self) -> bool {
        self.order.outbox.is_done()
    }

    fn poll_delivery(&mut self, scene: &mut Scene) -> Option<Delivery> {
        let delivery = scene.poll_delivery()?;
        self.order.tidy(scene);
        Some(delivery)
    }
}
