//! What every site does with what it hears: messages, acknowledgments, requests (section 2.9.1).

use bytes::Bytes;
use carillon_core::{Delivery, DropReason, Event, MessageId, Outcome, Time};
use carillon_wire::chang_maxemchuk::{ACK_LEN, Ack, Body, Id, MSG_HEADER_LEN, Packet};

use super::inbox::Place;
use super::list::MAX_NUMBER;
use super::peer::{Peer, Timer};
use super::requests::RUN;
use super::token::Token;

impl Peer {
    /// A packet of the normal phase. `bytes` is its datagram.
    pub(super) fn on_packet(&mut self, now: Time, from: u16, packet: Packet<'_>, bytes: &Bytes) {
        // These are only sent once a list is in force; what is asked for and answered while it is
        // being formed shows nothing of that.
        if matches!(packet.body, Body::Msg { .. } | Body::Ack(_) | Body::Confirm { .. }) {
            self.reformation.on_packet_of(now, from.into(), packet.view);
            self.follow(now);
        }
        // The log is served to those who form a list; they are all promised to one ballot.
        if packet.view == self.reformation.promised().number {
            match packet.body {
                Body::Retrans { from: first, below } if self.reformation.may_serve(from.into()) => {
                    return self.on_retrans(from, first, below);
                }
                Body::Purged { below } => return self.on_purged(now, from, below),
                Body::Repair { ack, .. } if self.fetch.is_some() => {
                    return self.on_fetched(now, from, ack, bytes.slice(ACK_LEN..));
                }
                _ => {}
            }
        }
        if packet.view != self.view() || !self.reformation.takes_part() {
            self.on_other_view(now, from, packet.view);
            return self.events.dropped(DropReason::OutOfWindow);
        }
        if !self.is_listed(from) || from == self.rank {
            return self.events.dropped(DropReason::NotAMember);
        }
        self.on_sign_of_life(from);
        if matches!(packet.body, Body::Ack(_) | Body::Repair { .. } | Body::Confirm { .. }) {
            self.on_token_heard(now);
        }
        match packet.body {
            Body::Msg { id, .. } if id.source == from => self.on_msg(id, bytes.slice(MSG_HEADER_LEN..)),
            Body::Msg { .. } => self.events.dropped(DropReason::NotAMember),
            Body::Ack(ack) => self.on_ack(from, ack, None),
            Body::Repair { ack, .. } => {
                let payload = ack.message.map(|_| bytes.slice(ACK_LEN..));
                self.on_ack(from, ack, payload);
            }
            Body::Confirm { site, below } if site == from => self.on_confirm(site, below),
            Body::Confirm { .. } => self.events.dropped(DropReason::NotAMember),
            Body::Retrans { .. } | Body::Purged { .. } => {}
            Body::RetransMessage(id) => {
                self.received("retrans", id.number);
                if let Some(timestamp) = self.log.find(id).map(|entry| entry.ack.timestamp) {
                    self.answers.repair(from, timestamp, true);
                }
            }
        }
    }

    fn received(&mut self, packet: &'static str, number: u64) {
        self.events.push(Event::Received { packet, message: MessageId(number) });
    }

    /// Another site lacks acknowledgments or messages.
    fn on_retrans(&mut self, from: u16, first: u64, below: u64) {
        self.received("retrans", first);
        self.on_sign_of_life(from);
        if first < self.log.base() {
            self.answers.purged(from);
        }
        if first >= self.log.length() && self.reformation.takes_part() {
            // It waits for the token to move: it is not moving yet, but this site lives.
            self.answers.confirm(from);
        }
        // No further than the log, and no more than a site asks for at a time.
        let below = below.min(self.log.length()).min(first.saturating_add(RUN));
        (first..below).for_each(|timestamp| self.answers.repair(from, timestamp, true));
    }

    /// A packet of another list. An older one: its sender was cut out. A newer one: this site was, and
    /// shows itself so that it is told.
    fn on_other_view(&mut self, now: Time, from: u16, view: u32) {
        if !self.reformation.takes_part() {
            return;
        }
        if view < self.view() {
            self.reformation.on_older_view(from.into());
        } else if self.timers.armed(Timer::Behind).is_none() {
            self.announce = true;
            self.timers.arm(Timer::Behind, now + self.settings.request_timeout);
        }
    }

    /// A message: kept until it is acknowledged. "If the message is a duplicate [...] the
    /// acknowledgment is repeated. [...] If messages are missed, [...] a retransmission request is
    /// sent."
    fn on_msg(&mut self, id: Id, payload: Bytes) {
        match self.inbox.place(id) {
            Place::Acknowledged => {
                self.events.dropped(DropReason::Duplicate);
                let answers = self.token != Token::Elsewhere;
                if let Some(entry) = self.log.find(id).filter(|_| answers) {
                    self.answers.repair(id.source, entry.ack.timestamp, false);
                }
            }
            Place::Ahead => {
                self.events.dropped(DropReason::OutOfOrder);
                let expected = self.inbox.expected(id.source);
                if self.gap().is_none() {
                    self.requests.miss(Id { number: expected, ..id });
                }
            }
            Place::Waiting if self.is_full() || self.inbox.len() >= self.settings.waiting => {
                self.events.dropped(DropReason::BufferFull)
            }
            Place::Waiting => {
                if !self.inbox.keep(id, payload) {
                    return self.events.dropped(DropReason::Duplicate);
                }
                self.received("msg", id.number);
                self.advance();
            }
        }
    }

