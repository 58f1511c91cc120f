//! The sending side: names receivers by turns, and goes by what they say.

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Dest, DropReason, Event, Identities, InState, MessageId, NodeId,
    OfferError, Outcome, Pace, Received, Role, Transmit, expand,
};
use carillon_wire::rra::{Asks, HEADER_LEN, Map, Packet};

use super::describe::STATES;
use super::receiver::MODULUS;
use crate::blocks::{
    AckWindow, Answer, FixedWindow, FlowControl, Members, PACKET, Part, PastLimit, Player, PollingList,
    Question, Questions, RateControl, ReceiverMap, Retransmission, RetransmissionTimeout,
};

type Scene = crate::blocks::Scene<Timer>;

/// Sends messages, each burst of them naming the receiver whose turn it is.
///
/// With one question at a time, as in the thesis, nothing is sent until the receiver that was asked has
/// answered. With several, packets have serial numbers, a question remembers the last of them, and its answer
/// tells what became of everything up to there: what has been sent again since is not asked for twice.
#[derive(Debug)]
pub struct RraSender {
    burst: u64,
    /// Questions that may be open.
    most_questions: usize,
    /// What may be under way follows the paths.
    by_path: bool,
    retransmission: Retransmission,
    /// What names each member on the wire.
    identities: Identities,
    window: AckWindow,
    audience: PollingList,
    questions: Questions,
    /// Messages that some receiver lacks.
    repairs: BTreeSet<u64>,
    /// What a receiver says it has; kept for its room.
    told: ReceiverMap,
    /// One past the last message sent.
    sent: u64,
    /// Packets of messages sent.
    serial: u64,
    /// Of these, sent since a receiver was last asked.
    in_burst: u64,
    /// The receiver that last reported losses: repairs ask it.
    reporter: Option<usize>,
    /// With several questions packets are spread over time.
    pace: Pace,
    /// All that have something to acknowledge and were not asked are to be.
    ask_all: bool,
}

/// The sender's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The receiver that was asked this has had time to answer: ask again, or give up.
    Answer(u64),
    /// Nothing more was sent for a while: those who were not asked about the last of it are.
    Quiet,
    /// The next packet may leave.
    Pace,
}

impl RraSender {
    /// A sender to the members of the context.
    pub fn new(context: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let burst = settings.count("burst");
        // One acknowledgment at a time: the formula's r is 1.
        let retransmission =
            Retransmission::new(context, settings, HEADER_LEN, burst, Default::default())?.for_receivers(1);
        let members = Members::new(context.members.clone());
        let most_questions = settings.count("questions") as usize;
        let by_path = settings.choice("flow_control") == "path";
        if by_path && most_questions == 1 {
            let why = "`flow_control = \"path\"` goes with several questions: give `questions` above 1";
            return Err(ConfigError::Conflict(why.into()));
        }
        Ok(RraSender {
            burst,
            most_questions,
            by_path,
            audience: PollingList::new(
                members.len(),
                RetransmissionTimeout::new(&retransmission),
                by_path,
                settings.count("flight"),
            ),
            retransmission,
            window: AckWindow::new(members, FixedWindow(settings.count("window"))),
            identities: context.identities.clone(),
            questions: Questions::default(),
            repairs: BTreeSet::new(),
            told: ReceiverMap::default(),
            sent: 0,
            serial: 0,
            in_burst: 0,
            reporter: None,
            pace: Pace::new(None, PACE_DEPTH),
            ask_all: false,
        }
        .play(context))
    }

    fn one_at_a_time(&self) -> bool {
        self.most_questions == 1
    }

    fn on_ack(&mut self, scene: &mut Scene, source: NodeId, ack: Ack<'_>) {
        let Some(index) = self.window.index_of(source) else {
            return scene.events.dropped(DropReason::NotAMember);
        };
        let number = self.questions.expand(ack.question);
        let Some((number, (question, open))) =
            number.and_then(|number| Some((number, self.questions.answer(number, index)?)))
        else {
            // It was not asked this, or has answered it.
            return scene.events.dropped(DropReason::OutOfWindow);
        };
        scene.timers.cancel(Timer::Answer(number));
        // It may have heard more since it was asked; not more than there is.
        let expected = expand(ack.expected.into(), MODULUS, question.end).min(self.sent);
        scene.events.received("ack", expected.saturating_sub(1));
        // What it was asked before and has not answered will not be answered any more. Of one question at a time
        // all are the same one, asked again, and a late answer is one too.
        let before = if self.one_at_a_time() { u64::MAX } else { number };
        let earlier = self.questions.withdraw(index, before);
        for &earlier in &earlier {
            scene.timers.cancel(Timer::Answer(earlier));
        }
        let limit = expected.saturating_add(ack.room.into());
        let closed = earlier.len() as u32 + u32::from(open);
        let answer = Answer {
            asked: question.at,
            then: question.mark,
            serial: question.serial,
            since: self.serial - question.serial,
            arrived: ack.arrived,
        };
        self.audience.on_answer(scene.now, index, closed, answer, limit);
        if self.by_path {
            self.pace.set_rate(scene.now, self.audience.rate());
        }
        if expected > self.window.start() {
            self.window.acknowledge(index, expected - 1);
        }
        self.mark_missing(scene, index, &question, expected, ack.received);
        self.advance(scene);
    }

