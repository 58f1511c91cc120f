//! Scheduling of polls: which members are polled when, and which responses a round awaits.
//!
//! A round asks every member for its missing messages in closed blocks, and ends when all awaited members have
//! answered. Path polls between rounds only ask what has arrived, and measure each path for congestion control. A
//! group with more members than one poll names (a large group) is sampled instead: half of the answers end a round,
//! and members ask for repairs by themselves after a random back-off (RFC 3208, section 6).

use std::collections::BTreeSet;
use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, Identities, Time, Transmit};
use carillon_wire::carillon::{
    ClosedBlocks as Listed, MAX_LISTED_BLOCKS, MAX_POLLED_RECEIVERS, POLL_LEN, Packet, Poll, PolledReceivers,
};

use super::blocks::Blocks;
use super::census::{Census, Step};
use super::context::{Context, MIN_QUIET, Timer, micros};
use super::unconfirmed::Unconfirmed;
use crate::blocks::congestion::{ControlSettings, Controller};
use crate::blocks::{
    OutstandingPoll, OutstandingPolls, PollWindow, PollingList, RetransmissionTimeout, RoundTrip,
};

/// Purpose of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Begins a round: each member lists everything missing of closed blocks, and the round awaits it.
    Round,
    /// Repeats the poll of a round to members that have not answered.
    Repeat,
    /// Asks only what has arrived.
    Path,
}

/// Members, outstanding polls, and the round in progress.
#[derive(Debug)]
pub(super) struct PollScheduler {
    /// Identifiers of the members on the wire.
    identities: Identities,
    /// Members with their paths, timeouts and rooms.
    pub members: PollingList,
    /// Polls that are not answered yet.
    pub outstanding: OutstandingPolls,
    /// Round-trip times of the whole group.
    pub trip: RoundTrip,
    /// Maximum number of packets between two polls.
    burst: u64,
    /// Number of packets since the last poll.
    in_burst: u64,
    /// True while a round is in progress: requests are collected until it ends.
    pub is_in_round: bool,
    /// Number of further times that awaited members are polled before their deadline.
    repeats_left: u32,
    /// Members from which the round awaits a response, and their number at its beginning.
    round: BTreeSet<usize>,
    round_size: usize,
    /// False from the beginning of a round until a response arrives, a timer fires, or a packet is sent. A round with
    /// only silent members ends as it begins, and another one at the same instant would learn no more.
    may_begin: bool,
    /// Time of the last poll of the round.
    asked_at: Time,
    /// True if the round ended without the response of an awaited member.
    is_incomplete: bool,
    /// Number of the first poll of the round.
    round_from: u64,
    /// Time of the newest poll that was answered.
    answered: Time,
    /// Time since which each member has left polls unanswered.
    silent_since: Vec<Option<Time>>,
    /// Time without an answer after which a member counts as silent for too long.
    patience: Duration,
    /// Response timeout until round trips are measured.
    timeout: Duration,
    /// Minimum time between two polls of a round.
    quiet: Duration,
    /// Members of a large group that have not confirmed everything, and their turns.
    unconfirmed: Unconfirmed,
    /// Confirmation by all members of a very large group.
    pub census: Census,
    /// Number of polls since the last packet that had no other cause. In a very large group, each doubles the pause.
    pub idle_polls: u32,
    /// Limit of the number of outstanding polls to a large group.
    poll_window: PollWindow,
    /// Buffers for the lists of blocks and members in a poll.
    lists: (Vec<u8>, Vec<u8>),
}

