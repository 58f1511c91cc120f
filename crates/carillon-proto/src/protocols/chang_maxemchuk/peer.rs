//! A site: source, receiver, and token site when its turn comes.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    AssociationId, BuildContext, Config, ConfigError, Delivery, Dest, DropReason, Event, Events, GroupId,
    Machine, MessageId, NodeId, OfferError, Received, Receiver, Sender, Time, Timers, Transmit,
};
use carillon_wire::chang_maxemchuk::{self as wire, Body, Id, Packet};

use super::answers::Answers;
use super::config::Settings;
use super::inbox::Inbox;
use super::list::Fetch;
use super::log::Log;
use super::requests::Requests;
use super::source::Source;
use super::token::Token;
use super::watch::Watch;
use crate::blocks::reformation::{Reformation, Terms, To};

/// A site of the group.
#[derive(Debug)]
pub struct Peer {
    pub(super) association: AssociationId,
    pub(super) group: GroupId,
    pub(super) rank: u16,
    pub(super) nodes: Arc<[NodeId]>,
    pub(super) settings: Settings,
    /// The agreement on the token list.
    pub(super) reformation: Reformation,
    /// The same as it is at a site that has lost what it knew.
    pub(super) strange: Reformation,
    /// What is to be had before a list is accepted.
    pub(super) fetch: Option<Fetch>,
    /// The token list: the ranks of its sites, ascending. The token goes around it.
    pub(super) ring: Vec<u16>,
    pub(super) log: Log,
    pub(super) inbox: Inbox,
    pub(super) source: Source,
    pub(super) token: Token,
    pub(super) requests: Requests,
    pub(super) watch: Watch,
    pub(super) answers: Answers,
    /// A site that waits for the token has to tell all that it lives.
    pub(super) announce: bool,
    pub(super) deliveries: VecDeque<Delivery>,
    pub(super) timers: Timers<Timer>,
    pub(super) events: Events,
}

/// The timers of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The token site has had nothing to acknowledge for a while: pass the token on, or confirm.
    Confirm,
    /// The group is idle: send the token around.
    Idle,
    /// The next site has not shown that it accepted the token: repeat the transfer.
    Transfer,
    /// What was asked for has not come: ask again.
    Request,
    /// What is fetched for a new list has not come: ask again.
    Fetch,
    /// The token has not been heard of for long, and ought to move: ask where it is.
    Watch,
    /// This site has shown that it is behind the others not long ago.
    Behind,
    /// This message of the site has not been acknowledged: send it again.
    Message(u64),
}

