//! Whom a sender asks, when, and what it has asked: the round in which all say what they lack, and in between the paths.

use std::collections::BTreeSet;
use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, Identities, Time, Transmit};
use carillon_wire::carillon::{
    ClosedBlocks as Listed, MAX_LISTED_BLOCKS, MAX_POLLED_RECEIVERS, POLL_LEN, Packet, Poll, PolledReceivers,
};

use super::MODULUS;
use super::blocks::Blocks;
use super::context::{Context, LEAST_QUIET, Timer};
use crate::blocks::{PollWindow, PollingList, Question, Questions, RetransmissionTimeout, RoundTrip};

/// What a poll is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// All that is known to be lacking of closed blocks is to be said in answer, and it is waited for.
    Round,
    /// The same of those who have not answered.
    Again,
    /// What has arrived is to be said, no more.
    Path,
}

/// The receivers, the questions under way, and the round.
#[derive(Debug)]
pub(super) struct Asking {
    /// What names each member on the wire.
    identities: Identities,
    pub audience: PollingList,
    pub questions: Questions,
    /// Round trips of the whole group.
    pub trip: RoundTrip,
    /// Packets between two questions, at most.
    burst: u64,
    /// Packets since somebody was asked.
    in_burst: u64,
    /// A round is under way: what is lacking is gathered until it is over.
    pub is_in_round: bool,
    /// How often those who are awaited may still be asked before their time is over.
    echoes: u32,
    /// Members whose answers the round awaits, and how many they were when it began.
    round: BTreeSet<usize>,
    round_size: usize,
    /// Whether a round may begin: false from the beginning of one until an answer comes, a timer fires, or something goes out. A round whose members are
    /// all silent is over as it begins, and the next one would learn no more.
    may_begin: bool,
    /// When those of it were asked last.
    asked_at: Time,
    /// Somebody who was awaited is so no more.
    misses_some: bool,
    round_from: u64,
    /// When the newest question was asked that was answered.
    answered: Time,
    /// Since when each has left questions unanswered.
    silent_since: Vec<Option<Time>>,
    patience: Duration,
    /// The time for an answer until round trips are known.
    timeout: Duration,
    /// The least time between two questions of a round.
    quiet: Duration,
    /// Those of a crowd who have not confirmed everything before this message and could be asked; 0: that is not known. They are by turns those whose places
    /// are far apart, who hang on different routers, whose queues are short.
    unconfirmed: (u64, BTreeSet<u32>),
    /// Whose turn it is of them.
    turn: u32,
    /// How many questions to a crowd may be open.
    poll_window: PollWindow,
    lists: (Vec<u8>, Vec<u8>),
}

