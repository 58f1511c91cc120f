//! The sending side.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, Event, MessageId, NodeId, ObservedState, OfferError,
    PathMeasure, Received, Role, Time, TokenBucket, Transmit, expand,
};
use carillon_wire::carillon::{IncompleteBlocks, MAX_LISTED_BLOCKS, Packet, Status};

use super::MODULUS;
use super::asking::{Asking, Purpose};
use super::blocks::{Audience, Blocks};
use super::context::{Context, LEAST_QUIET, Timer};
use super::describe::DESCRIBED;
use crate::blocks::{
    AckWindow, Answer, EquationRate, FixedWindow, Heard, Members, PACKET, Part, PastLimit, Player,
    RateControl, RepairBlock, Request,
};

/// Sends messages as they come, asks when a block is closed what is lacking, and sends as much of it as is.
#[derive(Debug)]
pub struct CarillonSender {
    blocks: Blocks,
    asking: Asking,
    pace: TokenBucket,
    /// A rate that it keeps below whatever the paths carry.
    rate: Option<carillon_core::BitRate>,
    /// What finds the rate, if that is not the list of those who are asked.
    equation: Option<EquationRate>,
    past_limit: PastLimit,
    block_time: Duration,
    /// When the open block was opened.
    opened: Time,
    /// When the last message or repair went out.
    sent_at: Time,
    quiet: Duration,
    /// Nothing has gone out for so long that those are asked who have not confirmed everything.
    is_quiet: bool,
    /// Those who are awaited may be asked once more, if there is nothing else to send.
    is_echo_due: bool,
    /// The places of missing messages, kept for their room.
    missing: Vec<u16>,
}

