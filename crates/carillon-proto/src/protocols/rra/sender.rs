//! Sender of RRA: polls receivers in turn, and acts on their answers.

use carillon_core::{
    BitRate, BuildContext, Config, ConfigError, Dest, DropReason, Duration, Event, NodeId, ObservedState,
    PathMeasure, Received, Role, Time, TokenBucket, Transmit, expand,
};
use carillon_wire::rra::Packet;

use super::context::{Context, Timer};
use super::messages::Messages;
use super::polling::PollScheduler;
use super::receiver::MODULUS;
use super::states::STATES;
use crate::blocks::congestion::Answer;
use crate::blocks::{
    AckWindow, FixedWindow, Members, NOMINAL_PACKET_BYTES, Part, PastLimit, Player, RateControl,
};

/// Sends bursts of messages, each of which polls the next receiver in turn.
///
/// With one poll at a time, as in the thesis, the sender waits for the answer before it sends anything else. With
/// several, each poll records the serial number of the last packet before it, and its answer covers packets up to
/// there, so that a repair sent since is not sent twice.
#[derive(Debug)]
pub struct RraSender {
    messages: Messages,
    polling: PollScheduler,
    /// Pacer of data packets with path flow control.
    pace: TokenBucket,
    /// Configured upper bound of the rate with path flow control; none if only the controller limits it.
    rate: Option<BitRate>,
    /// Delay before a receiver without room is polled again; doubles up to `MAX_BLOCKED_POLL_DELAY`.
    blocked_poll_delay: Duration,
}

