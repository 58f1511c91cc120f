//! The role of the master: grants tokens, decides on messages, and keeps the web synchronised (RFC 1301, 3.2.1).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::{Time, Transmit};
use carillon_wire::mtp::{Body, Empty, HORIZON, Identifiers, Status, member_id};
use carillon_wire::reformation::Ranks;

use super::config::{MIN_INTERVAL, Settings};
use super::context::{Context, Timer};
use super::frame::Frame;
use super::order::Order;
use super::producer::Producer;
use crate::blocks::MissedPolls;
use crate::blocks::reformation::To;

/// State of the master.
#[derive(Debug)]
pub(super) struct Master {
    settings: Settings,
    /// Number of the next token.
    next: u64,
    /// Granted tokens of undecided messages.
    tokens: BTreeMap<u64, Token>,
    /// Requests in the order of their arrival: rank and stream.
    queue: Vec<(usize, u8)>,
    /// Tokens to confirm: rank and message.
    confirms: BTreeSet<(usize, u64)>,
    /// Members that confirm acceptance, with the length of each one's log (MTP-2).
    backups: BTreeMap<usize, u64>,
    /// Number of backups that must hold a message.
    resilience: usize,
    /// Members to ask whether they live, and the number of unanswered questions for each member.
    probes: BTreeSet<usize>,
    silence: Vec<MissedPolls>,
    /// Time of the last packet of each member.
    heard: Vec<Time>,
    /// First message of which the decision was not announced in an empty packet.
    announced: u64,
    /// Time until which no token is granted, since a consumer is full.
    held_until: Time,
    /// True if a decision was not announced.
    has_news: bool,
    /// True if an empty packet is due.
    beat: bool,
    /// True if this member has sent to the group since the last heartbeat.
    pub spoke: bool,
    /// Number of heartbeats without a token.
    idle: u32,
    /// False while a newcomer waits for all tokens to return, or members have not joined.
    pub may_grant: bool,
}

/// Granted token (3.2.1). A token that is not here is idle.
#[derive(Clone, Copy, Debug)]
struct Token {
    holder: usize,
    /// False while no data of the message was seen (pending), then true (busy).
    is_busy: bool,
    /// Time of the grant.
    since: Time,
}

impl Master {
    /// Creates the master of a view.
    pub fn new(context: &Context, order: &Order, settings: &Settings, members: &Ranks) -> Self {
        let others = members.iter().filter(|&rank| rank != context.rank);
        let resilience = settings.election.as_ref().map_or(0, |election| election.resilience);
        let backups: BTreeMap<usize, u64> =
            others.take(resilience).map(|rank| (rank, order.log.length())).collect();
        Master {
            settings: settings.clone(),
            next: order.next(),
            tokens: BTreeMap::new(),
            queue: Vec::new(),
            confirms: BTreeSet::new(),
            resilience: backups.len(),
            backups,
            probes: BTreeSet::new(),
            silence: vec![MissedPolls::default(); context.nodes.len()],
            heard: vec![context.now; context.nodes.len()],
            announced: order.next(),
            held_until: Time::ZERO,
            has_news: false,
            beat: true,
            spoke: false,
            idle: 0,
            may_grant: true,
        }
    }

    /// Handles a request for a token. Only the first request of a member waits (3.2.1).
    pub fn on_request(&mut self, rank: usize, stream: u8, is_own: bool) {
        // The member has not seen the confirm of its last token.
        if let Some((&message, _)) =
            self.tokens.iter().find(|(_, token)| token.holder == rank && !token.is_busy)
        {
            if !is_own && self.confirms.len() < MAX_CONFIRMS {
                self.confirms.insert((rank, message));
            }
        } else if !self.queue.iter().any(|&(waiting, _)| waiting == rank) {
            self.queue.push((rank, stream));
        }
    }

