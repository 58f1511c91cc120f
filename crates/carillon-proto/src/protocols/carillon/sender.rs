//! Sender of the protocol: sends messages, polls about closed blocks, and sends the repairs that are due.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, Event, MessageId, NodeId, ObservedState, OfferError,
    PathMeasure, Received, Role, Time, TokenBucket, Transmit,
};
use carillon_wire::carillon::{IncompleteBlocks, MAX_LISTED_BLOCKS, Packet, Status};

use super::blocks::{Blocks, GroupEstimate};
use super::census::Step;
use super::context::{Context, MIN_QUIET, Timer};
use super::polls::{PollScheduler, Purpose};
use super::states::STATES;
use crate::blocks::congestion::Answer;
use crate::blocks::{
    AckWindow, FixedWindow, Members, NOMINAL_PACKET_BYTES, Part, PastLimit, Player, RateControl, RepairBlock,
    Request, near,
};

/// Sender that transmits messages as they come, polls the receivers about closed blocks, and sends the repairs they
/// need.
#[derive(Debug)]
pub struct CarillonSender {
    blocks: Blocks,
    polls: PollScheduler,
    pace: TokenBucket,
    /// Configured upper bound of the rate; none if only congestion control limits it.
    rate: Option<carillon_core::BitRate>,
    past_limit: PastLimit,
    block_time: Duration,
    /// Time at which the open block was opened.
    opened: Time,
    /// Time of the last message or repair.
    sent_at: Time,
    quiet: Duration,
    /// True once nothing was sent for `quiet`: members that have not confirmed everything are polled.
    is_quiet: bool,
    /// True if the members awaited in the round may be polled again while nothing else is to be sent.
    is_repeat_due: bool,
    /// Since when offered messages cannot be sent because members have not confirmed enough, and the total time of
    /// earlier occasions.
    held: (Option<Time>, Duration),
    /// Buffer for the indices of missing messages, reused for each status.
    missing: Vec<u16>,
}