    /// What a receiver lacks of what had been sent when it was asked is to be sent again, unless that has been done
    /// since.
    fn mark_missing(
        &mut self,
        scene: &mut Scene,
        index: usize,
        question: &Question,
        expected: u64,
        received: Map<'_>,
    ) {
        // Of what it lacks, what nobody else has asked for, and what is to be sent again.
        let (mut news, mut messages) = (0, 0);
        let budget = self.audience.budget.left(index, self.sent);
        let whole = received.span() < MAX_SPAN && !self.one_at_a_time();
        let mut lacks = |number: u64, window: &mut AckWindow| {
            let Some(slot) = window.get_mut(number) else { return };
            if slot.serial > question.serial || slot.sent.is_none() {
                return;
            }
            if self.repairs.contains(&number) {
                messages += 1;
            } else if news < budget {
                self.repairs.insert(number);
                (news, messages) = (news + 1, messages + 1);
            }
        };
        self.told.assign(expected, received.words());
        // Beyond the map nothing is there, unless it was cut off: then the turn of the rest will come again.
        let end = if whole { question.end } else { question.end.min(expected + 1 + received.span()) };
        for number in self.told.missing(self.window.start()..end) {
            lacks(number, &mut self.window);
        }
        if news > 0 {
            self.audience.budget.spend(index, news);
            self.reporter = Some(index);
        }
        if messages > 0 {
            scene.events.repair_needed(self.window.node(index), messages);
        }
    }

    fn advance(&mut self, scene: &mut Scene) {
        let before = self.window.start();
        while let Some((number, slot)) = self.window.pop_acknowledged() {
            let outcome = if slot.failed { Outcome::Failed } else { Outcome::Acknowledged };
            let window = slot.sent.map_or(0, |(_, window)| window);
            scene.events.completed(MessageId(number), outcome, window);
            self.sent = self.sent.max(number + 1);
        }
        if self.window.start() > before && !self.repairs.is_empty() {
            self.repairs = self.repairs.split_off(&self.window.start());
        }
        if self.window.is_empty() {
            self.questions.clear();
            self.audience.nothing_asked();
            self.ask_all = false;
            scene.timers.clear();
        }
    }

    fn on_no_answer(&mut self, scene: &mut Scene, number: u64) {
        let Some(question) = self.questions.expire(number) else { return };
        scene.events.push(Event::TimerFired { timer: "answer" });
        let index = question.index;
        if !self.audience.on_no_answer(&question) {
            // It was asked something else since, which it may still answer.
            return;
        }
        if !self.retransmission.is_exceeded(self.audience.member(index).repeats - 1) {
            return;
        }
        match self.retransmission.past_limit {
            PastLimit::Wait => {}
            PastLimit::Expel => {
                self.expel_member(scene, index);
                scene.events.member_lost(self.window.node(index));
            }
            PastLimit::Skip => {
                self.audience.skip(index);
                let from = self.window.acknowledged_below(index).max(self.window.start());
                for number in from..self.sent {
                    if let Some(slot) = self.window.get_mut(number) {
                        slot.failed = true;
                    }
                }
                if self.sent > from {
                    self.window.acknowledge(index, self.sent - 1);
                }
            }
        }
        self.advance(scene);
    }

    fn expel_member(&mut self, scene: &mut Scene, index: usize) {
        for number in self.questions.withdraw(index, u64::MAX) {
            scene.timers.cancel(Timer::Answer(number));
        }
        self.window.expel(index);
        self.audience.remove(index);
    }

    /// Counts a packet of a message; whether it is the last of its burst.
    fn ends_burst(&mut self, last: bool) -> bool {
        self.in_burst += 1;
        last || self.in_burst >= self.burst()
    }