impl Asking {
    /// Nobody was asked.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Self, ConfigError> {
        let span = |name| settings.span(name).at(build.bit_rate);
        let (min, max) = (span("timeout_min"), span("timeout_max"));
        if min > max || min.is_zero() || span("timeout").is_zero() {
            return Err(ConfigError::Conflict(
                "`timeout` or `timeout_min` is zero, or above `timeout_max`: give 0 < timeout_min <= timeout_max".into(),
            ));
        }
        let timeout = RetransmissionTimeout::adaptive(span("timeout"), min, max);
        let members = build.members.len();
        Ok(Asking {
            identities: build.identities.clone(),
            audience: PollingList::new(
                members,
                timeout,
                settings.choice("control") == "delay",
                settings.count("flight"),
            ),
            questions: Questions::to(members),
            trip: RoundTrip::default(),
            burst: settings.count("burst"),
            in_burst: 0,
            is_in_round: false,
            echoes: 0,
            round: BTreeSet::new(),
            round_size: 0,
            may_begin: true,
            asked_at: Time::ZERO,
            misses_some: false,
            round_from: 0,
            answered: Time::ZERO,
            silent_since: vec![None; members],
            patience: span("patience"),
            timeout: span("timeout"),
            quiet: span("quiet").max(LEAST_QUIET),
            unconfirmed: (0, BTreeSet::new()),
            turn: 0,
            poll_window: PollWindow::default(),
            lists: Default::default(),
        })
    }

    /// Whether there are more receivers than one poll names, so that most of them say what they lack by themselves.
    pub fn is_crowd(&self) -> bool {
        self.audience.live() > MAX_LISTED_BLOCKS
    }

    /// Whether the round awaits no more answers. Of a crowd those who are asked stand for the others, and half of their answers suffice.
    pub fn is_round_over(&self) -> bool {
        self.round.is_empty() || self.is_crowd() && self.round.len() * 2 <= self.round_size
    }

    /// Whether a round may begin: none is in progress, and something has happened since the last one began.
    pub fn may_begin_round(&self) -> bool {
        self.may_begin && !self.is_in_round
    }

    /// Lets a round begin: an answer came, or a timer fired.
    pub fn on_news(&mut self) {
        self.may_begin = true;
    }

    /// What goes out next is decided; whether all who were asked have answered.
    pub fn end_round(&mut self) -> bool {
        self.is_in_round = false;
        self.round.clear();
        !std::mem::take(&mut self.misses_some)
    }

    /// Asks these members.
    pub fn poll(
        &mut self,
        context: &mut Context,
        blocks: &mut Blocks,
        members: &[usize],
        purpose: Purpose,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let is_round = purpose == Purpose::Round;
        let is_crowd = self.is_crowd();
        let (listed, asked) = &mut self.lists;
        listed.clear();
        asked.clear();
        if purpose != Purpose::Path {
            blocks.list(is_round, is_crowd, members, listed);
        }
        let name = |index: usize| self.identities.member(index, blocks.window.node(index)) as u32;
        let mut named: Vec<(u32, usize)> = members.iter().map(|&index| (name(index), index)).collect();
        named.sort_unstable();
        let mut question = 0;
        for (name, index) in named {
            let member = self.audience.member(index);
            let timeout = member.timeout.current();
            let deadline = context.now + timeout + timeout / 4 + SLACK;
            let awaited = member.repeats <= AWAITED;
            let mark = member.path.mark();
            self.audience.on_ask(context.now, index);
            let (message, serial, end) = (blocks.sent.saturating_sub(1), blocks.serial, blocks.sent);
            let number = self.questions.ask(Question { index, message, serial, end, at: context.now, mark });
            if question == 0 {
                question = number as u32;
                self.round_from = if is_round { number } else { self.round_from };
            }
            if is_round && awaited {
                self.round.insert(index);
            }
            context.timers.arm(Timer::Answer(number), deadline);
            self.unconfirmed.1.remove(&apart(index));
            self.silent_since[index].get_or_insert(context.now);
            PolledReceivers::push(name, asked);
        }
        self.in_burst = 0;
        self.is_in_round |= is_round;
        if is_round {
            (self.echoes, self.misses_some) = (ECHOES, false);
            (self.round_size, self.may_begin) = (self.round.len(), false);
        }
        self.asked_at = if purpose == Purpose::Path { self.asked_at } else { context.now };
        if (self.echoes > 0 || is_crowd) && purpose != Purpose::Path {
            // Of a crowd more are asked each time: not before anything can have been learnt.
            let unknown = if is_crowd { self.timeout } else { Duration::ZERO };
            let trip = self.trip.mean().unwrap_or(unknown);
            context.timers.arm(Timer::Echo, context.now + (trip / ECHO_PART).max(self.quiet));
        }
        let (mut after, mut span) = (Duration::ZERO, Duration::ZERO);
        if is_crowd && purpose != Purpose::Path {
            let trip = self.trip.mean().unwrap_or(SPAN_MIN);
            (after, span) = (trip * 2, (trip * 4).max(SPAN_MIN));
        }
        let micros = |span: Duration| u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        let number = |number: u64| (number % MODULUS) as u32;
        let (next, first) = (number(blocks.sent), number(blocks.window.start().min(blocks.sent)));
        let last = blocks.sent.saturating_sub(1);
        let poll = Poll { next, first, question, after: micros(after), span: micros(span) };
        let (blocks, asked) = (Listed::new(listed), PolledReceivers::new(asked));
        Packet::Poll { poll, blocks, asked }.emit(context.association, buf);
        context.events.control("poll", last);
        context.to_group()
    }

    /// A receiver answers a question, unless it was not asked this or has answered it; whether it was open, and how many
    /// earlier ones it will not answer any more.
    pub fn on_answer(
        &mut self,
        context: &mut Context,
        index: usize,
        number: u32,
    ) -> Option<(Question, bool, usize)> {
        let number = self.questions.expand(number)?;
        let (question, open) = self.questions.answer(number, index)?;
        context.timers.cancel(Timer::Answer(number));
        if number >= self.round_from {
            self.round.remove(&index);
        }
        self.trip.on_sample(context.now.since(question.at));
        self.answered = self.answered.max(question.at);
        self.poll_window.on_answer(self.audience.live());
        let withdrawn = self.withdraw(context, index, number);
        self.silent_since[index] = None;
        Some((question, open, withdrawn))
    }

    /// A receiver has answered or failed to, and has confirmed all before this message.
    pub fn on_confirmed(&mut self, index: usize, below: u64) {
        if below >= self.unconfirmed.0 || !self.audience.is_unasked(index) {
            self.unconfirmed.1.remove(&apart(index));
        } else {
            self.unconfirmed.1.insert(apart(index));
        }
    }

    /// An answer has taken too long; who was asked, and whether it has been silent for too long. If the round can wait, it does.
    pub fn on_no_answer(&mut self, now: Time, number: u64, can_wait: bool) -> Option<(usize, bool)> {
        let question = self.questions.expire(number)?;
        self.audience.on_no_answer(now, &question);
        let there = 1.0 - self.audience.loss().min(MOST_LOSS);
        self.poll_window.on_no_answer(1.0 - there * there, self.questions.open_count());
        let is_crowd = self.is_crowd();
        let awaited = if can_wait { LONG_AWAITED } else { AWAITED };
        let member = self.audience.member(question.index);
        // The members of a crowd stand for each other: the next round asks others, and this one again in its turn.
        if member.repeats > awaited || is_crowd {
            self.misses_some |= self.round.remove(&question.index);
        }
        let since = self.silent_since[question.index];
        let is_long = since.is_some_and(|since| now.since(since) >= self.patience);
        // A member of a crowd may be asked so seldom that chance alone explains a long silence.
        let is_chance = is_crowd && member.unanswered < self.unanswered_by_chance();
        Some((question.index, is_long && !is_chance))
    }

    /// Number of consecutive questions that may stay without an answer by chance alone, at the loss of the worst path.
    fn unanswered_by_chance(&self) -> u32 {
        let there = 1.0 - self.audience.loss().min(MOST_LOSS);
        let lost = (1.0 - there * there).max(LEAST_LOST);
        libm::ceil(libm::log(SILENT_BY_CHANCE) / libm::log(lost)) as u32
    }

    /// What it has not answered does not matter any more.
    pub fn skip(&mut self, context: &mut Context, index: usize) {
        self.withdraw(context, index, u64::MAX);
        self.round.remove(&index);
        self.audience.skip(index);
        self.silent_since[index] = None;
    }

    /// It is no longer in the group.
    pub fn remove(&mut self, context: &mut Context, index: usize) {
        self.withdraw(context, index, u64::MAX);
        self.round.remove(&index);
        self.unconfirmed.1.remove(&apart(index));
        self.audience.remove(index);
    }

    /// There is nothing to ask about.
    pub fn clear(&mut self, context: &mut Context) {
        self.questions.clear();
        self.audience.nothing_asked();
        self.silent_since.fill(None);
        self.is_in_round = false;
        self.round.clear();
        self.unconfirmed = (0, BTreeSet::new());
        context.timers.clear();
    }

    /// Counts a packet of a message or a symbol.
    pub fn count(&mut self) {
        self.in_burst += 1;
    }

    /// How many are to be asked what has arrived, if enough has gone out for that: each is asked twice while a window
    /// goes out, a few of them at a time, since each poll is a packet to all. Of a crowd some are for the path, and all are while
    /// so many messages go out as are kept until all have them.
    pub fn due(&self, kept: u64) -> Option<usize> {
        let window = self.audience.window().max(1);
        let burst = (window / POLLS).clamp(1, self.burst);
        let live = self.audience.live().clamp(1, MAX_LISTED_BLOCKS) as u64;
        if self.audience.room() == u64::MAX && self.questions.open_count() == 0 {
            // Nobody has said yet how much it can take.
            return (self.in_burst >= burst).then_some(MAX_LISTED_BLOCKS);
        }
        let all = self.audience.live() as u64 * u64::from(self.is_crowd());
        (self.in_burst >= burst).then(|| {
            let asked = self.asked();
            let (path, sweep) = ((asked * live * burst).div_ceil(window), asked * all * burst / kept.max(1));
            path.max(sweep) as usize
        })
    }

    /// How often each is asked while a window goes out: so often that it answers once, nearly always, if answers are lost as packets are.
    fn asked(&self) -> u64 {
        let there = 1.0 - self.audience.loss().min(MOST_LOSS);
        let lost = 1.0 - there * there;
        let times = libm::ceil(libm::log(UNANSWERED) / libm::log(lost.max(1e-9)));
        (times as u64).max(ASKED)
    }

    /// Whether as much is under way as may be, with so many packets sent. Of a crowd some answer is always lost: a question does not hold up
    /// the others any more when one is answered that was asked a round trip later.
    pub fn is_full(&mut self, now: Time, serial: u64) -> bool {
        if self.is_crowd() {
            let (trip, answered) = (self.trip.mean().unwrap_or_default(), self.answered);
            self.questions.discount(|question| question.at + trip < answered);
            return self.audience.is_full(now, serial, self.questions.counted());
        }
        self.audience.is_held(now, serial, self.questions.counted())
    }

    /// Those who have not answered and are to be asked again: of a crowd only if they fill a poll, and the way of the answers bears more than those
    /// that are still to be expected.
    pub fn again(&self) -> Vec<usize> {
        let again: Vec<usize> = self.audience.all_again().take(MAX_LISTED_BLOCKS).collect();
        let most = self.poll_window.limit();
        let waits = again.len() < MAX_LISTED_BLOCKS || self.questions.counted().take(most).count() == most;
        if self.is_crowd() && waits { Vec::new() } else { again }
    }

    /// Those of a crowd who have not confirmed all before `end`, by what they have confirmed, where there is nothing else to do than to ask them, as many
    /// as a poll with so many blocks names. No more questions are open than the way of the answers bears, and there is no poll
    /// for a few as long as more are to come.
    pub fn sweep(&mut self, end: u64, blocks: usize, confirmed: impl Fn(usize) -> u64) -> Vec<usize> {
        let open = self.questions.open_count();
        if !self.is_crowd() || self.is_in_round || open >= self.poll_window.limit() {
            return Vec::new();
        }
        let most = (MOST_BYTES - POLL_LEN - Listed::ENTRY_LEN * blocks.min(MAX_LISTED_BLOCKS))
            / PolledReceivers::ENTRY_LEN;
        let members = self.of_crowd(end, most.min(MAX_POLLED_RECEIVERS), confirmed);
        if open > 0 && members.len() < MAX_LISTED_BLOCKS { Vec::new() } else { members }
    }

    /// At most `most` members of a crowd that have not confirmed all before `end` and have no open question, by turns: those that left the last question
    /// without an answer too.
    fn of_crowd(&mut self, end: u64, most: usize, confirmed: impl Fn(usize) -> u64) -> Vec<usize> {
        if self.unconfirmed.0 != end {
            // With each block that is closed, about which all are to be asked.
            let members = 0..self.silent_since.len();
            let unconfirmed =
                members.filter(|&index| confirmed(index) < end && self.audience.is_unasked(index));
            self.unconfirmed = (end, unconfirmed.map(apart).collect());
        }
        let (_, unconfirmed) = &self.unconfirmed;
        let by_turns = unconfirmed.range(self.turn..).chain(unconfirmed.range(..self.turn));
        let members: Vec<u32> = by_turns.take(most).copied().collect();
        self.turn = members.last().map_or(self.turn, |last| last.wrapping_add(1));
        members.into_iter().map(|place| place.reverse_bits() as usize).collect()
    }

    /// So many at most, by turns, for the path, and for what: those who are awaited in a round are to say what they lack too, since the question or
    /// the answer may be lost, and the others are not asked with them.
    pub fn for_path(&mut self, most: usize) -> (Vec<usize>, Purpose) {
        if self.is_crowd() {
            let most = most
                .min(MAX_LISTED_BLOCKS)
                .min(self.poll_window.limit().saturating_sub(self.questions.open_count()));
            let members = self.audience.next_turns(most, 0, |_| true);
            return (members, Purpose::Again);
        }
        let mut members: Vec<usize> = Vec::new();
        let mut purpose = Purpose::Path;
        while members.len() < most.min(MAX_LISTED_BLOCKS) {
            let is_awaited = |index| self.round.contains(&index);
            let is_like = |index| members.is_empty() || is_awaited(index) == (purpose == Purpose::Again);
            let is_free = |index| !members.contains(&index) && is_like(index);
            let Some(index) = self.audience.next_turn(|index, _| is_free(index)) else { break };
            if members.is_empty() && self.round.contains(&index) {
                purpose = Purpose::Again;
            }
            members.push(index);
        }
        (members, purpose)
    }

    /// Those of the round who have not answered yet: the question or the answer may be lost. Where other packets go out their answers are late by
    /// then. A few times only, so that who does not answer is found out.
    pub fn echo(&mut self, context: &mut Context, is_busy: bool) -> Vec<usize> {
        if self.echoes == 0 || !self.is_in_round {
            return Vec::new();
        }
        let due = self.asked_at + self.trip.timeout().unwrap_or_default();
        if is_busy && context.now < due {
            context.timers.arm(Timer::Echo, due);
            return Vec::new();
        }
        self.echoes -= 1;
        let awaited = |index: &&usize| self.audience.member(**index).repeats == 0;
        self.round.iter().filter(awaited).copied().take(MAX_LISTED_BLOCKS).collect()
    }

    /// Those for a round, as many as one poll names, who have not confirmed all before `end`, by what they have confirmed.
    pub fn for_round(&mut self, end: u64, confirmed: impl Fn(usize) -> u64) -> Vec<usize> {
        if self.is_crowd() {
            let members = self.of_crowd(end, MAX_LISTED_BLOCKS, &confirmed);
            if !members.is_empty() {
                return members;
            }
        }
        self.audience.next_turns(MAX_LISTED_BLOCKS, AWAITED, |index| confirmed(index) < end)
    }

    /// Those who have no room for a message, or not confirmed all before it, and have no open question, as many as one poll names; `is_blocked`: it waits for room.
    pub fn unasked(&mut self, end: u64, is_blocked: bool, confirmed: impl Fn(usize) -> u64) -> Vec<usize> {
        let without_room = self.audience.without_room_for(end).take_while(|_| is_blocked);
        let mut members: Vec<usize> =
            without_room.filter(|&index| self.audience.is_free(index)).take(MAX_LISTED_BLOCKS).collect();
        if self.is_crowd() {
            let others = self.of_crowd(end, MAX_LISTED_BLOCKS - members.len(), confirmed);
            members.extend(others.into_iter().filter(|index| !members.contains(index)).collect::<Vec<_>>());
            return members;
        }
        while members.len() < MAX_LISTED_BLOCKS
            && let Some(index) =
                self.audience.next_unasked(|index, _| confirmed(index) < end && !members.contains(&index))
        {
            members.push(index);
        }
        members
    }

    /// Questions to a receiver before this one will not be answered; how many there were.
    fn withdraw(&mut self, context: &mut Context, index: usize, before: u64) -> usize {
        let earlier = self.questions.withdraw(index, before);
        for number in &earlier {
            context.timers.cancel(Timer::Answer(*number));
        }
        earlier.len()
    }
}