impl RraSender {
    /// Creates a sender to the members of the context.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let window = FixedWindow(settings.count("window"));
        let rate = settings.rate("rate");
        Ok(RraSender {
            messages: Messages::new(AckWindow::new(Members::new(build.members.clone()), window)),
            polling: PollScheduler::new(build, settings)?,
            pace: TokenBucket::new(rate, PACE_BURST),
            rate,
            blocked_poll_delay: MIN_BLOCKED_POLL_DELAY,
        }
        .play(build))
    }

    fn on_poll_timeout(&mut self, context: &mut Context, number: u64) {
        let RraSender { messages, polling, .. } = self;
        let Some(question) = polling.outstanding.expire(number) else { return };
        context.events.push(Event::TimerFired { timer: "answer" });
        let index = question.index;
        // A later poll to this receiver may still be answered.
        if !polling.members.on_no_answer(context.now, &question)
            || !polling.retransmission.is_exceeded(polling.members.member(index).repeats - 1)
        {
            return;
        }
        match polling.retransmission.past_limit {
            PastLimit::Wait => {}
            PastLimit::Expel => {
                messages.window.expel(index);
                polling.remove(context, index);
                context.events.member_lost(messages.window.node(index));
            }
            PastLimit::Skip => {
                polling.members.skip(index);
                messages.window.skip(index, messages.sent);
            }
        }
        self.advance(context);
    }

    /// Emits message `number`, with a poll of receiver `asks` if given.
    fn send(
        &mut self,
        context: &mut Context,
        number: u64,
        asks: Option<usize>,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        self.messages.on_send(number);
        let asks = asks.map(|index| self.polling.start_poll(context, &self.messages, index, number));
        self.messages.emit(context, number, asks, buf)
    }

    fn poll(&mut self, context: &mut Context, index: usize, buf: &mut Vec<u8>) -> Transmit {
        let last = self.messages.sent.saturating_sub(1);
        let asks = self.polling.start_poll(context, &self.messages, index, last);
        let first = (self.messages.window.start().min(last) % MODULUS) as u32;
        Packet::Poll { sequence: (last % MODULUS) as u32, first, asks }.emit(context.association, buf);
        context.events.control("poll", last);
        // The thesis uses multicast only; otherwise a poll concerns its receiver alone.
        Transmit::now(match self.polling.polls_one_at_a_time() {
            true => Dest::group(context.group),
            false => Dest::Node(self.messages.window.node(index)),
        })
    }

    /// Repeats an unanswered poll: with its message if polls go one at a time and it is still unacknowledged, or else
    /// as a POLL packet.
    fn repeat_poll(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (index, message) = self.polling.members.next_repeated()?;
        let is_outstanding = self.messages.window.get_mut(message).is_some();
        Some(match is_outstanding && self.polling.polls_one_at_a_time() {
            true => self.send(context, message, Some(index), buf),
            false => self.poll(context, index, buf),
        })
    }

    /// Next repair or new message, and the receiver that it polls.
    fn next_message(&mut self) -> Option<(u64, Option<usize>)> {
        if let Some(number) = self.messages.repairs.pop_first() {
            // With path flow control new messages follow at once, so the burst of repairs does not end here.
            let more = !self.messages.repairs.is_empty() || (self.polling.by_path && self.has_new());
            // The end of a burst of repairs polls the receiver that reported the losses.
            let asks = self.polling.ends_burst(!more).then(|| {
                let reporter =
                    self.polling.reporter.filter(|&index| !self.messages.window.is_expelled(index));
                reporter.or_else(|| self.polling.members.next_turn(|_, _| true))
            });
            return Some((number, asks.flatten()));
        }
        if !self.has_new() {
            return None;
        }
        self.blocked_poll_delay = MIN_BLOCKED_POLL_DELAY;
        let number = self.messages.sent.max(self.messages.window.start());
        // With concurrent polls the host may offer more at once: the idle timer polls instead.
        let last = self.polling.polls_one_at_a_time() && number + 1 == self.messages.window.end();
        let asks = self.polling.ends_burst(last).then(|| self.polling.members.next_turn(|_, _| true));
        Some((number, asks.flatten()))
    }

    /// Returns true if an unsent message fits the room that the receivers reported.
    fn has_new(&self) -> bool {
        let limit = if self.polling.polls_one_at_a_time() { u64::MAX } else { self.polling.members.room() };
        self.messages.sent < self.messages.window.end().min(limit)
    }

    /// Paces at the rate that the paths carry, of which the configured rate is an upper bound.
    fn update_rate(&mut self, now: Time) {
        if self.polling.by_path {
            self.pace.set_rate(now, self.polling.members.rate().into_iter().chain(self.rate).min());
        }
    }

    /// Polls receivers that miss acknowledgments, when there is no data to send.
    fn next_poll(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (sent, window) = (self.messages.sent, &self.messages.window);
        let is_missing = |index: usize| window.acknowledged_below(index) < sent;
        if self.polling.polls_one_at_a_time() {
            let index = self.polling.members.next_turn(|index, _| is_missing(index))?;
            return Some(self.poll(context, index, buf));
        }
        // A receiver without room reports new room only when it is polled.
        let blocked = sent < window.end();
        let members = &mut self.polling.members;
        let next =
            members.next_unpolled(|index, member| is_missing(index) || (blocked && member.limit <= sent));
        // No receiver is left to poll in this round.
        let Some(index) = next else {
            self.polling.poll_all = false;
            return None;
        };
        if self.polling.poll_all {
            return Some(self.poll(context, index, buf));
        }
        // Wait before polling: data that is offered meanwhile carries the poll for free.
        if context.timers.armed(Timer::Quiet).is_none() {
            let patience = if blocked { self.blocked_poll_delay } else { IDLE_POLL_DELAY };
            context.timers.arm(Timer::Quiet, context.now + patience);
            if blocked {
                self.blocked_poll_delay = (patience * 2).min(MAX_BLOCKED_POLL_DELAY);
            }
        }
        None
    }
}