impl PollScheduler {
    /// Creates a scheduler without outstanding polls. Fails if the timeouts contradict each other.
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
        let control = ControlSettings {
            receivers: members,
            flight: settings.count("flight"),
            rate: settings.rate("rate"),
        };
        let control = (Controller::named(settings.choice("congestion")).build)(&control)?;
        Ok(PollScheduler {
            identities: build.identities.clone(),
            members: PollingList::new(members, timeout, control, true),
            outstanding: OutstandingPolls::to(members),
            trip: RoundTrip::default(),
            burst: settings.count("burst"),
            in_burst: 0,
            is_in_round: false,
            repeats_left: 0,
            round: BTreeSet::new(),
            round_size: 0,
            may_begin: true,
            asked_at: Time::ZERO,
            is_incomplete: false,
            round_from: 0,
            answered: Time::ZERO,
            silent_since: vec![None; members],
            patience: span("patience"),
            timeout: span("timeout"),
            quiet: span("quiet").max(MIN_QUIET),
            unconfirmed: Unconfirmed::default(),
            census: Census::default(),
            idle_polls: 0,
            poll_window: PollWindow::default(),
            lists: Default::default(),
        })
    }

    /// Returns true if there are more members than one poll names. Most of them then request repairs without a poll.
    pub fn is_large_group(&self) -> bool {
        self.members.live() > MAX_LISTED_BLOCKS
    }

    /// Returns true if each poll costs more than what a sample of the members tells.
    pub fn is_very_large_group(&self) -> bool {
        self.members.live() > MAX_LARGE_GROUP
    }

    /// Returns true if the round awaits no more responses. In a large group half of the responses suffice, since
    /// polled members stand for the others.
    pub fn is_round_over(&self) -> bool {
        self.round.is_empty() || self.is_large_group() && self.round.len() * 2 <= self.round_size
    }

    /// Returns true if a round may begin: none is in progress, and something has happened since the last one began.
    pub fn may_begin_round(&self) -> bool {
        self.may_begin && !self.is_in_round
    }

    /// Permits a round to begin, since a response arrived or a timer fired.
    pub fn allow_round(&mut self) {
        self.may_begin = true;
    }

    /// Ends the round. Returns true if every awaited member has answered.
    pub fn end_round(&mut self) -> bool {
        self.is_in_round = false;
        self.round.clear();
        !std::mem::take(&mut self.is_incomplete)
    }

    /// Arms the timer for the repetition of a poll, if there is one.
    fn await_repeat(&self, context: &mut Context, purpose: Purpose) {
        if (self.repeats_left > 0 || self.is_large_group()) && purpose != Purpose::Path {
            // A poll to a large group samples more members each time. Wait until the last one can have taught
            // something.
            let unknown = if self.is_large_group() { self.timeout } else { Duration::ZERO };
            let trip = self.trip.mean().unwrap_or(unknown);
            context.timers.arm(Timer::Repeat, context.now + (trip / REPEATS_PER_ROUND_TRIP).max(self.quiet));
        }
    }

    /// Wait and range of the requests that a poll causes. Members of a large group spread them over several round
    /// trips, after a time in which repairs already sent can arrive.
    fn request_spread(&self, purpose: Purpose) -> (Duration, Duration) {
        if !self.is_large_group() || purpose == Purpose::Path {
            return (Duration::ZERO, Duration::ZERO);
        }
        let trip = self.trip.mean().unwrap_or(MIN_REQUEST_SPREAD);
        (trip * 2, (trip * 4).max(MIN_REQUEST_SPREAD))
    }

    /// Writes a poll to these members and records it as outstanding.
    pub fn poll(
        &mut self,
        context: &mut Context,
        blocks: &mut Blocks,
        members: &[usize],
        purpose: Purpose,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let is_round = purpose == Purpose::Round;
        let is_large_group = self.is_large_group();
        let (listed, asked) = &mut self.lists;
        listed.clear();
        asked.clear();
        // A path poll lists no blocks, so its answers are short.
        if purpose != Purpose::Path {
            blocks.list(is_round, is_large_group, members, listed);
        }
        // Members are named in ascending order, as a receiver searches the list by bisection.
        let name = |index: usize| self.identities.member(index, blocks.window.node(index)) as u32;
        let mut named: Vec<(u32, usize)> = members.iter().map(|&index| (name(index), index)).collect();
        named.sort_unstable();
        let mut question = 0;
        for (name, index) in named {
            let member = self.members.member(index);
            // A quarter of the timeout is added for the queue that the responses to one poll form.
            let timeout = member.timeout.current();
            let deadline = context.now + timeout + timeout / 4 + ANSWER_SLACK;
            // A member with unanswered polls is asked too, but the round does not wait for it.
            let awaited = member.repeats <= MAX_AWAITED_MISSES;
            let mark = member.path.mark();
            self.members.on_poll(context.now, index);
            // Congestion control compares the answer with the packets sent until now.
            let (message, serial, end) = (blocks.sent.saturating_sub(1), blocks.serial, blocks.sent);
            let number = self.outstanding.insert(OutstandingPoll {
                index,
                message,
                serial,
                end,
                at: context.now,
                mark,
            });
            // The members of a poll have consecutive numbers, so a receiver derives its own from its position.
            if question == 0 {
                question = number as u32;
                self.round_from = if is_round { number } else { self.round_from };
            }
            if is_round && awaited {
                self.round.insert(index);
            }
            context.timers.arm(Timer::Answer(number), deadline);
            // A member with an outstanding poll leaves the set of members that a sweep still has to poll.
            self.unconfirmed.remove(index);
            // Silence begins with the first unanswered poll.
            self.silent_since[index].get_or_insert(context.now);
            PolledReceivers::push(name, asked);
        }
        self.in_burst = 0;
        self.is_in_round |= is_round;
        if is_round {
            // A poll to a very large group costs more than the wait for half of the answers.
            self.repeats_left = if self.is_very_large_group() { 0 } else { MAX_REPEATS };
            (self.round_size, self.may_begin, self.is_incomplete) = (self.round.len(), false, false);
        }
        self.asked_at = if purpose == Purpose::Path { self.asked_at } else { context.now };
        self.await_repeat(context, purpose);
        let (after, span) = self.request_spread(purpose);
        let (next, first) = blocks.poll_range();
        let last = blocks.sent.saturating_sub(1);
        let poll = Poll { next, first, question, after: micros(after), span: micros(span) };
        let (listed, asked) = &self.lists;
        let (blocks, asked) = (Listed::new(listed), PolledReceivers::new(asked));
        Packet::Poll { poll, blocks, asked }.emit(context.association, buf);
        context.events.control("poll", last);
        context.to_group()
    }

    /// Records the response of a member. Returns the poll, whether it was still outstanding, and the number of
    /// earlier polls that it supersedes; none if the member was not asked this or has answered it.
    pub fn on_answer(
        &mut self,
        context: &mut Context,
        index: usize,
        number: u32,
    ) -> Option<(OutstandingPoll, bool, usize)> {
        // The wire carries the lower half of the number.
        let number = self.outstanding.expand(number)?;
        let (question, open) = self.outstanding.answer(number, index)?;
        context.timers.cancel(Timer::Answer(number));
        // An answer to a poll from before the round does not tell the missing messages that the round asks for.
        if number >= self.round_from {
            self.round.remove(&index);
        }
        self.trip.on_sample(context.now.since(question.at));
        self.answered = self.answered.max(question.at);
        self.poll_window.on_answer(self.members.live());
        // One answer covers all earlier polls of the member.
        let withdrawn = self.withdraw(context, index, number);
        self.silent_since[index] = None;
        Some((question, open, withdrawn))
    }

    /// Records that a member has confirmed all messages before `below`.
    pub fn on_confirmed(&mut self, index: usize, below: u64) {
        self.unconfirmed.on_confirmed(index, below, self.members.is_unpolled(index));
    }

    /// Counts a status that answers no poll by name.
    pub fn on_census_answer(&mut self) {
        if self.census.on_answer() {
            self.poll_window.on_answer(self.members.live());
        }
    }

    /// Handles a response that is overdue. Returns the member, and true if it has been silent for too long.
    /// `can_wait` lets the round wait for the member longer.
    pub fn on_no_answer(&mut self, now: Time, number: u64, can_wait: bool) -> Option<(usize, bool)> {
        let question = self.outstanding.expire(number)?;
        self.members.on_no_answer(now, &question);
        self.poll_window.on_no_answer(self.lost_answers(), self.outstanding.open_count());
        let is_large_group = self.is_large_group();
        let awaited = if can_wait { MAX_MISSES_IF_IDLE } else { MAX_AWAITED_MISSES };
        let member = self.members.member(question.index);
        // The members of a large group stand for each other. The next round polls others, and this one in its turn.
        if member.repeats > awaited || is_large_group {
            self.is_incomplete |= self.round.remove(&question.index);
        }
        let since = self.silent_since[question.index];
        let is_long = since.is_some_and(|since| now.since(since) >= self.patience);
        // A member of a large group may be polled so rarely that chance alone explains a long silence.
        let is_chance = is_large_group && member.unanswered < self.unanswered_by_chance();
        Some((question.index, is_long && !is_chance))
    }

    /// Number of consecutive polls that may stay unanswered by chance alone, at the loss of the worst path.
    fn unanswered_by_chance(&self) -> u32 {
        let lost = self.lost_answers().max(MIN_ASSUMED_LOSS);
        // Solve lost^n = MAX_CHANCE_OF_SILENCE for n.
        libm::ceil(libm::log(MAX_CHANCE_OF_SILENCE) / libm::log(lost)) as u32
    }

    /// Forgets the outstanding polls of a member that the sender no longer waits for.
    pub fn skip(&mut self, context: &mut Context, index: usize) {
        self.withdraw(context, index, u64::MAX);
        self.round.remove(&index);
        self.members.skip(index);
        self.silent_since[index] = None;
    }

    /// Removes a member that is no longer in the group.
    pub fn remove(&mut self, context: &mut Context, index: usize) {
        self.withdraw(context, index, u64::MAX);
        self.round.remove(&index);
        self.unconfirmed.remove(index);
        self.members.remove(index);
    }

    /// Forgets all polls, since no data are in flight.
    pub fn clear(&mut self, context: &mut Context) {
        self.outstanding.clear();
        self.members.clear_polls();
        self.silent_since.fill(None);
        self.is_in_round = false;
        self.round.clear();
        self.unconfirmed.clear();
        self.census.clear();
        context.timers.clear();
    }

    /// Counts a message or symbol that was sent.
    pub fn count_packet(&mut self, now: Time) {
        self.in_burst += 1;
        self.idle_polls = 0;
        self.members.control().on_sent(now);
    }

    /// Number of members to poll for their paths now, if enough packets were sent since the last poll. Each member is
    /// polled at least twice per window, a few at a time, since each poll is a packet to the whole group. In a large
    /// group only a sample measures the path, and every member is polled once while the window of kept messages is
    /// sent.
    pub fn polls_due(&self, kept: u64) -> Option<usize> {
        let window = self.members.window().max(1);
        let burst = (window / POLLS_PER_WINDOW).clamp(1, self.burst);
        let live = self.members.live().clamp(1, MAX_LISTED_BLOCKS) as u64;
        if self.members.room() == u64::MAX && self.outstanding.open_count() == 0 {
            // No member has stated its room yet: ask as many as possible.
            return (self.in_burst >= burst).then_some(MAX_LISTED_BLOCKS);
        }
        // Path polls of a small group name all members in turn, and a very large group has a census.
        let sweeps = self.is_large_group() && !self.is_very_large_group();
        let all = self.members.live() as u64 * u64::from(sweeps);
        (self.in_burst >= burst).then(|| {
            let asked = self.polls_per_member();
            // Path polls are spread evenly over the bursts of a window, and the sweep over the kept messages.
            let (path, sweep) = ((asked * live * burst).div_ceil(window), asked * all * burst / kept.max(1));
            path.max(sweep) as usize
        })
    }

    /// Number of polls per member and window. It is so large that the member nearly always answers once, if responses
    /// are lost as packets are.
    fn polls_per_member(&self) -> u64 {
        // The lower bound of the loss avoids the logarithm of zero.
        let times = libm::ceil(libm::log(MAX_SILENT_SHARE) / libm::log(self.lost_answers().max(1e-9)));
        (times as u64).max(MIN_POLLS_PER_MEMBER)
    }

    /// Returns true if the window is full, with `serial` packets sent. In a large group some response is always lost.
    /// Therefore a poll no longer holds up the others after the response to a poll that was sent a round trip later.
    pub fn is_full(&mut self, now: Time, serial: u64) -> bool {
        if self.is_large_group() {
            let (trip, answered) = (self.trip.mean().unwrap_or_default(), self.answered);
            self.outstanding.discount(|question| question.at + trip < answered);
            return self.members.is_full(now, serial, self.outstanding.counted());
        }
        self.members.is_held(now, serial, self.outstanding.counted())
    }

    /// Members to poll again because they did not answer. In a large group only if they fill a poll, and if the
    /// return path carries more responses than are still expected.
    pub fn to_repeat(&self) -> Vec<usize> {
        let again: Vec<usize> = self.members.all_repeated().take(MAX_LISTED_BLOCKS).collect();
        let most = self.poll_window.limit();
        let waits = again.len() < MAX_LISTED_BLOCKS || self.outstanding.counted().take(most).count() == most;
        if self.is_large_group() && waits { Vec::new() } else { again }
    }

    /// Members of a large group that have not confirmed everything before `end`, as many as a poll that lists
    /// `blocks` blocks names. Called if nothing else is to be sent. The poll window limits the outstanding polls, and
    /// no poll goes to only a few members while more responses are expected.
    pub fn sweep(&mut self, end: u64, blocks: usize, confirmed: impl Fn(usize) -> u64) -> Vec<usize> {
        let open = self.outstanding.open_count();
        if !self.is_large_group() || self.is_in_round || open >= self.poll_window.limit() {
            return Vec::new();
        }
        // The listed blocks leave this many entries of a datagram to members.
        let most = (MAX_POLL_BYTES - POLL_LEN - Listed::ENTRY_LEN * blocks.min(MAX_LISTED_BLOCKS))
            / PolledReceivers::ENTRY_LEN;
        let members = self.unconfirmed_members(end, most.min(MAX_POLLED_RECEIVERS), confirmed);
        if open > 0 && members.len() < MAX_LISTED_BLOCKS { Vec::new() } else { members }
    }

    /// Up to `most` members of a large group, in turn, that have not confirmed everything before `end` and have no
    /// outstanding poll. Includes members that did not answer their last poll.
    fn unconfirmed_members(&mut self, end: u64, most: usize, confirmed: impl Fn(usize) -> u64) -> Vec<usize> {
        self.find_unconfirmed(end, confirmed);
        self.unconfirmed.take_turns(most)
    }

    /// Computes the set of these members anew for each closed block.
    fn find_unconfirmed(&mut self, end: u64, confirmed: impl Fn(usize) -> u64) {
        let is_unconfirmed = |index: usize| confirmed(index) < end && self.members.is_unpolled(index);
        self.unconfirmed.compute(end, self.silent_since.len(), is_unconfirmed);
    }

    /// A sample of the same members for a round.
    fn sample(&mut self, end: u64, most: usize, confirmed: impl Fn(usize) -> u64) -> Vec<usize> {
        if !self.is_very_large_group() {
            return self.unconfirmed_members(end, most, confirmed);
        }
        // Most of the members lack the newest block, so the set is not worth its time.
        let is_unconfirmed = |index: usize| confirmed(index) < end && self.members.is_unpolled(index);
        self.unconfirmed.find_in_turn(self.silent_since.len(), most, is_unconfirmed)
    }

    /// Mean round-trip time, at least a millisecond.
    pub fn mean_trip(&self) -> Duration {
        self.trip.mean().unwrap_or(self.timeout).max(MIN_TRIP)
    }

    /// Begins a census about everything before `end`.
    pub fn begin_census(&mut self, now: Time, end: u64, confirmed: impl Fn(usize) -> u64) {
        self.find_unconfirmed(end, confirmed);
        self.census.begin(now, end, (self.unconfirmed.len(), self.members.live()), self.mean_trip());
    }

    /// Returns what to do for the census in progress, if it is not over.
    pub fn census_step(&mut self, now: Time) -> Option<Step> {
        let (trip, lost) = (self.mean_trip(), self.lost_answers());
        self.census.continue_with(now, (self.unconfirmed.len(), self.members.live()), trip);
        self.census.step(now, trip, &mut self.poll_window, lost)
    }

    /// Share of the answers that random loss takes: a poll and its response both cross the lossy path.
    fn lost_answers(&self) -> f64 {
        let there = 1.0 - self.members.loss().min(MAX_ASSUMED_LOSS);
        1.0 - there * there
    }

    /// Time before which a very large group is not polled again while nothing is sent: the pauses double.
    pub fn pauses_until(&self) -> Time {
        self.asked_at + self.mean_trip() * (1 << self.idle_polls.min(MAX_DOUBLINGS))
    }

    /// Up to `most` members in turn for a path poll, and its purpose. Members awaited in a round also repeat their
    /// requests, since the poll or its response may be lost. One poll never mixes awaited and other members.
    pub fn for_path(&mut self, most: usize) -> (Vec<usize>, Purpose) {
        if self.is_large_group() {
            let most = most
                .min(MAX_LISTED_BLOCKS)
                .min(self.poll_window.limit().saturating_sub(self.outstanding.open_count()));
            let members = self.members.next_turns(most, 0, |_| true);
            return (members, Purpose::Repeat);
        }
        let mut members: Vec<usize> = Vec::new();
        let mut purpose = Purpose::Path;
        while members.len() < most.min(MAX_LISTED_BLOCKS) {
            let is_awaited = |index| self.round.contains(&index);
            let is_like = |index| members.is_empty() || is_awaited(index) == (purpose == Purpose::Repeat);
            let is_free = |index| !members.contains(&index) && is_like(index);
            let Some(index) = self.members.next_turn(|index, _| is_free(index)) else { break };
            // The first member decides the purpose of the poll.
            if members.is_empty() && self.round.contains(&index) {
                purpose = Purpose::Repeat;
            }
            members.push(index);
        }
        (members, purpose)
    }

    /// Members of the round that have not answered. While other packets are sent, it waits until their responses are
    /// overdue. The number of repetitions is bounded, so that a silent member is found out.
    pub fn repeat(&mut self, context: &mut Context, is_busy: bool) -> Vec<usize> {
        if self.repeats_left == 0 || !self.is_in_round {
            return Vec::new();
        }
        let due = self.asked_at + self.trip.timeout().unwrap_or_default();
        if is_busy && context.now < due {
            context.timers.arm(Timer::Repeat, due);
            return Vec::new();
        }
        self.repeats_left -= 1;
        // A member that missed its deadline is polled again separately (`to_repeat`).
        let awaited = |index: &&usize| self.members.member(**index).repeats == 0;
        self.round.iter().filter(awaited).copied().take(MAX_LISTED_BLOCKS).collect()
    }

    /// Members for a round, as many as one poll names, that have not confirmed everything before `end`.
    pub fn for_round(&mut self, end: u64, confirmed: impl Fn(usize) -> u64) -> Vec<usize> {
        if self.is_large_group() {
            let members = self.sample(end, MAX_LISTED_BLOCKS, &confirmed);
            if !members.is_empty() || self.is_very_large_group() {
                return members;
            }
        }
        self.members.next_turns(MAX_LISTED_BLOCKS, MAX_AWAITED_MISSES, |index| confirmed(index) < end)
    }

    /// Members without an outstanding poll that have no room for a message, or have not confirmed everything before
    /// it, as many as one poll names. `is_blocked` is true if the sender waits for room.
    pub fn unpolled(&mut self, end: u64, is_blocked: bool, confirmed: impl Fn(usize) -> u64) -> Vec<usize> {
        // The room of members matters only while the sender waits for it.
        let without_room = self.members.without_room_for(end).take_while(|_| is_blocked);
        let mut members: Vec<usize> =
            without_room.filter(|&index| self.members.is_free(index)).take(MAX_LISTED_BLOCKS).collect();
        if self.is_large_group() {
            let others = self.sample(end, MAX_LISTED_BLOCKS - members.len(), confirmed);
            members.extend(others.into_iter().filter(|index| !members.contains(index)).collect::<Vec<_>>());
            return members;
        }
        while members.len() < MAX_LISTED_BLOCKS
            && let Some(index) =
                self.members.next_unpolled(|index, _| confirmed(index) < end && !members.contains(&index))
        {
            members.push(index);
        }
        members
    }

    /// Withdraws the polls of a member before this one. Returns their number.
    fn withdraw(&mut self, context: &mut Context, index: usize, before: u64) -> usize {
        let earlier = self.outstanding.withdraw(index, before);
        for number in &earlier {
            context.timers.cancel(Timer::Answer(*number));
        }
        earlier.len()
    }
}

