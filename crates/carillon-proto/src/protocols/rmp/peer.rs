//! Member of the group: source, receiver and, in its turn, token site.

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, MessageId, NodeId, ObservedState, OfferError, Received,
    Role, Time, Transmit,
};
use carillon_wire::reformation::{self, Ballot, Ranks};
use carillon_wire::rmp::{self as wire, Batch, Body, Item, Packet, Slot};

use super::answers::{Answers, emit_ack};
use super::config::Settings;
use super::context::{Context, Timer};
use super::nacks::{MAX_REQUESTED_RUN, Nacks};
use super::order::{MessageState, Order};
use super::slots::{Entry, Message};
use super::token::{Token, TokenPacket};
use crate::blocks::reformation::{Reformation, To, View};
use crate::blocks::{Change, MAX_MESSAGES, Membership, Part, Player, TokenWatch, next_numbers};

/// Member of the group.
#[derive(Debug)]
pub struct Peer {
    pub(super) settings: Settings,
    /// Agreement on the view.
    pub(super) list: Membership<Entry>,
    pub(super) order: Order,
    pub(super) token: Token,
    nacks: Nacks,
    watch: TokenWatch<Timer>,
    answers: Answers,
}

impl Peer {
    /// Creates a member of the group in `build`; fails if the group is too large or a setting is invalid.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config)?;
        let mut context = Context::of_member(build, MAX_MEMBERS)?;
        let (rank, members) = (context.rank, build.members.len());
        let terms = settings.terms();
        let agreement = |is_lost| {
            let rng = build.seeds.stream(if is_lost { "reformation.anew" } else { "reformation" });
            Reformation::new(rank, members, terms, rng, is_lost)
        };
        let list = Membership::new(agreement(build.rejoining)?, Some(agreement(true)?));
        let mut member = Peer {
            settings,
            order: Order::new(build, rank, settings, list.agreement().view()),
            list,
            token: Token::new(&mut context, settings, rank == 0 && !build.rejoining),
            nacks: Nacks::new(build, settings),
            watch: settings.watch(),
            answers: Answers::default(),
        };
        // A returning member takes no part until a view with it is in force.
        member.follow(&mut context);
        Ok(Player::of(member, context))
    }

    /// Applies the changes on which the members agreed: each new view resets the parts of this member.
    fn follow(&mut self, context: &mut Context) {
        while let Some(change) = self.list.follow(context, &mut self.order) {
            let leads = self.list.agreement().view().leader() == context.rank;
            self.token = Token::new(context, self.settings, change == Change::Installed && leads);
            self.nacks.reset();
            self.watch = self.settings.watch();
            self.answers = Answers::default();
        }
    }

    /// Applies the members of the last list in the log to the view. The leader welcomes new ones.
    fn follow_list(&mut self, context: &mut Context) {
        let (ring, view) = (self.order.ring, *self.list.agreement().view());
        if ring == view.members || !self.list.agreement().takes_part() {
            return;
        }
        if !ring.contains(context.rank) {
            // The group has removed this member.
            self.list.agreement_mut().retire(context.now);
            return self.follow(context);
        }
        self.list.agreement_mut().amend(ring);
        if !ring.contains(self.nacks.informant.into()) {
            self.nacks.informant = self.order.token_site();
        }
        if view.leader() == context.rank {
            self.answers.welcomes.extend(ring.without(&view.members).iter().map(|rank| rank as u16));
        }
    }

    /// Returns the list for the next slot, if this member has the token and the members change.
    fn next_list(&self) -> Option<Ranks> {
        let agreement = self.list.agreement();
        if !self.settings.has_ordered_lists || !self.token.is_here() {
            return None;
        }
        self.order.next_list(&agreement.departed(), &agreement.applicants())
    }

    /// Returns true if the order can remove this member: the token does not wait for it, and enough members are left.
    /// The leader notifies members of older views, so its removal takes a new view.
    fn can_list_without(&self, context: &Context, rank: usize) -> bool {
        let agreement = self.list.agreement();
        let left = self.order.ring.len().saturating_sub(1);
        self.settings.has_ordered_lists
            && !agreement.is_busy()
            && self.order.ring.contains(rank)
            && rank != agreement.view().leader()
            && rank != usize::from(self.order.token_site())
            && left > context.nodes.len() / 2
            && left >= self.settings.min_members
    }

    /// Handles the state with which this member begins, since a list of the order has admitted it.
    fn on_welcome(
        &mut self,
        context: &mut Context,
        from: u16,
        (number, timestamp): (u32, u64),
        body: Body<'_>,
    ) {
        let Body::Welcome { members, numbers, .. } = body else { return };
        let group = context.nodes.len();
        let is_valid = members.without(&Ranks::below(group)).is_empty()
            && members.contains(from.into())
            && timestamp < MAX_MESSAGES;
        let Some(numbers) = next_numbers(numbers, group).filter(|_| is_valid) else {
            return context.events.dropped(DropReason::Malformed);
        };
        let ballot = Ballot { number, coordinator: from as u8 };
        let view = View { ballot, members, joiners: [context.rank].into_iter().collect() };
        if !self.list.enter(context, &mut self.order, view, (timestamp, numbers)) {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        context.received("welcome", timestamp);
        self.follow(context);
        self.order.lists.awaited = Some(members);
        self.nacks.learn(timestamp + 1, from);
    }

    /// Handles a packet of normal operation. `bytes` is its datagram.
    fn on_packet(&mut self, context: &mut Context, from: u16, packet: Packet<'_>, bytes: &Bytes) {
        if let Body::Welcome { timestamp, .. } = packet.body {
            return self.on_welcome(context, from, (packet.view, timestamp), packet.body);
        }
        // Members send these packets only while a view is in force. Requests and repairs are also exchanged during a
        // reformation and prove nothing.
        if matches!(packet.body, Body::Data(_) | Body::Ack { .. } | Body::Confirm { .. }) {
            self.list.agreement_mut().on_packet_of(context.now, from.into(), packet.view);
            self.follow(context);
        }
        // The log serves the members that form a view; all of them have promised the same ballot.
        if packet.view == self.list.agreement().promised().number
            && self.on_packet_of_ballot(context, from, &packet.body, bytes)
        {
            return;
        }
        if self.list.is_behind(packet.view) && context.timers.armed(Timer::Behind).is_none() {
            // This member was excluded. It announces itself so that the others notify it.
            self.answers.announced = true;
            context.timers.arm(Timer::Behind, context.now + self.settings.request_timeout);
        }
        if self.list.admits(context, from.into(), packet.view) {
            self.on_body(context, from, packet.body, bytes);
        }
    }

    /// Handles a packet of the log transfer before a new view. Returns false if it is none.
    fn on_packet_of_ballot(
        &mut self,
        context: &mut Context,
        from: u16,
        body: &Body<'_>,
        bytes: &Bytes,
    ) -> bool {
        let agreement = self.list.agreement();
        match *body {
            Body::Nack { site, with_data, from: first, below } if agreement.may_serve(from.into()) => {
                if usize::from(site) == context.rank {
                    self.on_nack(context, from, with_data, first, below);
                } else {
                    context.received("nack", first);
                    self.nacks.on_nack(context, &self.order, first..below);
                    self.signal_loss(context, first, below);
                }
            }
            Body::Purged { below } if self.list.asks(from.into()) => {
                self.list.on_purged(context, &self.order, below);
                self.follow(context);
            }
            Body::Repair { slot, message } if self.list.missing().is_some() => {
                let message = message.map(|message| Message::of(&message, bytes));
                if self.is_sound(context, &slot, message.as_ref()) {
                    let entry = Entry { slot, message, passes: 0, members: 0 };
                    self.list.on_fetched(context, &mut self.order, from.into(), slot.timestamp, entry);
                }
                self.follow(context);
            }
            _ => return false,
        }
        true
    }

    /// Handles a packet of another member of the view in force.
    fn on_body(&mut self, context: &mut Context, from: u16, body: Body<'_>, bytes: &Bytes) {
        self.token.on_sign_of_life(&self.order, from);
        if matches!(body, Body::Ack { .. } | Body::Repair { .. } | Body::Confirm { .. }) {
            self.watch.on_token_activity(context);
        }
        match body {
            Body::Data(message) if message.id.source == from => {
                self.on_data(context, Message::of(&message, bytes));
            }
            Body::Ack { timestamp, site, next, batch } => {
                self.on_ack(context, from, timestamp, (site, next), batch);
            }
            Body::Repair { slot, message } => {
                let message = message.map(|message| Message::of(&message, bytes));
                if !self.is_sound(context, &slot, message.as_ref()) {
                    return context.events.dropped(DropReason::Malformed);
                }
                context.received("repair", slot.timestamp);
                self.on_slot(context, from, slot, message);
            }
            Body::Confirm { site, below } if site == from => {
                context.received("confirm", below);
                let below = below.min(self.order.limit());
                self.order.own.outbox.on_sequencer_alive();
                self.order.passes.confirm(site, below);
                self.nacks.learn(below, site);
                self.advance(context);
            }
            Body::NackData(id) => {
                context.received("nack-data", id.sequence);
                self.nacks.on_nack_data(context, id);
                if usize::from(id.source) == context.rank {
                    let repeats = id.sequence >= self.order.expected(id.source);
                    self.order.own.on_nack(id.sequence, repeats);
                }
            }
            Body::Data(_) | Body::Confirm { .. } => context.events.dropped(DropReason::NotAMember),
            Body::Nack { .. } | Body::Purged { .. } | Body::Welcome { .. } => {
                context.events.dropped(DropReason::OutOfWindow);
            }
        }
    }

    /// Queues the slots that another member requests of this one.
    fn on_nack(&mut self, context: &mut Context, from: u16, with_data: bool, first: u64, below: u64) {
        let log = &self.order.log;
        context.received("nack", first);
        self.token.on_sign_of_life(&self.order, from);
        if first < log.base() {
            self.answers.purged.insert(from);
        }
        let takes_part = self.list.agreement().takes_part();
        if first >= log.length() && takes_part {
            // The requester waits for the token to move: the confirmation shows that this member is alive.
            self.answers.confirmations.insert(from);
        }
        // Members that form a view fetch the log by themselves. Otherwise a repair to all serves all that lost it.
        let to_all = takes_part && self.settings.nack == super::config::NackPolicy::Multicast;
        let to = if to_all { To::Group } else { To::Rank(from.into()) };
        // The answer ends with the log and is limited to the run that a member may request.
        let below = below.min(log.length()).min(first.saturating_add(MAX_REQUESTED_RUN));
        let hold = self.nacks.interval() / 2;
        (first..below).for_each(|slot| self.answers.queue(context.now, to, slot, with_data, hold));
        self.signal_loss(context, first, below);
    }

    /// Notes that messages of this member in these slots are missing somewhere, a sign of congestion.
    fn signal_loss(&mut self, context: &Context, first: u64, below: u64) {
        for timestamp in first..below.min(first.saturating_add(MAX_REQUESTED_RUN)) {
            if let Some(Item::Message(id)) = self.order.log.get(timestamp).map(|entry| entry.slot.item)
                && usize::from(id.source) == context.rank
            {
                self.order.own.on_nack(id.sequence, false);
            }
        }
    }

    /// Handles a message of its source.
    fn on_data(&mut self, context: &mut Context, message: Message) {
        if !self.order.is_valid(context, &message) {
            return context.events.dropped(DropReason::Malformed);
        }
        let id = message.id;
        match self.order.on_data(context, message) {
            MessageState::Ordered if !self.token.is_elsewhere() => {
                // The source has lost the acknowledgment, so it repeats the message.
                if let Some(timestamp) = self.order.find(id).map(|entry| entry.slot.timestamp) {
                    let to = To::Rank(id.source.into());
                    self.answers.queue(context.now, to, timestamp, false, self.settings.request_timeout);
                }
            }
            MessageState::Waiting => {
                self.nacks.miss(&self.order, id);
                self.advance(context);
            }
            MessageState::Ordered | MessageState::Ahead => {}
        }
    }

    /// Handles an acknowledgment: one slot for each of its messages, the last of which passes the token on.
    fn on_ack(
        &mut self,
        context: &mut Context,
        from: u16,
        timestamp: u64,
        (site, next): (u16, u16),
        batch: Batch<'_>,
    ) {
        let name = Body::Ack { timestamp, site, next, batch }.name();
        let items: Vec<Item> = match batch {
            Batch::Null => vec![Item::Null],
            Batch::List(members) => vec![Item::List(members)],
            Batch::Messages(ids) => ids.iter().map(Item::Message).collect(),
        };
        let last = items.len() - 1;
        let slots = items.into_iter().enumerate().map(|(at, item)| {
            let timestamp = timestamp.saturating_add(at as u64);
            Slot { timestamp, site, next: if at == last { next } else { site }, item }
        });
        let slots: Vec<Slot> = slots.collect();
        if !slots.iter().all(|slot| self.order.is_whole(context, slot)) {
            return context.events.dropped(DropReason::Malformed);
        }
        context.received(name, timestamp);
        for slot in slots {
            self.on_slot(context, from, slot, None);
        }
    }

    /// Handles a slot, with its message in a repair.
    fn on_slot(&mut self, context: &mut Context, from: u16, slot: Slot, message: Option<Message>) {
        let length = self.order.log.length();
        if slot.timestamp < length {
            context.events.dropped(DropReason::Duplicate);
            if slot.next == slot.site || usize::from(slot.next) != context.rank || slot.site != from {
                return;
            }
            // The previous token site does not know that the token was accepted.
            if self.token.is_elsewhere() && slot.timestamp + 1 == length {
                // A slow application keeps this member from accepting the token. Sources wait for this member too, so
                // all members are notified.
                self.answers.announced = true;
            } else {
                self.answers.confirmations.insert(from);
            }
            return;
        }
        if self.token.is_here() {
            // Only this member fills slots now.
            return context.events.dropped(DropReason::OutOfOrder);
        }
        self.nacks.learn(slot.timestamp.saturating_add(1).min(self.order.limit()), from);
        if message.is_some() {
            self.nacks.silence.heard();
        }
        self.nacks.on_slot(context, slot.timestamp, message.is_some());
        self.order.on_slot(context, slot, message);
        self.advance(context);
    }

    /// Extends the log, and notes when the next site has accepted the token.
    fn advance(&mut self, context: &mut Context) {
        if self.order.advance(context) || self.order.passes.is_last_accepted() {
            self.token.on_accepted(context);
        }
        self.follow_list(context);
    }

    /// Returns true if a slot and its message are valid and belong together.
    fn is_sound(&self, context: &Context, slot: &Slot, message: Option<&Message>) -> bool {
        let fits = match (slot.item, message) {
            (Item::Message(id), Some(message)) => {
                message.id == id
                    && message.quality != wire::Quality::Unreliable
                    && self.order.is_valid(context, message)
            }
            (Item::Message(_), None) | (Item::Null | Item::List(_), Some(_)) => false,
            (Item::Null | Item::List(_), None) => true,
        };
        fits && self.order.is_whole(context, slot)
    }

    /// Returns the next packet that carries no message of this member.
    fn poll_packet(&mut self, context: &mut Context, takes_part: bool) -> Option<(To, Body<'static>)> {
        if let Some((site, body)) = self.answers.poll(context, &self.order, &self.token) {
            return Some((To::Rank(site.into()), body));
        }
        if !takes_part {
            // Nothing is multicast during a reformation, except its own packets.
            let (site, run) = self.list.ask(MAX_REQUESTED_RUN, MAX_REQUESTED_RUN)?;
            context.timers.arm(Timer::Fetch, context.now + self.settings.request_timeout);
            context.control("nack", run.start);
            let body = Body::Nack { site: site as u16, with_data: true, from: run.start, below: run.end };
            return Some((To::Rank(site), body));
        }
        let request = self.nacks.poll(context, &self.order).or_else(|| self.ask_token_site(context));
        if request.is_some() {
            return request;
        }
        std::mem::take(&mut self.answers.announced)
            .then(|| (To::Group, self.token.confirmation(context, &self.order)))
    }

    /// Writes the next message of this member.
    fn poll_data(&mut self, context: &mut Context, view: u32, buf: &mut Vec<u8>) -> Option<Transmit> {
        let own = &mut self.order.own;
        let (message, before) = match own.poll_unreliable(context) {
            Some(message) => (message, false),
            None => own.poll(context)?,
        };
        context.emit(view, Body::Data(message.as_wire()), buf);
        let id = (context.rank, message.number);
        let transmit = context.data_sent(To::Group, id, buf.len(), before, before);
        self.order.on_sent(context, message);
        Some(transmit)
    }

    /// Returns the question to the token site, if one is due and this member waits for the token.
    fn ask_token_site(&mut self, context: &mut Context) -> Option<(To, Body<'static>)> {
        let order = &self.order;
        let site = order.token_site();
        let is_elsewhere = self.token.is_elsewhere() && usize::from(site) != context.rank;
        let waits = is_elsewhere && !order.is_settled() && !order.is_full(context);
        if !self.watch.poll(context, waits) {
            return None;
        }
        let from = order.log.length();
        context.control("nack", from);
        Some((To::Rank(site.into()), Body::Nack { site, with_data: false, from, below: from + 1 }))
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

    fn start(&mut self, context: &mut Context) {
        self.token.start(context);
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
                if matches!(packet, reformation::Packet::Join { lost: true }) && self.order.is_welcome(from) {
                    // The list has admitted the node already, and the WELCOME was lost.
                    if self.list.agreement().view().leader() == context.rank {
                        self.answers.welcomes.insert(from as u16);
                    }
                    return;
                }
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
            Timer::Nack => return self.nacks.on_delay(),
            Timer::Behind => return,
            Timer::Pass => self.token.on_pass_timeout(),
            Timer::Request => self.nacks.on_timeout(),
            Timer::Expelled => !self.list.agreement().departed().is_empty(),
            Timer::Watch => self.watch.on_timeout(),
            Timer::Data(sequence) => self.order.own.on_timeout(sequence),
        };
        if failed {
            // A member that should have answered has failed: the live members form a new view.
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
        // A packet of a reformation carries its ballot number; other packets carry the number of the view.
        let view = self.list.agreement().promised().number;
        if let Some(transmit) = self.answers.poll_welcome(context, &self.order, view, buf) {
            return Some(transmit);
        }
        if let Some(transmit) = self.answers.poll_slot(context, &self.order, view, buf) {
            return Some(transmit);
        }
        if let Some((to, body)) = self.poll_packet(context, takes_part) {
            context.emit(view, body, buf);
            return Some(context.transmit(to));
        }
        if !takes_part {
            return None;
        }
        let list = self.next_list();
        let packet = self.token.poll(context, &mut self.order, list);
        self.follow_list(context);
        match packet {
            Some(TokenPacket::Ack(first)) => {
                emit_ack(context, &self.order, view, first, buf);
                Some(context.to_group())
            }
            Some(TokenPacket::Other(body)) => {
                context.emit(view, body, buf);
                Some(context.to_group())
            }
            None => self.poll_data(context, view, buf),
        }
    }

    fn offer(&mut self, _context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        self.order.own.offer(payload)
    }

    fn finish(&mut self, _context: &mut Context) {
        self.order.own.outbox.finish();
    }

    /// Removes the member from the list, by a list in the order or by a reformation.
    fn expel(&mut self, context: &mut Context, member: NodeId) {
        let Some(rank) = context.rank_of(member) else { return };
        if self.can_list_without(context, rank) {
            self.list.expel_in_order(context, rank);
            let wait = self.settings.data_timeout.saturating_add(self.settings.max_idle_interval);
            context.timers.arm(Timer::Expelled, context.now + wait);
        } else {
            self.list.expel(context, rank);
            self.follow(context);
        }
    }

    /// Returns true if messages wait for the member, which has the token or the slots that this member is missing.
    fn awaits(&self, context: &Context, member: NodeId) -> bool {
        let Some(rank) = context.rank_of(member) else { return false };
        if !self.list.agreement().takes_part() {
            return self.list.awaits(rank);
        }
        let waits = self.order.has_waiting() || !self.order.is_settled();
        let has_gap = self.nacks.gap(&self.order).is_some();
        let site = if has_gap { self.nacks.informant } else { self.order.token_site() };
        waits && !self.order.is_full(context) && usize::from(site) == rank
    }

    fn acknowledged(&self, context: &Context, member: NodeId) -> Option<u64> {
        context.rank_of(member).map(|rank| self.order.passes.confirmed[rank])
    }

    /// Returns true if the member's own messages are delivered here and all members hold all messages.
    fn is_finished(&self) -> bool {
        self.order.own.is_done() && self.order.is_settled()
    }
}

/// Maximum number of members: the agreement on a view must fit into a packet.
const MAX_MEMBERS: usize = 128;