impl Part for RraSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        let Packet::Ack { expected, question, arrived, room, received } = packet else {
            return context.events.dropped(DropReason::Foreign);
        };
        let RraSender { messages, polling, pace, rate, .. } = self;
        let Some(index) = messages.window.index_of(datagram.source) else {
            return context.events.dropped(DropReason::NotAMember);
        };
        let Some((question, closed)) = polling.on_answer(context, index, question) else {
            return context.events.dropped(DropReason::OutOfWindow);
        };
        // An answer may acknowledge messages sent after the poll, but none that were never sent.
        let expected = expand(expected.into(), MODULUS, question.end).min(messages.sent);
        context.events.received("ack", expected.saturating_sub(1));
        let limit = expected.saturating_add(room.into());
        let answer = Answer {
            asked: question.at,
            then: question.mark,
            serial: question.serial,
            since: messages.serial - question.serial,
            arrived,
        };
        // The answer updates the path model: RTT, loss, and room.
        polling.members.on_answer(context.now, index, closed, answer, limit);
        if polling.by_path {
            pace.set_rate(context.now, polling.members.rate().into_iter().chain(*rate).min());
        }
        if expected > messages.window.start() {
            messages.window.acknowledge(index, expected - 1);
        }
        // A complete bitmap covers everything up to the poll; a truncated one covers its own span only.
        let whole = received.span() < MAX_MAP_SPAN && !polling.polls_one_at_a_time();
        let end = if whole { question.end } else { question.end.min(expected + 1 + received.span()) };
        let budget = polling.members.budget.left(index, messages.sent);
        let (new_requests, missing) = messages.mark_missing(&question, (expected, end), received, budget);
        if new_requests > 0 {
            polling.members.budget.spend(index, new_requests);
            polling.reporter = Some(index);
        }
        if missing > 0 {
            context.events.repair_needed(datagram.source, missing);
        }
        self.advance(context);
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        for (index, member) in self.polling.members.members() {
            let state = if member.is_polled() { "Asking" } else { "Idle" };
            tell(ObservedState { of: STATES[0].of, about: index as u64, state, turn: member.repeats.into() });
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Answer(number) => self.on_poll_timeout(context, number),
            Timer::Quiet => self.polling.poll_all = true,
            Timer::Pace => {}
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(transmit) = self.repeat_poll(context, buf) {
            return Some(transmit);
        }
        let was_unheard = self.polling.members.is_unheard();
        if self.messages.window.is_empty() || self.polling.is_full(context, self.messages.serial) {
            return None;
        }
        if !was_unheard && self.polling.members.is_unheard() {
            self.update_rate(context.now);
        }
        if self.polling.by_path
            && (self.has_new() || !self.messages.repairs.is_empty())
            && let Some(at) = self.pace.ready_at(context.now)
        {
            context.timers.arm(Timer::Pace, at);
            return None;
        }
        if let Some((number, asks)) = self.next_message() {
            self.pace.spend(context.now, NOMINAL_PACKET_BYTES);
            self.polling.members.control().on_sent(context.now);
            return Some(self.send(context, number, asks, buf));
        }
        self.next_poll(context, buf)
    }

    fn window(&self) -> Option<&AckWindow> {
        Some(&self.messages.window)
    }

    fn window_mut(&mut self) -> Option<&mut AckWindow> {
        Some(&mut self.messages.window)
    }

    fn advance(&mut self, context: &mut Context) {
        self.messages.advance(context);
        if self.messages.window.is_empty() {
            self.polling.clear(context);
        }
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        if let Some(index) = self.messages.window.expel_node(member) {
            self.polling.remove(context, index);
            self.advance(context);
        }
    }

    fn awaits(&self, _context: &Context, member: NodeId) -> bool {
        let (sent, window) = (self.messages.sent, &self.messages.window);
        let has_no_room = |index| self.polling.members.member(index).limit <= sent;
        let blocked = sent < window.end() && !self.polling.polls_one_at_a_time();
        window.awaits(member) || (blocked && window.index_of(member).is_some_and(has_no_room))
    }

    fn acknowledged(&self, _context: &Context, member: NodeId) -> Option<u64> {
        let index = self.messages.window.index_of(member)?;
        Some(self.messages.window.acknowledged_below(index))
    }

    fn measured(&self, _context: &Context, member: NodeId) -> Option<PathMeasure> {
        let index = self.messages.window.index_of(member)?;
        self.polling.members.measured(index, self.messages.sent)
    }

    fn unanswered(&self, _context: &Context, member: NodeId) -> u32 {
        self.messages.window.index_of(member).map_or(0, |index| self.polling.members.member(index).unanswered)
    }
}

/// Burst of the pacer, long enough to fill one system call and to absorb late timers.
const PACE_BURST: Duration = Duration::from_millis(4);
/// Number of messages that the bitmap of an acknowledgment covers after the first missing one.
const MAX_MAP_SPAN: u64 = carillon_wire::map::MAX_WORDS as u64 * 64;
/// Idle time after the last packet before unpolled receivers are polled.
const IDLE_POLL_DELAY: Duration = Duration::from_millis(1);
/// Initial delay before a receiver without room is polled again: a short stall of its disk ends soon.
const MIN_BLOCKED_POLL_DELAY: Duration = Duration::from_micros(500);
/// Maximum delay before a receiver without room is polled again: one that has stopped must not be polled all the
/// time.
const MAX_BLOCKED_POLL_DELAY: Duration = Duration::from_millis(10);