impl CarillonSender {
    /// Creates a sender to the members in `build`. Fails if the settings contradict each other.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let window = FixedWindow(settings.count("window"));
        let span = |name| settings.span(name).at(build.bit_rate);
        let quiet = span("quiet").max(MIN_QUIET);
        Ok(CarillonSender {
            // Blocks own the send window; the poll scheduler owns all knowledge of the receivers.
            blocks: Blocks::new(AckWindow::new(Members::new(build.members.clone()), window), settings),
            polls: PollScheduler::new(build, settings)?,
            pace: TokenBucket::new(settings.rate("rate"), PACING_BURST),
            rate: settings.rate("rate"),
            past_limit: PastLimit::of(settings),
            block_time: span("block_time").max(MIN_QUIET),
            opened: Time::ZERO,
            sent_at: Time::ZERO,
            quiet,
            is_quiet: false,
            is_repeat_due: false,
            held: (None, Duration::ZERO),
            missing: Vec::new(),
        }
        .play(build))
    }

    /// Handles a status: a response to a poll, or a request that a member of a large group sent by itself (question
    /// 0).
    fn on_status(
        &mut self,
        context: &mut Context,
        source: NodeId,
        status: Status,
        lacking: IncompleteBlocks<'_>,
    ) {
        let CarillonSender { blocks, polls, pace, .. } = self;
        let Some(index) = blocks.window.index_of(source) else {
            return context.events.dropped(DropReason::NotAMember);
        };
        // A request by itself names no poll, so its sequence number is expanded near the start of the window.
        let expected = if status.question == 0 {
            polls.on_census_answer();
            near(status.expected, blocks.window.start()).min(blocks.sent)
        } else {
            let Some((question, open, withdrawn)) = polls.on_answer(context, index, status.question) else {
                return context.events.dropped(DropReason::OutOfWindow);
            };
            // The receiver may have received more since the poll, but no more than was sent.
            let expected = near(status.expected, question.end).min(blocks.sent);
            let answer = Answer {
                asked: question.at,
                then: question.mark,
                serial: question.serial,
                since: blocks.serial - question.serial,
                arrived: status.arrived,
            };
            // The answer settles its own poll, if that was open, and all earlier ones of the member.
            let closed = withdrawn as u32 + u32::from(open);
            let limit = expected.saturating_add(status.room.into());
            polls.members.on_answer(context.now, index, closed, answer, limit);
            // The configured rate is an upper bound of the rate that the paths carry.
            pace.set_rate(context.now, polls.members.rate().into_iter().chain(self.rate).min());
            expected
        };
        context.events.received("status", expected.saturating_sub(1));
        polls.allow_round();
        if expected > blocks.window.start() {
            blocks.window.acknowledge(index, expected - 1);
        }
        polls.on_confirmed(index, expected);
        // A member may cause only a bounded number of repairs, so that a false claim does not load the group.
        let mut budget = polls.members.budget.left(index, blocks.sent);
        for lacks in lacking.iter() {
            let first = near(lacks.first, expected);
            let Some(block) = blocks.find(first) else { continue };
            let missing = &mut self.missing;
            missing.clear();
            for (at, word) in lacks.missing.words().enumerate() {
                missing.extend((0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| (at * 64 + bit) as u16));
            }
            let most = budget.min(lacks.lacks.into());
            // In a large group only some members answer, so their missing messages do not show what the others miss.
            let missing = (!missing.is_empty() && !polls.is_large_group()).then_some(&missing[..]);
            let (count, lacks, plain) = (lacks.count, lacks.lacks, lacks.plain);
            let added = block.on_request(Request { index, count, lacks, plain, missing, most });
            polls.members.budget.spend(index, added);
            budget -= added.min(budget);
        }
        // A single receiver, or a group too large to collect all answers, is served at once: no round would bring
        // more knowledge.
        if polls.members.live() == 1 || polls.is_large_group() {
            self.decide(context, true, true);
        }
        self.advance(context);
        self.on_round(context);
    }

    /// Decides what to send once all awaited members have answered.
    fn on_round(&mut self, context: &mut Context) {
        if self.polls.is_in_round && self.polls.is_round_over() {
            // A round that lost a member's answer is incomplete: coded symbols then serve the silent members best.
            let is_complete = self.polls.end_round();
            self.decide(context, false, is_complete);
        }
    }

    /// Decides which repairs are due. If round trips are long and no new message can be sent meanwhile, it adds
    /// repairs against their loss, since a further round takes longer than the packets.
    fn decide(&mut self, context: &mut Context, of_all: bool, is_complete: bool) {
        let spare = (self.is_round_trip_long() && !self.has_new()).then(|| self.polls.members.loss());
        self.blocks.decide(context, of_all, is_complete, spare);
    }

    fn is_round_trip_long(&self) -> bool {
        self.polls.trip.mean().is_some_and(|trip| trip >= LONG_ROUND_TRIP)
    }

    fn on_no_answer(&mut self, context: &mut Context, number: u64) {
        // Waiting for an answer costs little if other packets can be sent meanwhile, or if the round trip is short.
        let can_wait = self.has_new() || !self.is_round_trip_long();
        let Some((index, is_over)) = self.polls.on_no_answer(context.now, number, can_wait) else { return };
        context.events.push(Event::TimerFired { timer: "answer" });
        match self.past_limit {
            _ if !is_over => {}
            PastLimit::Wait => {}
            PastLimit::Expel => {
                self.blocks.window.expel(index);
                self.polls.remove(context, index);
                context.events.member_lost(self.blocks.window.node(index));
            }
            PastLimit::Skip => {
                self.polls.skip(context, index);
                self.blocks.window.skip(index, self.blocks.sent);
            }
        }
        self.polls.on_confirmed(index, self.blocks.window.acknowledged_below(index));
        self.advance(context);
        self.on_round(context);
    }

    /// Estimate of the group for the length of the next block.
    fn group_estimate(&self) -> GroupEstimate {
        let members = &self.polls.members;
        let room = members.room().saturating_sub(self.blocks.window.start());
        let room = if members.room() == u64::MAX { INITIAL_ROOM } else { room };
        GroupEstimate { receivers: members.live(), room, loss: members.loss(), window: members.window() }
    }

    /// Records that the next message is in the open block, which it may have opened.
    fn on_next(&mut self, context: &mut Context, begins: bool) {
        if begins {
            self.opened = context.now;
            context.timers.arm(Timer::Close, context.now + self.block_time);
        }
    }

    /// Lets withheld messages enter their block, which takes no packet. Comes first, because it can complete a block
    /// to poll about.
    fn take_withheld(&mut self, context: &mut Context) {
        while self.has_new() && self.blocks.is_next_withheld() {
            let (_, begins) = self.blocks.take_next(context, self.group_estimate());
            self.on_next(context, begins);
        }
    }

    /// Returns true if a message was not sent yet and every receiver has room for it.
    fn has_new(&self) -> bool {
        self.blocks.sent < self.blocks.window.end().min(self.polls.members.room())
    }

    /// Paces at the rate that the paths carry, of which the configured rate is an upper bound.
    fn update_rate(&mut self, now: Time) {
        self.pace.set_rate(now, self.polls.members.rate().into_iter().chain(self.rate).min());
    }

    /// Notes whether offered messages cannot be sent now because members have not confirmed enough.
    fn note_held(&mut self, now: Time, is_held: bool) {
        let since = self.held.0.take().unwrap_or(now);
        self.held.1 += now.since(since);
        self.held.0 = is_held.then_some(now);
    }

    /// Polls the members that have not confirmed what was sent, as many as one poll names.
    fn ask_all(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.polls.may_begin_round() {
            return None;
        }
        let (blocks, end) = (&self.blocks, self.blocks.closed_below());
        let members = self.polls.for_round(end, |index| blocks.window.acknowledged_below(index));
        if members.is_empty() {
            return None;
        }
        Some(self.polls.poll(context, &mut self.blocks, &members, Purpose::Round, buf))
    }

    /// Writes a poll that finds out whether lost responses alone fill the window, if one is due.
    fn poll_when_full(
        &mut self,
        context: &mut Context,
        is_large_group: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.note_held(context.now, true);
        if !(is_large_group && std::mem::take(&mut self.is_repeat_due)) {
            return None;
        }
        let (members, purpose) = self.polls.for_path(MAX_LISTED_BLOCKS);
        let asks = !members.is_empty();
        asks.then(|| self.polls.poll(context, &mut self.blocks, &members, purpose, buf))
    }

    /// Waits until this time for the token bucket.
    fn await_pace(&mut self, context: &mut Context, at: Time) {
        // A member holds the sender up if its path is slower than the configured rate.
        let by_path = self.polls.members.rate().is_some_and(|path| self.rate.is_none_or(|rate| path < rate));
        self.note_held(context.now, by_path);
        context.timers.arm(Timer::Pace, at);
    }

    /// Has all members of a very large group confirm what was sent: by a census, and then by name. Begins when the
    /// window is half full, or `is_busy` is false for a while.
    fn confirm_all(&mut self, context: &mut Context, is_busy: bool, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.polls.is_very_large_group() {
            return None;
        }
        let (blocks, now) = (&self.blocks, context.now);
        let confirmed = |index: usize| blocks.window.acknowledged_below(index);
        if !self.polls.census.is_running() {
            let is_half_full = blocks.window.len() as u64 * 2 > blocks.kept;
            let end = blocks.closed_below();
            if end == blocks.window.start() || is_busy && !is_half_full {
                return None;
            }
            let settled = self.polls.mean_trip() * SETTLING_TRIPS;
            let at = match (is_half_full, blocks.window.is_closed()) {
                (true, _) => now,
                (false, true) => self.sent_at + settled,
                (false, false) => self.sent_at + settled.max(SWEEP_DELAY),
            };
            if at > now {
                context.timers.arm(Timer::Sweep, at);
                return None;
            }
            self.polls.begin_census(now, end, confirmed);
        }
        match self.polls.census_step(now)? {
            Step::Ask(span) => Some(self.polls.census.poll(context, blocks, span, buf)),
            Step::Wait(at) => {
                context.timers.arm(Timer::Sweep, at);
                None
            }
            Step::Name => {
                let members = self.polls.sweep(self.polls.census.end(), blocks.count(), confirmed);
                let asks = !members.is_empty();
                asks.then(|| self.polls.poll(context, &mut self.blocks, &members, Purpose::Repeat, buf))
            }
        }
    }

    /// Handles a sender without data to send: closes the open block once it is old enough, and polls the members that
    /// have not confirmed everything.
    fn idle(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let blocks = &mut self.blocks;
        let is_full = blocks.sent < blocks.window.end() || blocks.is_full();
        let may_close = if is_full { blocks.is_open_alone() } else { blocks.is_open() };
        // A message that comes alone does not wait for the block to fill. While more blocks are kept than one poll
        // lists, each block stays open twice as long as the one before, so that their number stops growing.
        // The cap keeps the shift within range.
        let doubled = (blocks.count().saturating_sub(MAX_LISTED_BLOCKS) / BLOCKS_PER_DOUBLING).min(20) as u32;
        let old = self.opened + (self.quiet * (1 << doubled)).min(self.block_time);
        let is_old = !is_full && old <= context.now;
        let is_quiet = self.is_quiet && doubled == 0;
        if may_close && (is_old || is_quiet || blocks.window.is_closed()) {
            blocks.close();
            if let Some(transmit) = self.ask_all(context, buf) {
                return Some(transmit);
            }
        }
        if !is_full && self.blocks.is_open() {
            context.timers.arm(Timer::Close, old);
        }
        let (blocks, sent) = (&self.blocks, self.blocks.sent);
        let confirmed = |index: usize| blocks.window.acknowledged_below(index);
        let is_very_large = self.polls.is_very_large_group();
        let is_swept = self.polls.is_large_group() && !is_very_large;
        // A large group need not confirm at once if more data follow. A very large one has a census.
        let sweeps_at = match blocks.window.is_closed() || blocks.window.len() as u64 * 2 > blocks.kept {
            true => context.now,
            false => self.sent_at + SWEEP_DELAY,
        };
        if is_swept && sweeps_at > context.now {
            context.timers.arm(Timer::Sweep, sweeps_at);
        } else if is_swept {
            let members = self.polls.sweep(blocks.closed_below(), blocks.count(), confirmed);
            if !members.is_empty() {
                return Some(self.polls.poll(context, &mut self.blocks, &members, Purpose::Repeat, buf));
            }
        }
        let pauses_until = if is_very_large { self.polls.pauses_until() } else { context.now };
        if self.is_quiet && pauses_until > context.now {
            self.is_quiet = false;
            context.timers.arm(Timer::Quiet, pauses_until);
        }
        if self.is_quiet && self.polls.may_begin_round() {
            self.is_quiet = false;
            self.polls.idle_polls += 1;
            let members = self.polls.unpolled(sent, sent < blocks.window.end(), confirmed);
            if !members.is_empty() {
                return Some(self.polls.poll(context, &mut self.blocks, &members, Purpose::Round, buf));
            }
        }
        if !self.is_quiet && context.timers.armed(Timer::Quiet).is_none() {
            context.timers.arm(Timer::Quiet, context.now + self.quiet);
        }
        None
    }
}