    /// An acknowledgment, perhaps with its message.
    fn on_ack(&mut self, from: u16, ack: Ack, payload: Option<Bytes>) {
        let sites = self.nodes.len();
        let known = |rank: u16| usize::from(rank) < sites;
        let numbered = |id: Id| known(id.source) && id.number < MAX_NUMBER;
        if !known(ack.site) || !known(ack.next) || ack.message.is_some_and(|id| !numbered(id)) {
            return self.events.dropped(DropReason::Malformed);
        }
        if ack.timestamp < self.log.length() {
            self.events.dropped(DropReason::Duplicate);
            if ack.next == self.rank && ack.site == from {
                self.on_transfer_repeated(from, ack.timestamp);
            }
            return;
        }
        if matches!(self.token, Token::Here { .. }) {
            // Only this site gives timestamps now.
            return self.events.dropped(DropReason::OutOfOrder);
        }
        let limit = self.log.limit();
        self.requests.learn(ack.timestamp.saturating_add(1).min(limit), from);
        if ack.timestamp >= limit {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        if payload.is_some() && self.is_full() {
            return self.events.dropped(DropReason::BufferFull);
        }
        if payload.is_some() {
            self.requests.on_answer();
        }
        if !self.log.keep_early(ack, payload) {
            return self.events.dropped(DropReason::Duplicate);
        }
        let number = ack.message.map_or(ack.timestamp, |id| id.number);
        self.received(if ack.message.is_some() { "ack" } else { "transfer" }, number);
        self.advance();
    }

    /// The site before this one has not heard that the token was accepted.
    fn on_transfer_repeated(&mut self, from: u16, timestamp: u64) {
        if self.token == Token::Elsewhere && timestamp + 1 == self.log.length() {
            // It cannot be, for the application is slow. Sources wait for this site too: all are told.
            self.announce = true;
        } else {
            self.answers.confirm(from);
        }
    }

    fn on_confirm(&mut self, site: u16, below: u64) {
        self.received("confirm", below);
        self.source.on_heard();
        let below = below.min(self.log.limit());
        self.log.confirm(site, below);
        self.requests.learn(below, site);
        if self.log.is_last_accepted() {
            self.on_accepted();
        }
        self.commit();
    }

    /// Puts into the log what its end lacked.
    fn advance(&mut self) {
        while let Some((ack, payload)) = self.log.next_early() {
            let in_turn = ack.message.is_none_or(|id| id.number == self.inbox.expected(id.source));
            if !in_turn || !self.may_follow(&ack) {
                self.log.drop_next_early();
                self.events.dropped(DropReason::OutOfOrder);
                continue;
            }
            let payload = match ack.message {
                None => Bytes::new(),
                Some(id) => match payload.or_else(|| self.inbox.get(id)) {
                    Some(payload) => payload.clone(),
                    None => break,
                },
            };
            self.append(ack, payload);
            self.on_accepted();
            self.source.on_heard();
        }
        if self.log.is_last_accepted() {
            self.on_accepted();
        }
        self.commit();
    }

    /// Whether the site that has the token may have given this after the last entry: it passes the
    /// token on in time, and to the next site of the list.
    fn may_follow(&self, ack: &Ack) -> bool {
        let stays = ack.next == ack.site;
        let in_time = self.log.since_transfer() + 1 < self.settings.transfer_every && ack.message.is_some();
        ack.site == self.token_site() && if stays { in_time } else { ack.next == self.after(ack.site) }
    }

    /// Gives a message its place.
    pub(super) fn append(&mut self, ack: Ack, payload: Bytes) {
        self.log.append(ack, payload);
        if let Some(id) = ack.message {
            self.inbox.on_ordered(id);
            if id.source == self.rank {
                self.timers.cancel(Timer::Message(id.number));
            }
        }
    }

    /// Delivers what is committed by now, and forgets what all sites have.
    pub(super) fn commit(&mut self) {
        let resilience = self.resilience();
        while let Some(entry) = self.log.commit_next(resilience) {
            let Some(id) = entry.ack.message else { continue };
            let payload = entry.payload.clone();
            self.deliver(id, payload);
        }
        // A site alone has no one to keep anything for.
        let others = self.ring.len() > 1;
        self.log.purge(if others { self.ring.len() as u64 } else { 0 });
    }

    pub(super) fn deliver(&mut self, id: Id, payload: Bytes) {
        let (source, message) = (self.nodes[usize::from(id.source)], MessageId(id.number));
        self.deliveries.push_back(Delivery { source, message, payload });
        self.events.push(Event::Delivered { source, message });
        if id.source == self.rank && self.source.on_committed(id.number) {
            self.complete(message);
        }
    }

    /// A message of this site has its place at as many sites as it needs.
    pub(super) fn complete(&mut self, message: MessageId) {
        let window = self.settings.window as u32;
        self.events.completed(message, Outcome::Acknowledged, window);
    }
}