impl Peer {
    /// A site of the group of the context.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let settings = Settings::new(context, config)?;
        let sites = context.members.len();
        let Some(rank) = context.rank().filter(|_| sites <= MOST_SITES) else {
            return Err(ConfigError::Conflict(format!(
                "a group has at most {MOST_SITES} sites, of which this node is one; it has {sites}"
            )));
        };
        let ring: Vec<u16> = (0..sites as u16).collect();
        // While a site lacks something it does not accept the token, so the others get no further
        // ahead of it than once around.
        let ahead = (sites as u64 + 1) * settings.transfer_every;
        let terms = Terms {
            interval: settings.reform_timeout,
            tries: settings.patience.tries(settings.reform_timeout),
            resilience: settings.resilience as usize,
        };
        let agreement = |is_lost| {
            let rng = context.seeds.stream(if is_lost { "reformation.anew" } else { "reformation" });
            Reformation::new(rank, sites, terms, rng, is_lost)
        };
        let first = rank == 0 && !context.rejoining;
        let mut site = Peer {
            association: context.association,
            group: context.group,
            rank: rank as u16,
            nodes: context.members.clone(),
            settings,
            reformation: agreement(context.rejoining)?,
            strange: agreement(true)?,
            fetch: None,
            ring,
            log: Log::new(sites, ahead),
            inbox: Inbox::new(sites, settings.window, ahead),
            source: Source::default(),
            token: if first { Token::FIRST } else { Token::Elsewhere },
            requests: Requests::default(),
            watch: Watch::default(),
            answers: Answers::default(),
            announce: false,
            deliveries: VecDeque::new(),
            timers: Timers::new(),
            events: Events::default(),
        };
        // One that comes back takes no part yet, and does not know the numbers of its messages.
        site.source.finished = context.rejoining;
        site.follow(Time::ZERO);
        Ok(site)
    }

    /// L: never more than there are other sites.
    pub(super) fn resilience(&self) -> u64 {
        self.settings.resilience.min(self.ring.len() as u64 - 1)
    }

    /// Whether the application is so far behind that nothing new is taken.
    pub(super) fn is_full(&self) -> bool {
        self.deliveries.len() >= self.settings.buffer
    }

    /// How often a site is asked in vain, so long apart, until it is taken to have failed.
    pub(super) fn tries(&self, interval: Duration) -> u32 {
        self.settings.patience.tries(interval)
    }

    /// Whether a rank belongs to the token list.
    pub(super) fn is_listed(&self, rank: u16) -> bool {
        self.ring.binary_search(&rank).is_ok()
    }

    /// The token site, as far as this one knows.
    pub(super) fn token_site(&self) -> u16 {
        let leader = self.reformation.view().leader() as u16;
        self.log.last().map_or(leader, |entry| entry.ack.next)
    }

    /// The version of the token list that is in force here.
    pub(super) fn view(&self) -> u32 {
        self.reformation.view().number()
    }

    /// A packet of the agreement that is due.
    fn poll_reformation(&mut self, buf: &mut Vec<u8>) -> Option<To> {
        let length = self.log.length();
        let (to, packet) = self.reformation.poll_transmit(length)?;
        let name = packet.name();
        wire::Datagram::Reformation(packet).emit(self.association, buf);
        self.events.push(Event::ControlSent { packet: name, message: MessageId(length) });
        Some(to)
    }

    fn poll_answers(&mut self) -> Option<(u16, Body<'static>)> {
        if let Some(site) = self.answers.next_purged() {
            let below = self.log.base();
            self.events.push(Event::ControlSent { packet: "purged", message: MessageId(below) });
            return Some((site, Body::Purged { below }));
        }
        self.answers.next_confirmation().map(|site| (site, self.confirmation()))
    }

    /// A repair that is due, if what was asked for is still kept.
    fn poll_repairs(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            let (site, timestamp, with_message) = self.answers.next_repair()?;
            let Some(entry) = self.log.get(timestamp).cloned() else { continue };
            let transmit = Transmit::now(Dest::Node(self.nodes[usize::from(site)]));
            let body = match with_message {
                true => Body::Repair { ack: entry.ack, payload: &entry.payload },
                false => Body::Ack(entry.ack),
            };
            self.emit(body, buf);
            let Some(id) = entry.ack.message.filter(|_| with_message) else {
                self.record_ack(entry.ack);
                return Some(transmit);
            };
            let message = MessageId(id.number);
            if id.source == self.rank {
                return Some(self.events.data_sent(transmit, message, buf.len(), true));
            }
            let (source, bytes) = (self.nodes[usize::from(id.source)], buf.len() as u32);
            self.events.push(Event::Forwarded { source, message, bytes, repair: true });
            return Some(transmit);
        }
    }

    /// What this site knows of and lacks.
    pub(super) fn gap(&self) -> Option<Range<u64>> {
        self.log.gap(self.requests.known(), |id| self.inbox.get(id).is_some())
    }

    fn poll_requests(&mut self, now: Time) -> Option<(u16, Body<'static>)> {
        if self.is_full() {
            return None;
        }
        if self.requests.missed().is_some_and(|id| self.inbox.expected(id.source) > id.number) {
            self.requests.on_found();
        }
        let gap = self.gap();
        if gap.is_none() && self.requests.missed().is_none() {
            self.timers.cancel(Timer::Request);
            self.requests.restart();
            return None;
        }
        let (site, body, message) = if let Some(run) = gap.and_then(|gap| self.requests.ask(gap)) {
            let body = Body::Retrans { from: run.start, below: run.end };
            (self.requests.informant(), body, MessageId(run.start))
        } else {
            let (id, tries) = self.requests.ask_message()?;
            // The token site first; but its place may have been lost too, and the source knows.
            let site = if tries == 0 { self.token_site() } else { id.source };
            self.events.push(Event::LossFound { source: None, message: MessageId(id.number) });
            (site, Body::RetransMessage(id), MessageId(id.number))
        };
        if self.timers.armed(Timer::Request).is_none() {
            self.timers.arm(Timer::Request, now + self.settings.request_timeout);
        }
        if site == self.rank {
            return None;
        }
        self.events.push(Event::ControlSent { packet: "retrans", message });
        Some((site, body))
    }

    /// An own message that is due.
    fn poll_messages(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let number = self.source.due(self.inbox.expected(self.rank))?;
        let (payload, before) = self.source.send(number)?;
        let id = Id { source: self.rank, number };
        self.emit(Body::Msg { id, payload: &payload }, buf);
        let to_group = Transmit::now(Dest::group(self.group));
        let transmit = self.events.data_sent(to_group, MessageId(number), buf.len(), before);
        self.inbox.keep(id, payload);
        self.timers.arm(Timer::Message(number), now + self.settings.message_timeout);
        Some(transmit)
    }

    pub(super) fn emit(&self, body: Body<'_>, buf: &mut Vec<u8>) {
        // What is sent in a reformation belongs to its ballot; otherwise that is the list's own.
        let view = self.reformation.promised().number;
        Packet { view, body }.emit(self.association, buf);
    }
}

