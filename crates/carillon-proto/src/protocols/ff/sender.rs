//! The sending side: sends to all, again and again, until all have acknowledged.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BitRate, BuildContext, Config, DropReason, Event, MessageId, NodeId, ObservedState, OfferError, Outcome,
    Received, Role, Time, TokenBucket, Transmit, expand,
};
use carillon_wire::ff::Packet;

use super::receiver::MODULUS;
use crate::blocks::{MemberSet, Members, Numbered, Part, PastLimit, Player, RoundTrip};
use crate::protocols::pf::config::MIN_TIMEOUT;

type Context = crate::blocks::MachineContext<Timer>;

/// Sends each message to all; what is not acknowledged in time by all goes to all again.
#[derive(Debug)]
pub struct FfSender {
    members: Members,
    messages: Numbered<Message>,
    /// One past the highest message sent.
    sent: u64,
    finished: bool,
    /// Messages that are to be sent again.
    again: BTreeSet<u64>,
    round_trips: Vec<RoundTrip>,
    /// Receivers that nobody waits for.
    gone: MemberSet,
    window: u64,
    limit: u32,
    past_limit: PastLimit,
    /// The estimate of a round trip to begin with, the longest, and the least timeout.
    spans: (Duration, Duration, Duration),
    /// How often the timeout of a message may double.
    doublings: u32,
    pace: TokenBucket,
    /// Bytes of a packet at the rate of the pace.
    packet: u64,
}

#[derive(Debug)]
struct Message {
    payload: Bytes,
    acknowledged: MemberSet,
    first_sent: Option<(Time, u32)>,
    repeats: u32,
    failed: bool,
}

/// The sender's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Somebody should have acknowledged this message and has not.
    Message(u64),
    /// The next packet may leave.
    Pace,
}

impl FfSender {
    /// A sender to the members of the context.
    pub fn new(build: &BuildContext, settings: &Config) -> Player<Self> {
        let span = |name: &str| settings.span(name).at(build.bit_rate);
        let gap = span("ipg");
        let members = Members::new(build.members.clone());
        FfSender {
            messages: Numbered::default(),
            sent: 0,
            finished: false,
            again: BTreeSet::new(),
            round_trips: vec![RoundTrip::default(); members.len()],
            gone: MemberSet::empty(members.len()),
            window: settings.count("window"),
            limit: settings.count("retransmission_limit") as u32,
            past_limit: match settings.choice("past_limit") {
                "expel" => PastLimit::Expel,
                "wait" => PastLimit::Wait,
                _ => PastLimit::Skip,
            },
            spans: (span("rtt"), span("rtt_max"), span("rto_min").max(MIN_TIMEOUT)),
            doublings: if settings.switch("backoff") { MAX_TIMEOUT_DOUBLINGS } else { 0 },
            // At a bit each nanosecond a gap is an eighth as many bytes.
            pace: TokenBucket::new((!gap.is_zero()).then_some(BitRate::mbps(1000)), span("burst")),
            packet: (gap.as_nanos() / 8) as u64,
            members,
        }
        .play(build)
    }

    /// Twice the greatest round trip among those who have not acknowledged a message.
    fn timeout(&self, number: u64) -> Duration {
        let (unknown, most, least) = self.spans;
        let lacks = |index: &usize| {
            self.messages.get(number).is_some_and(|message| !message.acknowledged.contains(*index))
        };
        let trips = (0..self.members.len()).filter(lacks);
        let trips = trips.map(|index| self.round_trips[index].mean().unwrap_or(unknown));
        let repeats = self.messages.get(number).map_or(0, |message| message.repeats);
        (trips.max().unwrap_or(unknown).min(most) * 2).max(least) * 2_u32.pow(repeats.min(self.doublings))
    }

    fn on_ack(&mut self, context: &mut Context, source: NodeId, seq: u32, time: u64) {
        let Some(index) = self.members.index_of(source).filter(|&index| !self.gone.contains(index)) else {
            return context.events.dropped(DropReason::NotAMember);
        };
        let number = expand(seq.into(), MODULUS, self.messages.start());
        let at = Time::from_nanos(time);
        if number >= self.sent || at > context.now {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        context.received("ack", number);
        if let Some(message) = self.messages.get_mut(number) {
            // Of what is over no answer is awaited, and no round trip taken.
            if message.first_sent.is_some_and(|(first, _)| first <= at) {
                self.round_trips[index].on_sample(context.now.since(at).min(self.spans.1));
            }
            message.acknowledged.insert(index);
            if message.acknowledged.len() == self.members.len() {
                self.again.remove(&number);
                context.timers.cancel(Timer::Message(number));
            }
        }
        self.advance(context);
    }

    fn on_timeout(&mut self, context: &mut Context, number: u64) {
        let Some(message) = self.messages.get_mut(number) else { return };
        if message.acknowledged.len() == self.members.len() {
            return;
        }
        context.events.push(Event::TimerFired { timer: "retransmission" });
        let missing: Vec<usize> =
            (0..self.members.len()).filter(|&index| !message.acknowledged.contains(index)).collect();
        match self.past_limit {
            PastLimit::Expel if message.repeats >= self.limit => {
                for index in missing {
                    self.remove(index);
                    context.events.member_lost(self.members.node(index));
                }
            }
            PastLimit::Skip if message.repeats >= self.limit => {
                message.failed = true;
                for index in missing {
                    message.acknowledged.insert(index);
                }
            }
            _ => {
                self.again.insert(number);
                for index in missing {
                    context.events.repair_needed(self.members.node(index), 1);
                }
            }
        }
        self.advance(context);
    }

    fn remove(&mut self, index: usize) {
        self.gone.insert(index);
        for message in self.messages.iter_mut() {
            message.acknowledged.insert(index);
        }
    }
}

impl Message {
    fn state(&self) -> &'static str {
        match (self.first_sent, self.repeats) {
            (None, _) => "Waiting",
            (_, 0) => "Sent",
            _ => "Repeated",
        }
    }
}