impl Part for CarillonSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::Status { status, lacking } => self.on_status(context, datagram.source, status, lacking),
            _ => context.events.dropped(DropReason::Foreign),
        }
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        for block in self.blocks.iter() {
            tell(ObservedState { of: STATES[0].of, about: block.first(), state: state(block), turn: 0 });
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        self.polls.allow_round();
        match timer {
            Timer::Answer(number) => self.on_no_answer(context, number),
            Timer::Close => self.blocks.close(),
            Timer::Repeat => self.is_repeat_due = true,
            Timer::Quiet => self.is_quiet = true,
            Timer::Pace | Timer::Sweep => {}
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.blocks.window.is_empty() {
            return None;
        }
        self.take_withheld(context);
        // The order of the steps below decides what leaves first: unanswered polls, a new round, repeated polls, path
        // polls within a burst, repairs, and new messages last.
        self.on_round(context);
        let again = self.polls.to_repeat();
        if !again.is_empty() {
            return Some(self.polls.poll(context, &mut self.blocks, &again, Purpose::Repeat, buf));
        }
        if self.polls.may_begin_round()
            && self.blocks.wants_round()
            && let Some(transmit) = self.ask_all(context, buf)
        {
            return Some(transmit);
        }
        // Data to send come before repeated polls in a large group, where each poll causes many answers.
        let has_new = self.has_new();
        // While the sender measures the rate of the fastest member, repairs wait: they are for the others.
        let has_repairs = self.blocks.has_repairs() && !(has_new && self.polls.members.follows_fastest());
        let (is_large_group, is_busy) = (self.polls.is_large_group(), has_new || has_repairs);
        if let Some(transmit) = self.confirm_all(context, is_busy, buf) {
            return Some(transmit);
        }
        if !(is_large_group && is_busy) && std::mem::take(&mut self.is_repeat_due) {
            let members = self.polls.repeat(context, is_busy);
            if !members.is_empty() {
                return Some(self.polls.poll(context, &mut self.blocks, &members, Purpose::Repeat, buf));
            }
        }
        if !is_busy {
            let window = &self.blocks.window;
            let has_more = self.blocks.sent < window.end() || window.is_full() && !window.is_closed();
            self.note_held(context.now, has_more);
            self.polls.members.hold(context.now, None);
            self.polls.members.control().on_idle(context.now);
            return self.idle(context, buf);
        }
        let was_unheard = self.polls.members.is_unheard();
        if self.polls.is_full(context.now, self.blocks.serial) {
            return self.poll_when_full(context, is_large_group, buf);
        }
        if !was_unheard && self.polls.members.is_unheard() {
            self.update_rate(context.now);
        }
        // Token bucket: the packet waits until the bucket holds enough for it.
        if let Some(at) = self.pace.ready_at(context.now) {
            self.await_pace(context, at);
            return None;
        }
        // Paths are measured by polls between data packets, so that answers return evenly.
        if let Some(due) = self.polls.polls_due(self.blocks.kept) {
            let (members, purpose) = self.polls.for_path(due);
            if !members.is_empty() {
                return Some(self.polls.poll(context, &mut self.blocks, &members, purpose, buf));
            }
        }
        self.pace.spend(context.now, NOMINAL_PACKET_BYTES);
        self.polls.count_packet(context.now);
        self.polls.allow_round();
        self.sent_at = context.now;
        context.timers.cancel(Timer::Quiet);
        self.is_quiet = false;
        if has_repairs && let Some(transmit) = self.blocks.next_repair(context, is_large_group, buf) {
            return Some(transmit);
        }
        if !has_new {
            return None;
        }
        self.note_held(context.now, false);
        let (transmit, begins) = self.blocks.next_message(context, self.group_estimate(), buf);
        self.on_next(context, begins);
        Some(transmit)
    }

    fn window(&self) -> Option<&AckWindow> {
        Some(&self.blocks.window)
    }

    fn window_mut(&mut self) -> Option<&mut AckWindow> {
        Some(&mut self.blocks.window)
    }

    fn withhold(&mut self, context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        let message = self.offer(context, payload)?;
        self.blocks.withhold(message.0);
        Ok(message)
    }

    fn advance(&mut self, context: &mut Context) {
        self.blocks.advance(context);
        if self.blocks.window.is_empty() {
            self.polls.clear(context);
        }
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        if let Some(index) = self.blocks.window.expel_node(member) {
            self.polls.remove(context, index);
            self.advance(context);
            self.on_round(context);
        }
    }

    fn awaits(&self, _context: &Context, member: NodeId) -> bool {
        let (sent, window) = (self.blocks.sent, &self.blocks.window);
        let has_no_room = |index| self.polls.members.member(index).limit <= sent;
        window.awaits(member) || sent < window.end() && window.index_of(member).is_some_and(has_no_room)
    }

    fn acknowledged(&self, _context: &Context, member: NodeId) -> Option<u64> {
        let index = self.blocks.window.index_of(member)?;
        Some(self.blocks.window.acknowledged_below(index))
    }

    fn measured(&self, _context: &Context, member: NodeId) -> Option<PathMeasure> {
        let index = self.blocks.window.index_of(member)?;
        self.polls.members.measured(index, self.blocks.sent)
    }

    fn held_up(&self, _context: &Context, now: Time) -> Option<Duration> {
        let (since, before) = self.held;
        let is_known = self.polls.members.has_own_windows();
        is_known.then(|| before + since.map_or(Duration::ZERO, |since| now.since(since)))
    }

    fn follow_fastest(&mut self, context: &mut Context, on: bool) {
        self.polls.members.follow_fastest(on);
        self.update_rate(context.now);
    }

    fn unanswered(&self, _context: &Context, member: NodeId) -> u32 {
        self.blocks.window.index_of(member).map_or(0, |index| self.polls.members.member(index).unanswered)
    }
}

/// Name of the state of a block, for state diagrams and traces.
pub(super) fn state(block: &RepairBlock) -> &'static str {
    match () {
        _ if !block.is_closed() => "Filling",
        _ if block.due() > 0 => "Repairing",
        _ if block.is_news() => "News",
        _ => "Asked",
    }
}

/// Burst that the pacer permits. It lets one system call carry many packets and makes up for late timers.
pub(super) const PACING_BURST: Duration = Duration::from_millis(4);
/// Round-trip time from which extra repairs are cheaper than another round. Coding takes some milliseconds too.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(8);
/// Time without a message after which the members of a large group are asked to confirm everything.
const SWEEP_DELAY: Duration = Duration::from_millis(500);
/// Round trips until the last request for a repair arrives: one of the poll, and six of `after` and `span`.
const SETTLING_TRIPS: u32 = 7;
/// Number of blocks beyond one poll's list after which the open block stays open for twice as long, up to
/// `block_time`.
const BLOCKS_PER_DOUBLING: usize = 16;
/// Number of messages that a receiver is assumed to have room for before it has said so.
const INITIAL_ROOM: u64 = 256;
