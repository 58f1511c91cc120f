//! A site: source, receiver, and token site when its turn comes.

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, InState, MessageId, NodeId, OfferError, Received, Role,
    Time, Transmit,
};
use carillon_wire::chang_maxemchuk::{self as wire, ACK_LEN, Ack, Body, Id, MSG_HEADER_LEN, Packet};

use super::answers::Answers;
use super::config::Settings;
use super::log::Entry;
use super::order::{Order, Place};
use super::requests::{RUN, Requests};
use super::scene::{Scene, Timer};
use super::token::Token;
use super::watch::Watch;
use crate::blocks::reformation::{Reformation, Terms, To};
use crate::blocks::{Change, Membership, Part, Player};

/// A site of the group.
#[derive(Debug)]
pub struct Peer {
    settings: Settings,
    /// The agreement on the token list.
    list: Membership<Entry>,
    order: Order,
    token: Token,
    requests: Requests,
    watch: Watch,
    answers: Answers,
}

impl Peer {
    /// A site of the group of the context.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(context, config)?;
        let mut scene = Scene::of_member(context, MOST_SITES)?;
        let (rank, sites) = (scene.rank, context.members.len());
        let terms = Terms::new(settings.reform_timeout, settings.patience, settings.resilience as usize);
        let agreement = |is_lost| {
            let rng = context.seeds.stream(if is_lost { "reformation.anew" } else { "reformation" });
            Reformation::new(rank, sites, terms, rng, is_lost)
        };
        let list = Membership::new(agreement(context.rejoining)?, Some(agreement(true)?));
        let mut site = Peer {
            settings,
            order: Order::new(context, settings, *list.agreement().view()),
            list,
            token: Token::new(settings, rank == 0 && !context.rejoining),
            requests: Requests::new(settings),
            watch: Watch::new(settings),
            answers: Answers::default(),
        };
        // One that comes back takes no part yet.
        site.follow(&mut scene);
        Ok(Player::of(site, scene))
    }

    /// Does what the agreement asks for.
    fn follow(&mut self, scene: &mut Scene) {
        while let Some(change) = self.list.follow(scene, &mut self.order) {
            let leads = self.list.agreement().view().leader() == scene.rank;
            self.token = Token::new(self.settings, change == Change::Installed && leads);
            self.requests = Requests::new(self.settings);
            self.watch = Watch::new(self.settings);
            self.answers = Answers::default();
        }
    }

    /// A packet of the normal phase. `bytes` is its datagram.
    fn on_packet(&mut self, scene: &mut Scene, from: u16, packet: Packet<'_>, bytes: &Bytes) {
        // These are only sent once a list is in force; what is asked for and answered while it is
        // being formed shows nothing of that.
        if matches!(packet.body, Body::Msg { .. } | Body::Ack(_) | Body::Confirm { .. }) {
            self.list.agreement_mut().on_packet_of(scene.now, from.into(), packet.view);
            self.follow(scene);
        }
        let agreement = self.list.agreement_mut();
        // The log is served to those who form a list; they are all promised to one ballot.
        if packet.view == agreement.promised().number {
            let order = &mut self.order;
            match packet.body {
                Body::Retrans { from: first, below } if agreement.may_serve(from.into()) => {
                    return self.on_retrans(scene, from, first, below);
                }
                Body::Purged { below } if self.list.asks(from.into()) => {
                    self.list.on_purged(scene, order, below);
                    return self.follow(scene);
                }
                Body::Repair { ack, .. } if self.list.missing().is_some() => {
                    if order.is_whole(scene, &ack) {
                        let entry = Entry { ack, payload: bytes.slice(ACK_LEN..), transfers: 0 };
                        self.list.on_fetched(scene, order, from.into(), ack.timestamp, entry);
                    }
                    return self.follow(scene);
                }
                _ => {}
            }
        }
        if self.list.is_behind(packet.view) && scene.timers.armed(Timer::Behind).is_none() {
            // This site was cut out, and shows itself so that it is told.
            self.answers.announced = true;
            scene.timers.arm(Timer::Behind, scene.now + self.settings.request_timeout);
        }
        if self.list.admits(scene, from.into(), packet.view) {
            self.on_body(scene, from, packet.body, bytes);
        }
    }

    /// A packet of another site of the list in force.
    fn on_body(&mut self, scene: &mut Scene, from: u16, body: Body<'_>, bytes: &Bytes) {
        self.token.on_sign_of_life(&self.order, from);
        if matches!(body, Body::Ack(_) | Body::Repair { .. } | Body::Confirm { .. }) {
            self.watch.on_token_heard(scene);
        }
        match body {
            Body::Msg { id, .. } if id.source == from => {
                self.on_msg(scene, id, bytes.slice(MSG_HEADER_LEN..))
            }
            Body::Ack(ack) => self.on_ack(scene, from, ack, None),
            Body::Repair { ack, .. } => {
                self.on_ack(scene, from, ack, ack.message.map(|_| bytes.slice(ACK_LEN..)));
            }
            Body::Confirm { site, below } if site == from => {
                scene.received("confirm", below);
                let below = below.min(self.order.limit());
                self.order.on_confirm(site, below);
                self.requests.learn(below, site);
                self.advance(scene);
            }
            Body::Msg { .. } | Body::Confirm { .. } => scene.events.dropped(DropReason::NotAMember),
            Body::Retrans { .. } | Body::Purged { .. } => {}
            Body::RetransMessage(id) => {
                scene.received("retrans", id.number);
                if let Some(timestamp) = self.order.find(id) {
                    self.answers.repair(from, timestamp, true);
                }
            }
        }
    }

    /// Another site lacks acknowledgments or messages.
    fn on_retrans(&mut self, scene: &mut Scene, from: u16, first: u64, below: u64) {
        let log = &self.order.log;
        scene.received("retrans", first);
        self.token.on_sign_of_life(&self.order, from);
        if first < log.base() {
            self.answers.purged.insert(from);
        }
        if first >= log.length() && self.list.agreement().takes_part() {
            // It waits for the token to move: it is not moving yet, but this site lives.
            self.answers.confirmations.insert(from);
        }
        // No further than the log, and no more than a site asks for at a time.
        let below = below.min(log.length()).min(first.saturating_add(RUN));
        (first..below).for_each(|timestamp| self.answers.repair(from, timestamp, true));
    }

    /// "If the message is a duplicate [...] the acknowledgment is repeated. [...] If messages are missed, [...] a
    /// retransmission request is sent."
    fn on_msg(&mut self, scene: &mut Scene, id: Id, payload: Bytes) {
        match self.order.on_msg(scene, id, payload) {
            Place::Acknowledged if !self.token.is_elsewhere() => {
                if let Some(timestamp) = self.order.find(id) {
                    self.answers.repair(id.source, timestamp, false);
                }
            }
            Place::Acknowledged => {}
            Place::Ahead if self.requests.gap(&self.order).is_none() => {
                self.requests.miss(Id { number: self.order.expected(id.source), ..id });
            }
            Place::Ahead => {}
            Place::Waiting => self.advance(scene),
        }
    }

    /// An acknowledgment, perhaps with its message.
    fn on_ack(&mut self, scene: &mut Scene, from: u16, ack: Ack, payload: Option<Bytes>) {
        let length = self.order.log.length();
        if !self.order.is_whole(scene, &ack) {
            return scene.events.dropped(DropReason::Malformed);
        }
        if ack.timestamp < length {
            scene.events.dropped(DropReason::Duplicate);
            if usize::from(ack.next) != scene.rank || ack.site != from {
                return;
            }
            // The site before this one has not heard that the token was accepted.
            if self.token.is_elsewhere() && ack.timestamp + 1 == length {
                // It cannot be, for the application is slow. Sources wait for this site too: all are told.
                self.answers.announced = true;
            } else {
                self.answers.confirmations.insert(from);
            }
            return;
        }
        if self.token.is_here() {
            // Only this site gives timestamps now.
            return scene.events.dropped(DropReason::OutOfOrder);
        }
        self.requests.learn(ack.timestamp.saturating_add(1).min(self.order.limit()), from);
        if payload.is_some() {
            self.requests.silence.heard();
        }
        self.order.on_ack(scene, ack, payload);
        self.advance(scene);
    }

    /// Goes on as far as is known by now.
    fn advance(&mut self, scene: &mut Scene) {
        if self.order.advance(scene) || self.order.transfers.is_last_accepted() {
            self.token.on_accepted(scene);
        }
    }

    /// A packet without a message of this site.
    fn poll_packet(&mut self, scene: &mut Scene, takes_part: bool) -> Option<(To, Body<'static>)> {
        let order = &mut self.order;
        let unicast = self.answers.poll(scene, order, &self.token).or_else(|| match takes_part {
            true => self.requests.poll(scene, order).or_else(|| self.watch.poll(scene, order, &self.token)),
            false => self.list.ask(RUN, RUN).map(|(site, run)| {
                scene.timers.arm(Timer::Fetch, scene.now + self.settings.request_timeout);
                scene.control("retrans", run.start);
                (site as u16, Body::Retrans { from: run.start, below: run.end })
            }),
        });
        if let Some((site, body)) = unicast {
            return Some((To::Rank(site.into()), body));
        }
        if !takes_part {
            // "During the reformation phase, no messages are multicast."
            return None;
        }
        let body = match std::mem::take(&mut self.answers.announced) {
            true => Some(self.token.confirmation(scene, order)),
            false => self.token.poll(scene, order),
        };
        body.map(|body| (To::Group, body))
    }
}

