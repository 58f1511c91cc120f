//! The role of a consumer: finds losses, requests repairs by unicast NAKs, and watches the master (RFC 1301, 3.2.4).

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::{Event, MessageId, NodeId, Rng, Time, Transmit};
use carillon_wire::mtp::{Body, HORIZON, Range, Ranges, Status, member_id};

use super::config::{MIN_INTERVAL, Settings};
use super::context::{Context, Timer};
use super::frame::Frame;
use super::master::Master;
use super::order::Order;
use super::producer::MAX_RANGES;
use crate::blocks::MissedPolls;
use crate::blocks::reformation::To;

/// State of a member as consumer.
#[derive(Debug)]
pub(super) struct Consumer {
    settings: Settings,
    rng: Rng,
    /// Incomplete messages.
    wanted: BTreeMap<u64, Want>,
    /// Members that are asked for their place: answers to `isMember`, by rank and first message asked for.
    answers: BTreeSet<(usize, u64)>,
    /// Answers about other members: rank, identifier of the other member, and its rank if it is in the web.
    references: BTreeSet<(usize, u32, Option<usize>)>,
    /// True if the master is to be asked whether it lives.
    probe: bool,
    /// True if the master is to be told that this member is full.
    is_full: bool,
    /// True if the length of the log is to be reported to the master (MTP-2).
    report: bool,
    /// True if this member's log confirms acceptance.
    is_backup: bool,
    /// Length of the log in the last report, and its time.
    reported: (u64, Time),
    /// Number of heartbeats without a packet of the master.
    silence: MissedPolls,
    /// Time of the last packet of the master.
    heard: Time,
}

/// Incomplete message.
#[derive(Clone, Copy, Debug)]
struct Want {
    /// Time of the next NAK.
    due: Time,
    /// Number of NAKs without a new packet.
    tries: u32,
    /// True if the producer no longer keeps it, or does not answer: the master is asked.
    by_master: bool,
    /// True if no member repairs it.
    is_lost: bool,
    /// Source of the recorded loss.
    found: Option<NodeId>,
}

/// Alarm of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// The master does not answer.
    Master,
    /// No member repairs this message.
    Lost(u64),
}

impl Want {
    /// Records the loss of this message of `source`, if it is a new one.
    fn find(&mut self, context: &mut Context, message: u64, source: NodeId) {
        if self.found.is_none() {
            self.found = Some(source);
            context.events.loss_found(source, MessageId(message));
        }
    }
}

impl Consumer {
    /// Creates the consumer of a view.
    pub fn new(context: &Context, settings: &Settings, rng: Rng, is_backup: bool, length: u64) -> Self {
        Consumer {
            settings: settings.clone(),
            rng,
            wanted: BTreeMap::new(),
            answers: BTreeSet::new(),
            references: BTreeSet::new(),
            probe: false,
            is_full: false,
            report: false,
            is_backup,
            reported: (length, context.now),
            silence: MissedPolls::default(),
            heard: context.now,
        }
    }

    /// Random stream, for the consumer of the next view.
    pub fn rng(&self) -> Rng {
        self.rng.clone()
    }

    /// Records a packet of the master.
    pub fn on_master(&mut self, now: Time) {
        self.silence.heard();
        self.heard = now;
        self.probe = false;
    }