/// Minimum number of polls per window: 8 keep the burst between two polls, and so the queue that it forms, small.
const POLLS_PER_WINDOW: u64 = 8;
/// Minimum number of polls per member and window.
const MIN_POLLS_PER_MEMBER: u64 = 2;
/// Share of the members that may leave a window without any response, if their loss is at most `MAX_ASSUMED_LOSS`.
const MAX_SILENT_SHARE: f64 = 0.02;
/// Loss rate assumed at most. A worse path would otherwise cause polls and waits without bound.
const MAX_ASSUMED_LOSS: f64 = 0.3;
/// Probability below which chance does not explain a silence.
const MAX_CHANCE_OF_SILENCE: f64 = 1e-9;
/// Loss rate of a packet or its response assumed at least, so that a few lost polls on a good path do not expel a
/// member.
const MIN_ASSUMED_LOSS: f64 = 0.02;
/// Maximum number of bytes of a poll to many members: it fits one Ethernet frame with room for headers.
const MAX_POLL_BYTES: usize = 1200;
/// Number of consecutive unanswered polls up to which a round waits for a member.
const MAX_AWAITED_MISSES: u32 = 1;
/// Bound of the same number while the round can wait at little cost.
const MAX_MISSES_IF_IDLE: u32 = 4;
/// Number of times that a round repeats its poll before the response deadline.
const MAX_REPEATS: u32 = 3;
/// Fraction of a round-trip time between these repetitions, as a divisor; they are at least `quiet` apart.
const REPEATS_PER_ROUND_TRIP: u32 = 3;
/// Time added to the response timeout for scheduling delays of the host.
const ANSWER_SLACK: Duration = Duration::from_millis(1);
/// Minimum time over which the members of a large group spread their requests.
const MIN_REQUEST_SPREAD: Duration = Duration::from_millis(10);
/// Number of members above which a group is very large.
const MAX_LARGE_GROUP: usize = 1024;
/// Shortest round trip from which the times of a census are computed.
const MIN_TRIP: Duration = Duration::from_millis(1);
/// Maximum number of times that the pause between two idle polls doubles.
const MAX_DOUBLINGS: u32 = 16;