    /// Grants tokens: no undecided message may leave the acceptance record.
    pub fn grant(&mut self, context: &mut Context, order: &mut Order, producer: &mut Producer) {
        let may_grant = self.may_grant && context.now >= self.held_until;
        while may_grant && !self.queue.is_empty() && order.has_room(context, self.next) {
            let oldest = self.tokens.keys().next().copied().unwrap_or(self.next);
            if self.next - oldest >= HORIZON as u64 {
                return;
            }
            // Consumers keep a message until they know the decision. A group with little memory learns of it at once.
            let most = (self.settings.history / usize::from(self.settings.batch)).max(1) as u64;
            if self.next - self.announced >= most {
                self.beat |= self.has_news;
                return;
            }
            let Some((rank, _)) = self.take_request() else { return };
            let message = self.next;
            self.next += 1;
            self.tokens.insert(message, Token { holder: rank, is_busy: false, since: context.now });
            self.idle = 0;
            order.see(self.next);
            if rank == context.rank {
                producer.on_token(context, order, message);
            } else {
                self.confirms.insert((rank, message));
            }
        }
    }

    /// Handles a token that was given back unused.
    pub fn on_cancel(&mut self, order: &mut Order, now: Time, rank: usize, message: u64) {
        if self.tokens.get(&message).is_some_and(|token| token.holder == rank && !token.is_busy) {
            self.conclude(order, now, message, Status::Rejected);
        }
    }

    /// Handles the length of a backup's log.
    pub fn on_held(&mut self, order: &Order, rank: usize, length: u64) {
        if let Some(held) = self.backups.get_mut(&rank) {
            *held = (*held).max(length.min(order.log.length()));
        }
    }

    /// Decides on messages that are complete, and with MTP-2 are held by the backups too.
    pub fn decide(&mut self, order: &mut Order, now: Time) {
        for (&message, token) in &mut self.tokens {
            token.is_busy |= order.packets(message) > 0;
        }
        let safe = self.safe(order);
        let held = |message: u64| match safe {
            None => order.is_complete(message),
            Some(safe) => order.end_of(message).is_some_and(|end| end <= safe),
        };
        // The messages of a member are accepted in their order. If it fails, none follows a rejected one.
        let (mut done, mut waiting) = (Vec::new(), Ranks::default());
        for (&message, token) in &self.tokens {
            if waiting.contains(token.holder) || !held(message) {
                waiting.insert(token.holder);
            } else {
                done.push(message);
            }
        }
        for message in done {
            self.conclude(order, now, message, Status::Accepted);
        }
    }

    /// Handles the heartbeat. Returns members that have not answered for long.
    pub fn on_heartbeat(&mut self, context: &Context, order: &Order) -> Ranks {
        self.beat = !std::mem::take(&mut self.spoke) || self.has_news || self.is_idle();
        self.idle = if self.tokens.is_empty() { self.idle.saturating_add(1) } else { 0 };
        let (now, heartbeat) = (context.now, self.settings.heartbeat);
        let is_late = |token: &Token| token.holder != context.rank && now >= token.since + heartbeat;
        let holders = self.tokens.iter().filter(|(_, token)| is_late(token));
        let holders = holders.map(|(&message, token)| (token.holder, message, token.is_busy));
        let mut awaited = Ranks::default();
        for (holder, message, is_busy) in holders {
            // A repeated confirm asks for the data of a pending token.
            match is_busy {
                true => _ = self.probes.insert(holder),
                false => _ = self.confirms.insert((holder, message)),
            }
            awaited.insert(holder);
        }
        for (&rank, _) in self.backups.iter().filter(|(_, held)| **held < order.log.length()) {
            self.probes.insert(rank);
            awaited.insert(rank);
        }
        let patience = self.settings.patience;
        awaited.iter().filter(|&rank| self.silence[rank].missed(patience, heartbeat)).collect()
    }

    /// Records a packet of this member, which suggests this window (3.4).
    pub fn on_alive(&mut self, now: Time, rank: usize, window: u16) {
        self.silence[rank].heard();
        self.heard[rank] = now;
        self.probes.remove(&rank);
        // A full consumer suggests a window of 0 each heartbeat. Tokens wait until it has stopped for one.
        if window == 0 {
            self.held_until = now + self.settings.heartbeat.saturating_mul(2);
        }
    }

    /// Time for which nothing was heard from a member.
    pub fn age(&self, now: Time, rank: usize) -> Duration {
        now.since(self.heard[rank])
    }