impl Part for Peer {
    type Timer = Timer;

    const ROLE: Role = Role::Peer;

    fn held(&self) -> Option<u64> {
        Some(self.order.held())
    }

    fn tell_states(&self, _scene: &Scene, tell: &mut dyn FnMut(InState)) {
        let agreement = self.list.agreement();
        tell(agreement.state());
        tell(self.token.state(agreement.takes_part()));
    }

    fn handle_datagram(&mut self, scene: &mut Scene, datagram: Received<'_>) {
        let Some(packet) = scene.of_session(wire::Datagram::parse(datagram.bytes)) else { return };
        let Some(from) = scene.rank_of(datagram.source) else {
            return scene.events.dropped(DropReason::NotAMember);
        };
        match packet {
            wire::Datagram::Normal(packet) => self.on_packet(scene, from as u16, packet, datagram.bytes),
            wire::Datagram::Reformation(packet) => {
                scene.received(packet.name(), self.order.log.length());
                self.list.agreement_mut().handle(scene.now, from, &packet);
                self.follow(scene);
            }
        }
    }

    fn on_timer(&mut self, scene: &mut Scene, timer: Timer) {
        let failed = match timer {
            Timer::Confirm => return self.token.on_confirm_timeout(scene, &self.order),
            Timer::Idle => return self.token.on_idle_timeout(),
            Timer::Fetch => return self.list.on_fetch_timeout(),
            Timer::Behind => return,
            Timer::Transfer => self.token.on_transfer_timeout(),
            Timer::Request => self.requests.on_timeout(),
            Timer::Watch => self.watch.on_timeout(),
            Timer::Message(number) => {
                let limit = self.settings.patience.tries(self.settings.message_timeout);
                self.order.outbox.repeat(number) > limit
            }
        };
        if failed {
            // A site that should have answered has not: the sites that live make a new list.
            self.list.agreement_mut().begin(scene.now);
        }
    }