    /// Packets for each question: by path few enough that each receiver is asked some times in a window.
    fn burst(&self) -> u64 {
        if !self.by_path {
            return self.burst;
        }
        let asked = 4 * self.audience.live().max(1) as u64;
        (self.audience.window() / asked).clamp(1, self.burst)
    }

    /// Whether as much is under way as may be.
    fn is_full(&self, scene: &Scene) -> bool {
        if self.questions.open_count() >= self.most_questions {
            return true;
        }
        if !self.by_path {
            return false;
        }
        let awaited = |question: &&Question| !self.audience.is_silent(question.index, scene.now);
        let oldest = self.questions.open().find(awaited);
        oldest.is_some_and(|oldest| self.serial >= self.audience.limit(oldest.serial))
    }

    /// Asks a receiver with the packet that is about to go out.
    fn ask(&mut self, scene: &mut Scene, index: usize, message: u64) -> Asks {
        let member = self.audience.member_mut(index);
        let question = Question {
            index,
            message,
            serial: self.serial,
            end: self.sent,
            at: scene.now,
            mark: member.path.mark(),
        };
        let deadline = scene.now + member.timeout.current();
        self.audience.on_ask(scene.now, index);
        let number = self.questions.ask(question);
        scene.timers.arm(Timer::Answer(number), deadline);
        self.in_burst = 0;
        Asks { acker: self.identities.member(index, self.window.node(index)) as u32, question: number as u32 }
    }

    /// Emits message `number`, which asks `index` if anyone.
    fn send(&mut self, scene: &mut Scene, number: u64, asks: Option<usize>, buf: &mut Vec<u8>) -> Transmit {
        self.serial += 1;
        self.sent = self.sent.max(number + 1);
        let asks = asks.map(|index| self.ask(scene, index, number));
        let first = (self.window.start() % MODULUS) as u32;
        let window = self.window.len() as u32;
        let slot = self.window.get_mut(number).expect("the message is in the window");
        slot.due = false;
        slot.serial = self.serial;
        let sequence = (number % MODULUS) as u32;
        Packet::Data { sequence, first, asks, payload: &slot.payload }.emit(scene.association, buf);
        let first = slot.sent.is_none();
        match slot.sent {
            Some(_) => slot.retransmissions += 1,
            None => slot.sent = Some((scene.now, window)),
        }
        let to_group = scene.to_group();
        scene.events.data_sent(to_group, MessageId(number), buf.len(), !first)
    }

    fn poll(&mut self, scene: &mut Scene, index: usize, buf: &mut Vec<u8>) -> Transmit {
        let last = self.sent.saturating_sub(1);
        let asks = self.ask(scene, index, last);
        let first = (self.window.start().min(last) % MODULUS) as u32;
        Packet::Poll { sequence: (last % MODULUS) as u32, first, asks }.emit(scene.association, buf);
        scene.events.control("poll", last);
        // The thesis knows multicast only; the others need not hear a question that is not theirs.
        Transmit::now(match self.one_at_a_time() {
            true => Dest::group(scene.group),
            false => Dest::Node(self.window.node(index)),
        })
    }

    /// Asks a receiver again that has not answered: with the same message, or without one if that is complete by
    /// now, or if there is more to ask about than one message.
    fn ask_again(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (index, message) = self.audience.next_again()?;
        let there = self.window.get_mut(message).is_some();
        Some(match there && self.one_at_a_time() {
            true => self.send(scene, message, Some(index), buf),
            false => self.poll(scene, index, buf),
        })
    }

    /// The next repair, or message, that may go out, and whom it asks.
    fn next_message(&mut self) -> Option<(u64, Option<usize>)> {
        if let Some(number) = self.repairs.pop_first() {
            let more = !self.repairs.is_empty() || (self.by_path && self.has_new());
            // The last of a burst asks the receiver that reported the loss.
            let asks = self.ends_burst(!more).then(|| {
                let reporter = self.reporter.filter(|&index| !self.window.is_expelled(index));
                reporter.or_else(|| self.audience.next_turn(|_, _| true))
            });
            return Some((number, asks.flatten()));
        }
        if !self.has_new() {
            return None;
        }
        let number = self.sent.max(self.window.start());
        // With several questions under way more may be offered at once: the quiet timer asks.
        let last = self.one_at_a_time() && number + 1 == self.window.end();
        let asks = self.ends_burst(last).then(|| self.audience.next_turn(|_, _| true));
        Some((number, asks.flatten()))
    }