    /// Rejects the messages of a member that has failed, and takes its tokens back.
    pub fn remove(&mut self, order: &mut Order, now: Time, rank: usize) {
        let held = self.tokens.iter().filter(|(_, token)| token.holder == rank);
        for message in held.map(|(&message, _)| message).collect::<Vec<_>>() {
            self.conclude(order, now, message, Status::Rejected);
        }
        self.queue.retain(|&(waiting, _)| waiting != rank);
        self.confirms.retain(|&(confirmed, _)| confirmed != rank);
    }

    /// Emits the next packet.
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &Order,
        mut frame: Frame,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some((rank, message)) = self.confirms.pop_first() {
            let web = [context.association.0.to_be_bytes()];
            let body = Body::TokenConfirm(Identifiers::new(&web));
            return Some(frame.control_at(context, order, To::Rank(rank), message, body, buf));
        }
        if let Some(rank) = self.probes.pop_first() {
            let body = Body::IsMember(member_id(context.association, rank));
            return Some(frame.control(context, order, To::Rank(rank), body, buf));
        }
        if std::mem::take(&mut self.beat) || (self.has_news && self.settings.is_prompt) {
            // An announcement counts as the packet of this heartbeat.
            self.spoke |= std::mem::take(&mut self.has_news);
            self.announced = self.tokens.keys().next().copied().unwrap_or(self.next);
            let empty = if self.is_idle() { Empty::Hibernate } else { Empty::Dally };
            if empty == Empty::Hibernate {
                frame.heartbeat = self.settings.hibernation.as_millis() as u32;
            }
            return Some(frame.control(context, order, To::Group, Body::Empty(empty), buf));
        }
        None
    }

    /// Arms the timer of the heartbeat.
    pub fn arm_timer(&self, context: &mut Context) {
        let interval = if self.is_idle() { self.settings.hibernation } else { self.settings.heartbeat };
        let at = context.now + interval.max(MIN_INTERVAL);
        // A web that wakes up does not wait for the end of its hibernation.
        if context.timers.armed(Timer::Heartbeat).is_none_or(|armed| armed > at) {
            context.timers.arm(Timer::Heartbeat, at);
        }
    }

    /// Returns true if no token is granted.
    pub fn holds_all_tokens(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Producer of an undecided message.
    pub fn holder(&self, message: u64) -> Option<usize> {
        self.tokens.get(&message).map(|token| token.holder)
    }

    /// Returns true if a decision waits for this member.
    pub fn awaits(&self, order: &Order, rank: usize) -> bool {
        self.tokens.values().any(|token| token.holder == rank)
            || self.backups.get(&rank).is_some_and(|&held| held < order.log.length())
    }

    /// Place before which enough backups hold the log; none without an election.
    fn safe(&self, order: &Order) -> Option<u64> {
        self.settings.election.as_ref()?;
        let mut held: Vec<u64> = self.backups.values().copied().collect();
        held.sort_unstable_by(|a, b| b.cmp(a));
        Some(match self.resilience {
            0 => order.log.length(),
            resilience => held.get(resilience - 1).copied().unwrap_or(0).min(order.log.length()),
        })
    }

    fn take_request(&mut self) -> Option<(usize, u8)> {
        // MTP-2 serves higher streams first; the first request of the highest stream in any case.
        let at = match self.settings.election {
            Some(_) => {
                let highest = self.queue.iter().map(|&(_, stream)| stream).max()?;
                self.queue.iter().position(|&(_, stream)| stream == highest)?
            }
            None => 0,
        };
        Some(self.queue.remove(at))
    }

    fn conclude(&mut self, order: &mut Order, now: Time, message: u64, status: Status) {
        self.tokens.remove(&message);
        self.confirms.retain(|&(_, confirmed)| confirmed != message);
        order.decide(message, status);
        order.advance(now);
        self.has_news = true;
    }

    fn is_idle(&self) -> bool {
        // Members that have missed the last decisions learn of them meanwhile.
        self.idle > u32::from(self.settings.retention).min(MAX_IDLE_BEATS) && self.queue.is_empty()
    }
}

/// Maximum number of confirms that wait.
const MAX_CONFIRMS: usize = 1024;
/// Maximum number of heartbeats before an idle web hibernates.
const MAX_IDLE_BEATS: u32 = 8;