impl CarillonSender {
    /// A sender to the members of the context.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let window = FixedWindow(settings.count("window"));
        let span = |name| settings.span(name).at(build.bit_rate);
        let quiet = span("quiet").max(LEAST_QUIET);
        Ok(CarillonSender {
            blocks: Blocks::new(AckWindow::new(Members::new(build.members.clone()), window), settings),
            asking: Asking::new(build, settings)?,
            pace: TokenBucket::new(settings.rate("rate"), PACE_DEPTH),
            rate: settings.rate("rate"),
            equation: (settings.choice("control") == "equation")
                .then(|| EquationRate::new(build.members.len(), PACKET as usize)),
            past_limit: PastLimit::of(settings),
            block_time: span("block_time").max(LEAST_QUIET),
            opened: Time::ZERO,
            sent_at: Time::ZERO,
            quiet,
            is_quiet: false,
            is_echo_due: false,
            missing: Vec::new(),
        }
        .play(build))
    }

    fn on_status(
        &mut self,
        context: &mut Context,
        source: NodeId,
        status: Status,
        lacking: IncompleteBlocks<'_>,
    ) {
        let CarillonSender { blocks, asking, pace, .. } = self;
        let Some(index) = blocks.window.index_of(source) else {
            return context.events.dropped(DropReason::NotAMember);
        };
        let expected = if status.question == 0 {
            expand(status.expected.into(), MODULUS, blocks.window.start()).min(blocks.sent)
        } else {
            let Some((question, open, withdrawn)) = asking.on_answer(context, index, status.question) else {
                return context.events.dropped(DropReason::OutOfWindow);
            };
            // It may have heard more since it was asked; not more than there is.
            let expected = expand(status.expected.into(), MODULUS, question.end).min(blocks.sent);
            let answer = Answer {
                asked: question.at,
                then: question.mark,
                serial: question.serial,
                since: blocks.serial - question.serial,
                arrived: status.arrived,
            };
            let closed = withdrawn as u32 + u32::from(open);
            let limit = expected.saturating_add(status.room.into());
            asking.audience.on_answer(context.now, index, closed, answer, limit);
            let rate = match &mut self.equation {
                Some(equation) => {
                    let (sent, arrived) = (question.serial, status.arrived);
                    let trip = context.now.since(question.at);
                    equation.on_answer(context.now, index, Heard { sent, arrived, trip });
                    equation.rate()
                }
                None => asking.audience.rate(),
            };
            pace.set_rate(context.now, rate.into_iter().chain(self.rate).min());
            expected
        };
        context.events.received("status", expected.saturating_sub(1));
        asking.on_news();
        if expected > blocks.window.start() {
            blocks.window.acknowledge(index, expected - 1);
        }
        asking.on_confirmed(index, expected);
        let mut budget = asking.audience.budget.left(index, blocks.sent);
        for lacks in lacking.iter() {
            let first = expand(lacks.first.into(), MODULUS, expected);
            let Some(block) = blocks.find(first) else { continue };
            let missing = &mut self.missing;
            missing.clear();
            for (at, word) in lacks.missing.words().enumerate() {
                missing.extend((0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| (at * 64 + bit) as u16));
            }
            let most = budget.min(lacks.lacks.into());
            // Of a crowd only some are heard: what they lack does not say what the others do.
            let missing = (!missing.is_empty() && !asking.is_crowd()).then_some(&missing[..]);
            let (count, lacks, plain) = (lacks.count, lacks.lacks, lacks.plain);
            let added = block.on_request(Request { index, count, lacks, plain, missing, most });
            asking.audience.budget.spend(index, added);
            budget -= added.min(budget);
        }
        // Who is alone, or one of so many that it cannot be heard what others lack, is served at once.
        if asking.audience.live() == 1 || asking.is_crowd() {
            self.decide(context, true, true);
        }
        self.advance(context);
        self.on_round(context);
    }

    /// If all have answered that are awaited, it is decided what goes out.
    fn on_round(&mut self, context: &mut Context) {
        if self.asking.is_in_round && self.asking.is_round_over() {
            let is_complete = self.asking.end_round();
            self.decide(context, false, is_complete);
        }
    }

    /// Where nothing new can go out meanwhile, and round trips are long, some more is sent than is asked for: another round costs more than packets then.
    fn decide(&mut self, context: &mut Context, of_all: bool, is_complete: bool) {
        let spare = (self.is_far() && !self.has_new()).then(|| self.asking.audience.loss());
        self.blocks.decide(context, of_all, is_complete, spare);
    }

    fn is_far(&self) -> bool {
        self.asking.trip.mean().is_some_and(|trip| trip >= FAR)
    }

    fn on_no_answer(&mut self, context: &mut Context, number: u64) {
        // It costs little to wait for an answer: something else goes out meanwhile, or it does not take long.
        let can_wait = self.has_new() || !self.is_far();
        let Some((index, is_over)) = self.asking.on_no_answer(context.now, number, can_wait) else { return };
        context.events.push(Event::TimerFired { timer: "answer" });
        self.equation.iter_mut().for_each(|equation| equation.on_silence(index));
        match self.past_limit {
            _ if !is_over => {}
            PastLimit::Wait => {}
            PastLimit::Expel => {
                self.blocks.window.expel(index);
                self.asking.remove(context, index);
                context.events.member_lost(self.blocks.window.node(index));
            }
            PastLimit::Skip => {
                self.asking.skip(context, index);
                self.blocks.window.give_up(index, self.blocks.sent);
            }
        }
        self.asking.on_confirmed(index, self.blocks.window.acknowledged_below(index));
        self.advance(context);
        self.on_round(context);
    }

    /// Who is to have the next block.
    fn audience(&self) -> Audience {
        let audience = &self.asking.audience;
        let room = audience.room().saturating_sub(self.blocks.window.start());
        let room = if audience.room() == u64::MAX { FIRST_ROOM } else { room };
        Audience { receivers: audience.live(), room, loss: audience.loss(), window: audience.window() }
    }

    /// The next message is in the open block, which it may have begun.
    fn on_next(&mut self, context: &mut Context, begins: bool) {
        if begins {
            self.opened = context.now;
            context.timers.arm(Timer::Close, context.now + self.block_time);
        }
    }

    /// Whether there is a message that was not sent and all have room for, as far as they are asked in time.
    fn has_new(&self) -> bool {
        self.blocks.sent < self.blocks.window.end().min(self.asking.audience.room())
    }

    /// All who have not confirmed what was sent are asked, as many as one poll names.
    fn ask_all(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.asking.may_begin_round() {
            return None;
        }
        let (blocks, end) = (&self.blocks, self.blocks.closed_below());
        let members = self.asking.for_round(end, |index| blocks.window.acknowledged_below(index));
        if members.is_empty() {
            return None;
        }
        Some(self.asking.poll(context, &mut self.blocks, &members, Purpose::Round, buf))
    }

    /// Nothing to send: what is open is closed when it has been so for a while, and those are asked who have not confirmed everything.
    fn idle(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let blocks = &mut self.blocks;
        let is_full = blocks.sent < blocks.window.end() || blocks.is_full();
        let may_close = if is_full { blocks.is_open_alone() } else { blocks.is_open() };
        // Messages that come one by one do not wait for a block to be full. Where more blocks are kept than a poll lists each is longer than the one before.
        let doubled = (blocks.count().saturating_sub(MAX_LISTED_BLOCKS) / DOUBLED_AFTER).min(20) as u32;
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
        // A crowd need not confirm at once what others follow.
        let sweeps_at = match blocks.window.is_closed() || blocks.window.len() as u64 * 2 > blocks.kept {
            true => context.now,
            false => self.sent_at + SETTLED,
        };
        if sweeps_at <= context.now {
            let members = self.asking.sweep(blocks.closed_below(), blocks.count(), confirmed);
            if !members.is_empty() {
                return Some(self.asking.poll(context, &mut self.blocks, &members, Purpose::Again, buf));
            }
        } else if self.asking.is_crowd() {
            context.timers.arm(Timer::Sweep, sweeps_at);
        }
        if self.is_quiet && self.asking.may_begin_round() {
            self.is_quiet = false;
            let members = self.asking.unasked(sent, sent < blocks.window.end(), confirmed);
            if !members.is_empty() {
                return Some(self.asking.poll(context, &mut self.blocks, &members, Purpose::Round, buf));
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
            tell(ObservedState {
                of: DESCRIBED.states[0].of,
                about: block.first(),
                state: state(block),
                turn: 0,
            });
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        self.asking.on_news();
        match timer {
            Timer::Answer(number) => self.on_no_answer(context, number),
            Timer::Close => self.blocks.close(),
            Timer::Echo => self.is_echo_due = true,
            Timer::Quiet => self.is_quiet = true,
            Timer::Pace | Timer::Sweep => {}
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.blocks.window.is_empty() {
            return None;
        }
        // Before it is looked whether there is something to ask about.
        while self.has_new() && self.blocks.is_next_withheld() {
            let (_, begins) = self.blocks.take_next(context, self.audience());
            self.on_next(context, begins);
        }
        self.on_round(context);
        let again = self.asking.again();
        if !again.is_empty() {
            return Some(self.asking.poll(context, &mut self.blocks, &again, Purpose::Again, buf));
        }
        if self.asking.may_begin_round()
            && self.blocks.wants_round()
            && let Some(transmit) = self.ask_all(context, buf)
        {
            return Some(transmit);
        }
        let (has_new, has_repairs) = (self.has_new(), self.blocks.has_repairs());
        let (is_crowd, is_busy) = (self.asking.is_crowd(), has_new || has_repairs);
        if !(is_crowd && is_busy) && std::mem::take(&mut self.is_echo_due) {
            let members = self.asking.echo(context, is_busy);
            if !members.is_empty() {
                return Some(self.asking.poll(context, &mut self.blocks, &members, Purpose::Again, buf));
            }
        }
        if !is_busy {
            self.asking.audience.hold(context.now, None);
            return self.idle(context, buf);
        }
        if self.asking.is_full(context.now, self.blocks.serial) {
            // It may be full for lost answers alone: other questions tell.
            let may_ask = is_crowd && std::mem::take(&mut self.is_echo_due);
            let (members, purpose) =
                if may_ask { self.asking.for_path(MAX_LISTED_BLOCKS) } else { return None };
            let asks = !members.is_empty();
            return asks.then(|| self.asking.poll(context, &mut self.blocks, &members, purpose, buf));
        }
        if let Some(at) = self.pace.ready_at(context.now) {
            context.timers.arm(Timer::Pace, at);
            return None;
        }
        if let Some(due) = self.asking.due(self.blocks.kept) {
            let (members, purpose) = self.asking.for_path(due);
            if !members.is_empty() {
                return Some(self.asking.poll(context, &mut self.blocks, &members, purpose, buf));
            }
        }
        self.pace.spend(context.now, PACKET);
        self.asking.count();
        self.asking.on_news();
        self.sent_at = context.now;
        context.timers.cancel(Timer::Quiet);
        self.is_quiet = false;
        if has_repairs && let Some(transmit) = self.blocks.next_repair(context, is_crowd, buf) {
            return Some(transmit);
        }
        if !has_new {
            return None;
        }
        let (transmit, begins) = self.blocks.next_message(context, self.audience(), buf);
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
            self.asking.clear(context);
        }
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        if let Some(index) = self.blocks.window.expel_node(member) {
            self.asking.remove(context, index);
            self.equation.iter_mut().for_each(|equation| equation.remove(index));
            self.advance(context);
            self.on_round(context);
        }
    }

    fn awaits(&self, _context: &Context, member: NodeId) -> bool {
        let (sent, window) = (self.blocks.sent, &self.blocks.window);
        let has_no_room = |index| self.asking.audience.member(index).limit <= sent;
        window.awaits(member) || sent < window.end() && window.index_of(member).is_some_and(has_no_room)
    }

    fn acknowledged(&self, _context: &Context, member: NodeId) -> Option<u64> {
        let index = self.blocks.window.index_of(member)?;
        Some(self.blocks.window.acknowledged_below(index))
    }

    fn measured(&self, _context: &Context, member: NodeId) -> Option<PathMeasure> {
        let index = self.blocks.window.index_of(member)?;
        self.asking.audience.member(index).measured(self.blocks.sent)
    }

    fn unanswered(&self, _context: &Context, member: NodeId) -> u32 {
        self.blocks.window.index_of(member).map_or(0, |index| self.asking.audience.member(index).unanswered)
    }
}

/// Where a block stands.
pub(super) fn state(block: &RepairBlock) -> &'static str {
    match () {
        _ if !block.is_closed() => "Filling",
        _ if block.due() > 0 => "Repairing",
        _ if block.is_news() => "News",
        _ => "Asked",
    }
}

/// What may leave at once: enough for one system call to carry much, and for timers that are late.
pub(super) const PACE_DEPTH: Duration = Duration::from_millis(4);
/// Round trips as long as this are worth more packets where nothing else is to go out: coding takes a processor some milliseconds too.
const FAR: Duration = Duration::from_millis(8);
/// After so long without a message those of a crowd are asked who have not confirmed everything.
const SETTLED: Duration = Duration::from_millis(500);
/// With each further so many blocks beyond those that a poll lists the open one stays open for twice as long, up to `block_time`.
const DOUBLED_AFTER: usize = 16;
/// Messages that a receiver is taken to have room for before it has said so.
const FIRST_ROOM: u64 = 256;
