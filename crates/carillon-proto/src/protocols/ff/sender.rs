//! Sending side: multicasts each message until all receivers have acknowledged it.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BitRate, BuildContext, Config, DropReason, Event, MessageId, NodeId, ObservedState, OfferError, Outcome,
    Received, Role, Time, TokenBucket, Transmit, expand,
};
use carillon_wire::ff::Packet;

use super::receiver::MODULUS;
use super::states::STATES;
use crate::blocks::{MemberSet, Members, Numbered, Part, PastLimit, Player, RoundTrip};
use crate::protocols::pf::config::MIN_TIMEOUT;

type Context = crate::blocks::MachineContext<Timer>;

/// Sender that multicasts each message, and multicasts it again after a timeout without all acknowledgments.
#[derive(Debug)]
pub struct FfSender {
    members: Members,
    messages: Numbered<Message>,
    /// First message not sent yet.
    sent: u64,
    finished: bool,
    /// Messages that are due for retransmission.
    again: BTreeSet<u64>,
    /// Round-trip estimate of each receiver.
    round_trips: Vec<RoundTrip>,
    /// Receivers that have left or were expelled.
    gone: MemberSet,
    /// Maximum number of messages that are not acknowledged by all.
    window: u64,
    /// Maximum number of retransmissions of a message, unless `past_limit` is `Wait`.
    limit: u32,
    past_limit: PastLimit,
    /// Initial round-trip estimate, its maximum, and the minimum timeout.
    spans: (Duration, Duration, Duration),
    /// Maximum number of doublings of a message's timeout.
    doublings: u32,
    pace: TokenBucket,
    /// Size of a packet in bytes at the rate of the token bucket.
    packet: u64,
}

/// Message with at least one acknowledgment missing.
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
    /// Acknowledgments of this message overdue.
    Message(u64),
    /// Earliest time of the next packet.
    Pace,
}

impl FfSender {
    /// Creates a sender to the members of `build`.
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
            // The bucket runs at 1 bit per nanosecond, so the gap in nanoseconds divided by eight is a size in bytes.
            pace: TokenBucket::new((!gap.is_zero()).then_some(BitRate::mbps(1000)), span("burst")),
            packet: (gap.as_nanos() / 8) as u64,
            members,
        }
        .play(build)
    }

    /// Timeout of a message: twice the longest round-trip time of the receivers without an acknowledgment, within the
    /// configured limits.
    fn timeout(&self, number: u64) -> Duration {
        let (unknown, most, least) = self.spans;
        let is_missing = |index: &usize| {
            self.messages.get(number).is_some_and(|message| !message.acknowledged.contains(*index))
        };
        let trips = (0..self.members.len()).filter(is_missing);
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
            // Samples need an incomplete message, and a timestamp at which the message had been sent.
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

    /// Schedules a retransmission, or fails the message or expels its receivers past the limit.
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

    /// Stops waiting for a receiver in all messages.
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
        // Receivers with a pending retransmission may have acknowledged it or left meanwhile.
        while let Some(&number) = self.again.first()
            && self.messages.get(number).is_some_and(|m| m.acknowledged.len() == self.members.len())
        {
            self.again.remove(&number);
        }
        let again = self.again.first().copied();
        // Retransmissions precede new messages.
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
        // Each message has its own timer, restarted with every transmission.
        let deadline = context.now + self.timeout(number);
        context.timers.arm(Timer::Message(number), deadline);
        let to_group = context.to_group();
        Some(context.events.data_sent(to_group, MessageId(number), buf.len(), again.is_some()))
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        for (number, message) in (self.messages.start()..).zip(self.messages.iter()) {
            let turn = message.repeats.into();
            tell(ObservedState { of: STATES[0].of, about: number, state: message.state(), turn });
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
        // Without a receiver left, the message is complete at once.
        self.advance(context);
        Ok(MessageId(number))
    }

    fn finish(&mut self, _context: &mut Context) {
        self.finished = true;
    }

    /// Completes the oldest messages that all receivers have acknowledged.
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

/// Maximum number of timeout doublings: a receiver that never acknowledges a message must not fill the network with
/// retransmissions. Exponential back-off as in RFC 6298, section 5.5.
const MAX_TIMEOUT_DOUBLINGS: u32 = 2;