    fn handle_timeout(&mut self, scene: &mut Scene) {
        self.fire(scene);
        self.list.agreement_mut().handle_timeout(scene.now, self.order.log.length());
        self.follow(scene);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.list.agreement().poll_timeout()
    }

    fn poll_transmit(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        let takes_part = self.list.agreement().takes_part();
        if takes_part {
            self.token.accept(scene, &mut self.order);
        }
        let length = self.order.log.length();
        if let Some((to, packet)) = self.list.agreement_mut().poll_transmit(length) {
            scene.control(packet.name(), length);
            wire::Datagram::Reformation(packet).emit(scene.association, buf);
            return Some(scene.transmit(to));
        }
        // What is sent in a reformation belongs to its ballot; otherwise that is the list's own.
        let view = self.list.agreement().promised().number;
        if let Some(transmit) = self.answers.poll_repair(scene, &self.order, view, buf) {
            return Some(transmit);
        }
        if let Some((to, body)) = self.poll_packet(scene, takes_part) {
            scene.emit(view, body, buf);
            return Some(scene.transmit(to));
        }
        if takes_part { self.order.poll(scene, buf, view) } else { None }
    }

    fn offer(&mut self, _scene: &mut Scene, payload: Bytes) -> Result<MessageId, OfferError> {
        self.order.outbox.offer(payload).map(MessageId)
    }

    fn finish(&mut self, _scene: &mut Scene) {
        self.order.outbox.finish();
    }

    /// A list is made without it.
    fn expel(&mut self, scene: &mut Scene, member: NodeId) {
        if let Some(rank) = scene.rank_of(member) {
            self.list.expel(scene, rank);
            self.follow(scene);
        }
    }

    /// Messages wait for the token, and it is there, or what this site lacks is.
    fn awaits(&self, scene: &Scene, member: NodeId) -> bool {
        let Some(rank) = scene.rank_of(member) else { return false };
        if !self.list.agreement().takes_part() {
            return self.list.awaits(rank);
        }
        let waits = self.order.has_waiting() || !self.order.is_settled();
        let lacks = self.requests.gap(&self.order).is_some();
        let site = if lacks { self.requests.informant } else { self.order.token_site() };
        waits && !self.order.is_full(scene) && usize::from(site) == rank
    }

    fn acknowledged(&self, scene: &Scene, member: NodeId) -> Option<u64> {
        scene.rank_of(member).map(|rank| self.order.transfers.confirmed[rank])
    }

    /// Its own messages are delivered here; and if it has the token, that has been around since.
    fn is_finished(&self) -> bool {
        self.order.outbox.is_done() && self.token.rests(&self.order) && !self.list.agreement().is_busy()
    }
}

/// The greatest group whose agreement on a list of sites has room in a packet.
const MOST_SITES: usize = 128;