/// A member, in an order in which those who follow each other have places that are far apart.
fn apart(index: usize) -> u32 {
    (index as u32).reverse_bits()
}

/// Polls while a window goes out, at least.
const POLLS: u64 = 8;
/// How often each is asked while a window goes out, at least, and so that no more than this part of them does not answer in it, as long as
/// no more is lost than that.
const ASKED: u64 = 2;
const UNANSWERED: f64 = 0.02;
const MOST_LOSS: f64 = 0.3;
/// A silence that chance explains with less than this probability is one, if at least this part of the questions or answers is taken to be lost.
const SILENT_BY_CHANCE: f64 = 1e-9;
const LEAST_LOST: f64 = 0.02;
/// A poll that asks many has no more bytes than this.
const MOST_BYTES: usize = 1200;
/// Who has left more questions in a row without an answer is asked on, but not waited for; more, where a round can wait.
const AWAITED: u32 = 1;
const LONG_AWAITED: u32 = 4;
/// Those of a round are asked so often before their time is over, after this part of a round trip each, and `quiet` at least.
const ECHOES: u32 = 3;
const ECHO_PART: u32 = 3;
/// Answers that take as long as ever are not late.
const SLACK: Duration = Duration::from_millis(1);
/// How long many receivers spread their requests, at least.
const SPAN_MIN: Duration = Duration::from_millis(10);