    /// Looks for losses. `is_pause` is true after the end of a window or a message: gaps are then losses.
    pub fn detect(&mut self, context: &mut Context, order: &Order, is_pause: bool) {
        let (now, heartbeat) = (context.now, self.settings.heartbeat);
        let next = order.next();
        self.wanted = self.wanted.split_off(&next);
        for message in order.incomplete(context).take(MAX_WANTED).collect::<Vec<_>>() {
            let assembly = order.assembly(message);
            let gap = assembly.filter(|assembly| is_pause && !assembly.missing(false).is_empty());
            let source = gap.map(|assembly| context.nodes[assembly.source]);
            if let Some(want) = self.wanted.get_mut(&message) {
                // A message of which nothing had arrived may have a gap now.
                if let Some(source) = source.filter(|_| want.found.is_none()) {
                    want.due = want.due.min(now);
                    want.find(context, message, source);
                }
                continue;
            }
            let wait = if gap.is_some() { 0 } else { 1 };
            let spread = match self.settings.spreading {
                // A random number of heartbeats from 0 to retention - 2 (3.2.4).
                true => self.rng.below(u64::from(self.settings.retention) - 1) as u32,
                false => 0,
            };
            let due = now + heartbeat.saturating_mul(wait + spread);
            let mut want = Want { due, tries: 0, by_master: false, is_lost: false, found: None };
            if let Some(source) = source {
                want.find(context, message, source);
            }
            self.wanted.insert(message, want);
        }
    }

    /// Records a new packet of a message.
    pub fn on_packet(&mut self, context: &mut Context, order: &Order, message: u64) {
        if order.is_complete(message) {
            let want = self.wanted.remove(&message);
            if let Some(source) = want.and_then(|want| want.found) {
                context.events.push(Event::LossRepaired { source, message: MessageId(message) });
            }
        } else if let Some(want) = self.wanted.get_mut(&message) {
            want.tries = 0;
        }
    }

    /// Handles a refusal (3.2.6): the member no longer keeps the message. `is_final` is true if the master refuses, or
    /// receives the refusal.
    pub fn on_deny(&mut self, now: Time, message: u64, is_final: bool) {
        if let Some(want) = self.wanted.get_mut(&message) {
            if is_final || want.by_master {
                want.is_lost = true;
            } else {
                (want.by_master, want.tries, want.due) = (true, 0, now);
            }
        }
    }

    /// Handles the question of a member whether this one is alive, and how far it is.
    pub fn on_question(&mut self, rank: usize, settled: u64) {
        if self.answers.len() < MAX_ANSWERS {
            self.answers.insert((rank, settled));
        }
        self.report = self.is_backup;
    }

    /// Handles a question about another member, at the master. `known` is its rank if it is in the web.
    pub fn on_third_party(&mut self, rank: usize, target: u32, known: Option<usize>) {
        if self.references.len() < MAX_ANSWERS {
            self.references.insert((rank, target, known));
        }
    }

    /// Handles a heartbeat of this member. Returns alarms.
    pub fn on_tick(&mut self, context: &Context, order: &Order, is_master: bool, waits: bool) -> Vec<Alarm> {
        let mut alarms = Vec::new();
        let limit = self.settings.tries();
        for (&message, want) in &mut self.wanted {
            // The master has each accepted message. It decides on the others by the tokens of their producers.
            let is_accepted = order.decision(message) == Some(Status::Accepted);
            if is_accepted && !is_master {
                match want.by_master {
                    true => want.is_lost |= want.tries > limit,
                    false if want.tries > limit / 2 => (want.by_master, want.tries) = (true, 0),
                    false => {}
                }
            }
            if want.is_lost {
                alarms.push(Alarm::Lost(message));
            }
        }
        self.is_full = !is_master && order.is_crowded(context);
        if !is_master && waits {
            // Decisions that left the acceptance record must be asked for, too.
            let is_behind = order.settled() + HORIZON as u64 <= order.horizon();
            let is_silent = context.now >= self.heard + self.settings.heartbeat;
            self.probe = is_behind || is_silent;
            if is_silent && self.silence.missed(self.settings.patience, self.settings.heartbeat) {
                alarms.push(Alarm::Master);
            }
            let is_unanswered = context.now >= self.reported.1 + self.settings.heartbeat;
            self.report |= self.is_backup && is_unanswered && order.log.delivered() < order.log.length();
        }
        alarms
    }