impl Part for FfSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.messages.len() as u64)
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        match context.of_session(Packet::parse(datagram.bytes)) {
            None => {}
            Some(Packet::Ack { seq, time }) => self.on_ack(context, datagram.source, seq, time),
            Some(Packet::Data { .. }) => context.events.dropped(DropReason::Foreign),
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Message(number) => self.on_timeout(context, number),
            Timer::Pace => {}
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        // Those that were missing may be gone, or told of it meanwhile.
        while let Some(&number) = self.again.first()
            && self.messages.get(number).is_some_and(|m| m.acknowledged.len() == self.members.len())
        {
            self.again.remove(&number);
        }
        let again = self.again.first().copied();
        let number = again.or((self.sent < self.messages.end()).then_some(self.sent))?;
        if let Some(at) = self.pace.ready_at(context.now) {
            context.timers.arm(Timer::Pace, at);
            return None;
        }
        self.again.remove(&number);
        self.sent = self.sent.max(number + 1);
        let (first, window) = ((self.messages.start() % MODULUS) as u32, self.messages.len() as u32);
        let message = self.messages.get_mut(number)?;
        match message.first_sent {
            None => message.first_sent = Some((context.now, window)),
            Some(_) => message.repeats += 1,
        }
        let (seq, time) = ((number % MODULUS) as u32, context.now.as_nanos());
        Packet::Data { seq, first, time, payload: &message.payload }.emit(context.association, buf);
        self.pace.spend(context.now, self.packet);
        let deadline = context.now + self.timeout(number);
        context.timers.arm(Timer::Message(number), deadline);
        let to_group = context.to_group();
        Some(context.events.data_sent(to_group, MessageId(number), buf.len(), again.is_some()))
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        for (number, message) in (self.messages.start()..).zip(self.messages.iter()) {
            let turn = message.repeats.into();
            tell(ObservedState {
                of: super::ENTRY.states[0].of,
                about: number,
                state: message.state(),
                turn,
            });
        }
    }

    fn offer(&mut self, context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.messages.len() as u64 >= self.window {
            return Err(OfferError::Full);
        }
        let acknowledged = self.gone.clone();
        let number = self.messages.push(Message {
            payload,
            acknowledged,
            first_sent: None,
            repeats: 0,
            failed: false,
        });
        // With nobody left to acknowledge, the message is with all receivers at once.
        self.advance(context);
        Ok(MessageId(number))
    }

    fn finish(&mut self, _context: &mut Context) {
        self.finished = true;
    }

    fn advance(&mut self, context: &mut Context) {
        let is_over = |message: &Message| message.acknowledged.len() == self.members.len();
        while self.messages.first().is_some_and(is_over) {
            let Some((number, message)) = self.messages.pop() else { break };
            self.sent = self.sent.max(number + 1);
            self.again.remove(&number);
            context.timers.cancel(Timer::Message(number));
            let outcome = if message.failed { Outcome::Failed } else { Outcome::Acknowledged };
            let window = message.first_sent.map_or(0, |(_, window)| window);
            context.events.completed(MessageId(number), outcome, window);
        }
        if self.messages.is_empty() {
            context.timers.clear();
        }
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        if let Some(index) = self.members.index_of(member) {
            self.remove(index);
            self.advance(context);
        }
    }

    fn awaits(&self, _context: &Context, member: NodeId) -> bool {
        let first = self.messages.first().filter(|message| message.first_sent.is_some());
        let index = self.members.index_of(member);
        first.zip(index).is_some_and(|(message, index)| !message.acknowledged.contains(index))
    }

    fn is_finished(&self) -> bool {
        self.finished && self.messages.is_empty()
    }
}

/// A message that one receiver never acknowledges goes to all again and again: less and less often.
const MAX_TIMEOUT_DOUBLINGS: u32 = 2;