impl Machine for Peer {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        let packet = match wire::Datagram::parse(datagram.bytes) {
            Err(_) => return self.events.dropped(DropReason::Malformed),
            Ok((association, _)) if association != self.association => {
                return self.events.dropped(DropReason::Foreign);
            }
            Ok((_, packet)) => packet,
        };
        let Some(from) = self.nodes.iter().position(|&node| node == datagram.source) else {
            return self.events.dropped(DropReason::NotAMember);
        };
        match packet {
            wire::Datagram::Normal(packet) => self.on_packet(now, from as u16, packet, datagram.bytes),
            wire::Datagram::Reformation(packet) => {
                let message = MessageId(self.log.length());
                self.events.push(Event::Received { packet: packet.name(), message });
                self.reformation.handle(now, from, &packet);
                self.follow(now);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.expire(now) {
            match timer {
                Timer::Confirm => self.on_confirm_timeout(now),
                Timer::Idle => self.on_idle_timeout(),
                Timer::Transfer => {
                    if self.on_transfer_timeout() {
                        self.suspect(now);
                    }
                }
                Timer::Request => {
                    if self.requests.on_timeout() > self.tries(self.settings.request_timeout) {
                        self.suspect(now);
                    }
                }
                Timer::Fetch => self.on_fetch_timeout(),
                Timer::Watch => {
                    if self.on_watch_timeout() {
                        self.suspect(now);
                    }
                }
                Timer::Behind => {}
                Timer::Message(number) => {
                    if self.source.repeat(number) > self.tries(self.settings.message_timeout) {
                        self.suspect(now);
                    }
                }
            }
        }
        self.reformation.handle_timeout(now, self.log.length());
        self.follow(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next().into_iter().chain(self.reformation.poll_timeout()).min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.accept_token(now);
        let group = Dest::group(self.group);
        if let Some(to) = self.poll_reformation(buf) {
            return Some(Transmit::now(match to {
                To::Group => group,
                To::Rank(rank) => Dest::Node(self.nodes[rank]),
            }));
        }
        if let Some(transmit) = self.poll_repairs(buf) {
            return Some(transmit);
        }
        let takes_part = self.reformation.takes_part();
        let unicast = self.poll_answers().or_else(|| match takes_part {
            true => self.poll_requests(now).or_else(|| self.poll_watch(now)),
            false => self.poll_fetch(now),
        });
        if let Some((site, body)) = unicast {
            self.emit(body, buf);
            return Some(Transmit::now(Dest::Node(self.nodes[usize::from(site)])));
        }
        if !takes_part {
            // "During the reformation phase, no messages are multicast."
            return None;
        }
        let body =
            if std::mem::take(&mut self.announce) { Some(self.confirmation()) } else { self.poll_token(now) };
        if let Some(body) = body {
            self.emit(body, buf);
            return Some(Transmit::now(group));
        }
        self.poll_messages(now, buf)
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Sender for Peer {
    fn offer(&mut self, _now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.source.finished {
            return Err(OfferError::Finished);
        }
        if self.source.next().saturating_sub(self.inbox.expected(self.rank)) >= self.settings.window {
            return Err(OfferError::Full);
        }
        Ok(MessageId(self.source.offer(payload)))
    }

    fn finish(&mut self, _now: Time) {
        self.source.finished = true;
    }

    /// A list is made without it.
    fn expel(&mut self, now: Time, member: NodeId) {
        let Some(rank) = self.nodes.iter().position(|&node| node == member) else { return };
        self.strange.expel(now, rank);
        self.reformation.expel(now, rank);
        self.follow(now);
    }

    /// Messages wait for the token, and it is there, or what this site lacks is.
    fn awaits(&self, member: NodeId) -> bool {
        let Some(rank) = self.nodes.iter().position(|&node| node == member) else { return false };
        if !self.reformation.takes_part() {
            let asked = self.fetch.as_ref().is_some_and(|fetch| fetch.asks(rank as u16));
            return asked || self.reformation.awaits(rank);
        }
        let waits = !self.source.is_empty() || self.inbox.len() > 0 || !self.is_settled();
        let site = if self.gap().is_some() { self.requests.informant() } else { self.token_site() };
        waits && !self.is_full() && usize::from(site) == rank
    }

    fn acknowledged(&self, member: NodeId) -> Option<u64> {
        let rank = self.nodes.iter().position(|&node| node == member)?;
        Some(self.log.confirmed(rank as u16))
    }

    /// Its own messages are delivered here; and if it has the token, that has been around since.
    fn is_finished(&self) -> bool {
        self.source.is_done() && self.token_rests() && !self.reformation.is_busy()
    }
}

impl Receiver for Peer {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }
}

/// The greatest group whose agreement on a list of sites has room in a packet.
const MOST_SITES: usize = 128;