    /// Emits the next packet.
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &Order,
        frame: Frame,
        (master, own): (usize, Option<&Master>),
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some((rank, settled)) = self.answers.pop_first() {
            // The record covers the messages that the other member does not know the decisions of.
            let message = order.horizon().min(settled + HORIZON as u64);
            let body = Body::Member(member_id(context.association, context.rank), 0);
            return Some(frame.control_at(context, order, To::Rank(rank), message, body, buf));
        }
        if let Some((rank, target, known)) = self.references.pop_first() {
            let age = known.map(|known| own.map_or(0, |own| own.age(context.now, known).as_millis() as u32));
            let body = age.map_or(Body::NotMember(target), |age| Body::Member(target, age));
            return Some(frame.control(context, order, To::Rank(rank), body, buf));
        }
        if own.is_none() {
            if std::mem::take(&mut self.is_full) {
                let body = Body::Member(member_id(context.association, context.rank), 0);
                return Some(frame.with_window(0).control(context, order, To::Rank(master), body, buf));
            }
            let length = order.log.length();
            if self.is_backup && length > self.reported.0 || std::mem::take(&mut self.report) {
                self.reported = (length, context.now);
                self.report = false;
                return Some(frame.control(context, order, To::Rank(master), Body::Held(length), buf));
            }
            if std::mem::take(&mut self.probe) {
                let body = Body::IsMember(member_id(context.association, master));
                let settled = order.settled();
                return Some(frame.control_at(context, order, To::Rank(master), settled, body, buf));
            }
        }
        self.nak(context, order, frame, (master, own), buf)
    }

    /// Arms the timer of the next NAK.
    pub fn arm_timer(&self, context: &mut Context) {
        match self.wanted.values().map(|want| want.due).min() {
            Some(due) => context.timers.arm(Timer::Nak, due.max(context.now + MIN_INTERVAL)),
            None => _ = context.timers.cancel(Timer::Nak),
        }
    }

    /// Returns true if a message is incomplete.
    pub fn waits(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Emits a NAK to the member that has the first due message, with all due ranges of that member.
    fn nak(
        &mut self,
        context: &mut Context,
        order: &Order,
        frame: Frame,
        (master, own): (usize, Option<&Master>),
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let now = context.now;
        let (mut target, mut bytes) = (None, Vec::new());
        for (&message, want) in self.wanted.iter_mut().filter(|(_, want)| want.due <= now) {
            let assembly = order.assembly(message);
            let source = match assembly {
                _ if want.by_master => Some(master),
                Some(assembly) => Some(assembly.source),
                // The master knows the holder of each token; the others know the master.
                None => own.map_or(Some(master), |own| own.holder(message)),
            };
            let Some(source) = source.filter(|&source| source != context.rank) else {
                want.due = now + self.settings.heartbeat;
                continue;
            };
            if *target.get_or_insert(source) != source || bytes.len() >= MAX_RANGES {
                continue;
            }
            let is_silent = assembly.is_none_or(|assembly| now >= assembly.heard + self.settings.heartbeat);
            let missing =
                assembly.map_or_else(|| vec![(0, u16::MAX)], |assembly| assembly.missing(is_silent));
            want.due = now + self.settings.heartbeat;
            if missing.is_empty() {
                continue;
            }
            want.tries = want.tries.saturating_add(1);
            let node = context.nodes[assembly.map_or(source, |assembly| assembly.source)];
            want.find(context, message, node);
            context.events.push(Event::Requested { source: node, message: MessageId(message) });
            let wire = message as u16;
            let ranges = missing.into_iter().take(MAX_RANGES - bytes.len());
            bytes.extend(ranges.map(|(low, high)| Range { low: (wire, low), high: (wire, high) }.bytes()));
        }
        let target = target.filter(|_| !bytes.is_empty())?;
        let body = Body::Nak(Ranges::new(&bytes));
        Some(frame.control(context, order, To::Rank(target), body, buf))
    }

    /// Returns true if the decision shows that a lost message need not be repaired.
    pub fn forgive(&mut self, order: &Order) {
        self.wanted.retain(|&message, _| order.decision(message) != Some(Status::Rejected));
    }
}

/// Maximum number of incomplete messages that are requested at once.
const MAX_WANTED: usize = 256;
/// Maximum number of answers that wait.
const MAX_ANSWERS: usize = 256;