    /// Whether there is a message that was not sent and all have room for, as far as they are asked in time.
    fn has_new(&self) -> bool {
        let limit = if self.one_at_a_time() { u64::MAX } else { self.audience.room() };
        self.sent < self.window.end().min(limit)
    }

    /// Nothing to send: asks those who have not acknowledged everything.
    fn next_poll(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (sent, window) = (self.sent, &self.window);
        let lacks = |index: usize| window.acknowledged_below(index) < sent;
        if self.one_at_a_time() {
            let index = self.audience.next_turn(|index, _| lacks(index))?;
            return Some(self.poll(scene, index, buf));
        }
        // One that has no room tells so, and that it has again, only when it is asked.
        let blocked = sent < window.end();
        match self.audience.next_unasked(|index, member| lacks(index) || (blocked && member.limit <= sent)) {
            Some(index) if self.ask_all => Some(self.poll(scene, index, buf)),
            Some(_) => {
                if scene.timers.armed(Timer::Quiet).is_none() {
                    scene.timers.arm(Timer::Quiet, scene.now + if blocked { BLOCKED } else { QUIET });
                }
                None
            }
            None => {
                self.ask_all = false;
                None
            }
        }
    }
}

/// An acknowledgment off the wire.
struct Ack<'a> {
    expected: u32,
    question: u32,
    arrived: u32,
    room: u16,
    received: Map<'a>,
}

impl Part for RraSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn tell_states(&self, _scene: &Scene, tell: &mut dyn FnMut(InState)) {
        for (index, member) in self.audience.members() {
            let state = if member.is_asked() { "Asking" } else { "Idle" };
            tell(InState { of: STATES[0].of, about: index as u64, state, turn: member.repeats.into() });
        }
    }

    fn handle_datagram(&mut self, scene: &mut Scene, datagram: Received<'_>) {
        let Some(packet) = scene.of_session(Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::Ack { expected, question, arrived, room, received } => {
                self.on_ack(scene, datagram.source, Ack { expected, question, arrived, room, received });
            }
            _ => scene.events.dropped(DropReason::Foreign),
        }
    }

    fn on_timer(&mut self, scene: &mut Scene, timer: Timer) {
        match timer {
            Timer::Answer(number) => self.on_no_answer(scene, number),
            Timer::Quiet => self.ask_all = true,
            Timer::Pace => {}
        }
    }

    fn poll_transmit(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(transmit) = self.ask_again(scene, buf) {
            return Some(transmit);
        }
        if self.window.is_empty() || self.is_full(scene) {
            return None;
        }
        if self.by_path
            && (self.has_new() || !self.repairs.is_empty())
            && let Some(at) = self.pace.ready_at(scene.now)
        {
            scene.timers.arm(Timer::Pace, at);
            return None;
        }
        if let Some((number, asks)) = self.next_message() {
            self.pace.spend(scene.now, PACKET);
            return Some(self.send(scene, number, asks, buf));
        }
        self.next_poll(scene, buf)
    }

    fn window(&self) -> Option<&AckWindow> {
        Some(&self.window)
    }

    fn window_mut(&mut self) -> Option<&mut AckWindow> {
        Some(&mut self.window)
    }

    fn offer(&mut self, scene: &mut Scene, payload: Bytes) -> Result<MessageId, OfferError> {
        let number = self.window.offer(payload)?;
        // With nobody left to acknowledge, the message is with all receivers at once.
        self.advance(scene);
        Ok(MessageId(number))
    }

    fn expel(&mut self, scene: &mut Scene, member: NodeId) {
        if let Some(index) = self.window.index_of(member) {
            self.expel_member(scene, index);
            self.advance(scene);
        }
    }

    fn acknowledged(&self, _scene: &Scene, member: NodeId) -> Option<u64> {
        let index = self.window.index_of(member)?;
        Some(self.window.acknowledged_below(index))
    }
}

/// What may leave at once: enough for one system call to carry much, and for timers that are late.
const PACE_DEPTH: std::time::Duration = std::time::Duration::from_millis(4);
/// What an acknowledgment can tell of beyond its first missing message.
const MAX_SPAN: u64 = carillon_wire::rra::MAX_WORDS as u64 * 64;
/// How long after the last packet those are asked who were not.
const QUIET: std::time::Duration = std::time::Duration::from_millis(1);
/// The same while a receiver has no room, of which it tells only when asked.
const BLOCKED: std::time::Duration = std::time::Duration::from_millis(10);
