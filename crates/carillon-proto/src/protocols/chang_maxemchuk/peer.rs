//! Site of the group: source, receiver and, in its turn, token site.

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, MessageId, NodeId, ObservedState, OfferError, Received,
    Role, Time, Transmit,
};
use carillon_wire::chang_maxemchuk::{self as wire, ACK_LEN, Ack, Body, Id, MSG_HEADER_LEN, Packet};

use super::answers::Answers;
use super::config::Settings;
use super::context::{Context, Timer};
use super::log::Entry;
use super::order::{MessageState, Order};
use super::requests::{MAX_REQUESTED_RUN, Requests};
use super::token::Token;
use crate::blocks::reformation::{Reformation, Terms, To};
use crate::blocks::{Change, Membership, Part, Player, TokenWatch};

/// Site of the group.
#[derive(Debug)]
pub struct Peer {
    settings: Settings,
    /// Agreement on the token list.
    list: Membership<Entry>,
    order: Order,
    token: Token,
    requests: Requests,
    watch: TokenWatch<Timer>,
    answers: Answers,
}

impl Peer {
    /// Creates a site of the group in `build`; fails if the group is too large or a setting is invalid.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config)?;
        let mut context = Context::of_member(build, MAX_SITES)?;
        let (rank, sites) = (context.rank, build.members.len());
        let terms = Terms::new(settings.reform_timeout, settings.patience, settings.resilience as usize);
        let agreement = |is_lost| {
            let rng = build.seeds.stream(if is_lost { "reformation.anew" } else { "reformation" });
            Reformation::new(rank, sites, terms, rng, is_lost)
        };
        let list = Membership::new(agreement(build.rejoining)?, Some(agreement(true)?));
        let mut site = Peer {
            settings,
            order: Order::new(build, settings, *list.agreement().view()),
            list,
            token: Token::new(settings, rank == 0 && !build.rejoining),
            requests: Requests::new(settings),
            watch: settings.watch(),
            answers: Answers::default(),
        };
        // A returning site takes no part until a list with it is in force.
        site.follow(&mut context);
        Ok(Player::of(site, context))
    }

    /// Applies the changes on which the sites agreed: each new list resets the parts of this site.
    fn follow(&mut self, context: &mut Context) {
        while let Some(change) = self.list.follow(context, &mut self.order) {
            let leads = self.list.agreement().view().leader() == context.rank;
            self.token = Token::new(self.settings, change == Change::Installed && leads);
            self.requests = Requests::new(self.settings);
            self.watch = self.settings.watch();
            self.answers = Answers::default();
        }
    }

    /// Handles a packet of the normal phase. `bytes` is its datagram.
    fn on_packet(&mut self, context: &mut Context, from: u16, packet: Packet<'_>, bytes: &Bytes) {
        // Sites send these packets only while a list is in force. Requests and repairs are also exchanged during a
        // reformation and prove nothing.
        if matches!(packet.body, Body::Msg { .. } | Body::Ack(_) | Body::Confirm { .. }) {
            self.list.agreement_mut().on_packet_of(context.now, from.into(), packet.view);
            self.follow(context);
        }
        let agreement = self.list.agreement_mut();
        // The log serves the sites that form a list; all of them have promised the same ballot.
        if packet.view == agreement.promised().number {
            let order = &mut self.order;
            match packet.body {
                Body::Retrans { from: first, below } if agreement.may_serve(from.into()) => {
                    return self.on_retrans(context, from, first, below);
                }
                Body::Purged { below } if self.list.asks(from.into()) => {
                    self.list.on_purged(context, order, below);
                    return self.follow(context);
                }
                Body::Repair { ack, .. } if self.list.missing().is_some() => {
                    if order.is_whole(context, &ack) {
                        let entry = Entry { ack, payload: bytes.slice(ACK_LEN..), transfers: 0 };
                        self.list.on_fetched(context, order, from.into(), ack.timestamp, entry);
                    }
                    return self.follow(context);
                }
                _ => {}
            }
        }
        if self.list.is_behind(packet.view) && context.timers.armed(Timer::Behind).is_none() {
            // This site was excluded. It announces itself so that the others notify it.
            self.answers.announced = true;
            context.timers.arm(Timer::Behind, context.now + self.settings.request_timeout);
        }
        if self.list.admits(context, from.into(), packet.view) {
            self.on_body(context, from, packet.body, bytes);
        }
    }

    /// Handles a packet of another site of the list in force.
    fn on_body(&mut self, context: &mut Context, from: u16, body: Body<'_>, bytes: &Bytes) {
        self.token.on_sign_of_life(&self.order, from);
        if matches!(body, Body::Ack(_) | Body::Repair { .. } | Body::Confirm { .. }) {
            self.watch.on_token_activity(context);
        }
        match body {
            Body::Msg { id, .. } if id.source == from => {
                self.on_msg(context, id, bytes.slice(MSG_HEADER_LEN..))
            }
            Body::Ack(ack) => self.on_ack(context, from, ack, None),
            Body::Repair { ack, .. } => {
                self.on_ack(context, from, ack, ack.message.map(|_| bytes.slice(ACK_LEN..)));
            }
            Body::Confirm { site, below } if site == from => {
                context.received("confirm", below);
                let below = below.min(self.order.limit());
                self.order.on_confirm(site, below);
                self.requests.learn(below, site);
                self.advance(context);
            }
            Body::Msg { .. } | Body::Confirm { .. } => context.events.dropped(DropReason::NotAMember),
            Body::Retrans { .. } | Body::Purged { .. } => {}
            Body::RetransMessage(id) => {
                context.received("retrans", id.number);
                if let Some(timestamp) = self.order.find(id) {
                    self.answers.repair(from, timestamp, true);
                }
            }
        }
    }

    /// Queues the entries that another site requests.
    fn on_retrans(&mut self, context: &mut Context, from: u16, first: u64, below: u64) {
        let log = &self.order.log;
        context.received("retrans", first);
        self.token.on_sign_of_life(&self.order, from);
        if first < log.base() {
            self.answers.purged.insert(from);
        }
        if first >= log.length() && self.list.agreement().takes_part() {
            // The requester waits for the token to move: the confirmation shows that this site is alive.
            self.answers.confirmations.insert(from);
        }
        // The answer ends with the log and is limited to the run that a site may request.
        let below = below.min(log.length()).min(first.saturating_add(MAX_REQUESTED_RUN));
        (first..below).for_each(|timestamp| self.answers.repair(from, timestamp, true));
    }

    /// "If the message is a duplicate [...] the acknowledgment is repeated. [...] If messages are missed, [...] a
    /// retransmission request is sent."
    fn on_msg(&mut self, context: &mut Context, id: Id, payload: Bytes) {
        match self.order.on_msg(context, id, payload) {
            MessageState::Acknowledged if !self.token.is_elsewhere() => {
                if let Some(timestamp) = self.order.find(id) {
                    self.answers.repair(id.source, timestamp, false);
                }
            }
            MessageState::Acknowledged => {}
            MessageState::Ahead if self.requests.gap(&self.order).is_none() => {
                self.requests.miss(Id { number: self.order.expected(id.source), ..id });
            }
            MessageState::Ahead => {}
            MessageState::Waiting => self.advance(context),
        }
    }

    /// Handles an acknowledgment, with its message in a repair.
    fn on_ack(&mut self, context: &mut Context, from: u16, ack: Ack, payload: Option<Bytes>) {
        let length = self.order.log.length();
        if !self.order.is_whole(context, &ack) {
            return context.events.dropped(DropReason::Malformed);
        }
        if ack.timestamp < length {
            context.events.dropped(DropReason::Duplicate);
            if usize::from(ack.next) != context.rank || ack.site != from {
                return;
            }
            // The previous token site does not know that the token was accepted.
            if self.token.is_elsewhere() && ack.timestamp + 1 == length {
                // A slow application keeps this site from accepting the token. Sources wait for this site too, so all
                // sites are notified.
                self.answers.announced = true;
            } else {
                self.answers.confirmations.insert(from);
            }
            return;
        }
        if self.token.is_here() {
            // Only this site gives timestamps now.
            return context.events.dropped(DropReason::OutOfOrder);
        }
        self.requests.learn(ack.timestamp.saturating_add(1).min(self.order.limit()), from);
        if payload.is_some() {
            self.requests.silence.heard();
        }
        self.order.on_ack(context, ack, payload);
        self.advance(context);
    }

    /// Extends the log, and notes when the next site has accepted the token.
    fn advance(&mut self, context: &mut Context) {
        if self.order.advance(context) || self.order.transfers.is_last_accepted() {
            self.token.on_accepted(context);
        }
    }

    /// Returns the next packet that carries no message of this site.
    fn poll_packet(&mut self, context: &mut Context, takes_part: bool) -> Option<(To, Body<'static>)> {
        let unicast = self.answers.poll(context, &self.order, &self.token).or_else(|| match takes_part {
            true => self.requests.poll(context, &self.order).or_else(|| self.ask_token_site(context)),
            false => self.list.ask(MAX_REQUESTED_RUN, MAX_REQUESTED_RUN).map(|(site, run)| {
                context.timers.arm(Timer::Fetch, context.now + self.settings.request_timeout);
                context.control("retrans", run.start);
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
            true => Some(self.token.confirmation(context, &self.order)),
            // Answers to all sites go before the token site's own acknowledgments.
            false => self.token.poll(context, &mut self.order),
        };
        body.map(|body| (To::Group, body))
    }

    /// Returns the question to the token site, if one is due and this member waits for the token.
    fn ask_token_site(&mut self, context: &mut Context) -> Option<(u16, Body<'static>)> {
        let order = &self.order;
        let site = order.token_site();
        let is_elsewhere = self.token.is_elsewhere() && usize::from(site) != context.rank;
        let waits = is_elsewhere && !order.is_settled() && !order.is_full(context);
        if !self.watch.poll(context, waits) {
            return None;
        }
        let from = order.log.length();
        context.control("retrans", from);
        Some((site, Body::Retrans { from, below: from + 1 }))
    }
}

impl Part for Peer {
    type Timer = Timer;

    const ROLE: Role = Role::Peer;

    fn held(&self) -> Option<u64> {
        Some(self.order.held())
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let agreement = self.list.agreement();
        tell(agreement.state());
        tell(self.token.state(agreement.takes_part()));
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(wire::Datagram::parse(datagram.bytes)) else { return };
        let Some(from) = context.rank_of(datagram.source) else {
            return context.events.dropped(DropReason::NotAMember);
        };
        match packet {
            wire::Datagram::Normal(packet) => self.on_packet(context, from as u16, packet, datagram.bytes),
            wire::Datagram::Reformation(packet) => {
                context.received(packet.name(), self.order.log.length());
                self.list.agreement_mut().handle(context.now, from, &packet);
                self.follow(context);
            }
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        let failed = match timer {
            Timer::Confirm => return self.token.on_confirm_timeout(context, &self.order),
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
            // A site that should have answered has failed: the live sites form a new list.
            self.list.agreement_mut().begin(context.now);
        }
    }

    fn handle_timeout(&mut self, context: &mut Context) {
        self.fire(context);
        self.list.agreement_mut().handle_timeout(context.now, self.order.log.length());
        self.follow(context);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.list.agreement().poll_timeout()
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let takes_part = self.list.agreement().takes_part();
        if takes_part {
            self.token.accept(context, &mut self.order);
        }
        let length = self.order.log.length();
        if let Some((to, packet)) = self.list.agreement_mut().poll_transmit(length) {
            context.control(packet.name(), length);
            wire::Datagram::Reformation(packet).emit(context.association, buf);
            return Some(context.transmit(to));
        }
        // A packet of a reformation carries its ballot number; other packets carry the number of the list.
        let view = self.list.agreement().promised().number;
        if let Some(transmit) = self.answers.poll_repair(context, &self.order, view, buf) {
            return Some(transmit);
        }
        if let Some((to, body)) = self.poll_packet(context, takes_part) {
            context.emit(view, body, buf);
            return Some(context.transmit(to));
        }
        if takes_part { self.order.poll(context, buf, view) } else { None }
    }

    fn offer(&mut self, _context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        self.order.outbox.offer(payload).map(MessageId)
    }

    fn finish(&mut self, _context: &mut Context) {
        self.order.outbox.finish();
    }

    /// Starts a reformation without the member.
    fn expel(&mut self, context: &mut Context, member: NodeId) {
        if let Some(rank) = context.rank_of(member) {
            self.list.expel(context, rank);
            self.follow(context);
        }
    }

    /// Returns true if messages wait for the member, which has the token or the entries that this site is missing.
    fn awaits(&self, context: &Context, member: NodeId) -> bool {
        let Some(rank) = context.rank_of(member) else { return false };
        if !self.list.agreement().takes_part() {
            return self.list.awaits(rank);
        }
        let waits = self.order.has_waiting() || !self.order.is_settled();
        let has_gap = self.requests.gap(&self.order).is_some();
        let site = if has_gap { self.requests.informant } else { self.order.token_site() };
        waits && !self.order.is_full(context) && usize::from(site) == rank
    }

    fn acknowledged(&self, context: &Context, member: NodeId) -> Option<u64> {
        context.rank_of(member).map(|rank| self.order.transfers.confirmed[rank])
    }

    /// Returns true if the site's own messages are delivered here and the token is at rest or elsewhere.
    fn is_finished(&self) -> bool {
        self.order.outbox.is_done() && self.token.rests(&self.order) && !self.list.agreement().is_busy()
    }
}

/// Maximum number of sites: the agreement on a list must fit into a packet.
const MAX_SITES: usize = 128;
