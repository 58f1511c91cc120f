//! The sending side: names a receiver, waits for its acknowledgment, goes on to the next.

use bytes::Bytes;
use carillon_core::{
    AssociationId, BuildContext, Config, ConfigError, Dest, DropReason, Event, Events, GroupId, Identities,
    Machine, MessageId, NodeId, OfferError, Outcome, Received, Sender, Time, Timers, Transmit, expand,
};
use carillon_wire::rra::{HEADER_LEN, Packet};

use super::receiver::MODULUS;
use crate::blocks::{AckWindow, Members, PastLimit, Retransmission, RetransmissionTimeout};

/// Sends messages, each burst of them naming the receiver whose turn it is.
#[derive(Debug)]
pub struct RraSender {
    association: AssociationId,
    group: GroupId,
    window_size: usize,
    burst: u32,
    retransmission: Retransmission,
    members: Members,
    /// What names each member on the wire.
    identities: Identities,
    window: AckWindow,
    /// One past the last message sent.
    sent: u64,
    /// Messages and repairs sent since a receiver was last asked. Fewer than a burst, so that the
    /// timeout allows for all that is sent before the answer.
    in_burst: u32,
    /// The receiver whose turn is next.
    turn: usize,
    /// The receiver that was asked.
    asked: Option<Asked>,
    /// The receiver that last reported losses: repairs ask it.
    reporter: Option<usize>,
    timers: Timers<Timer>,
    timeout: RetransmissionTimeout,
    finished: bool,
    events: Events,
}

/// A receiver that has been asked for its acknowledgment.
#[derive(Debug)]
struct Asked {
    index: usize,
    /// The message that asked it; it may be gone when it is asked again.
    message: u64,
    since: Time,
    /// How often it was asked again.
    count: u32,
    /// It is to be asked (again).
    due: bool,
}

/// The sender's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The receiver that was asked has had time to answer: ask again, or give up.
    Answer,
}

impl RraSender {
    /// A sender to the members of the context.
    pub fn new(context: &BuildContext, settings: &Config) -> Result<Self, ConfigError> {
        let burst = settings.count("burst");
        // One acknowledgment at a time: the formula's r is 1.
        let retransmission =
            Retransmission::new(context, settings, HEADER_LEN, burst, Default::default())?.for_receivers(1);
        let members = Members::new(context.members.clone());
        Ok(RraSender {
            association: context.association,
            group: context.group,
            window_size: settings.count("window") as usize,
            burst: burst as u32,
            timeout: RetransmissionTimeout::new(&retransmission),
            retransmission,
            window: AckWindow::new(members.len()),
            members,
            identities: context.identities.clone(),
            sent: 0,
            in_burst: 0,
            turn: 0,
            asked: None,
            reporter: None,
            timers: Timers::new(),
            finished: false,
            events: Events::default(),
        })
    }

    fn on_ack(&mut self, now: Time, source: NodeId, expected: u32, received: u64) {
        let Some(index) = self.members.index_of(source).filter(|&index| !self.window.is_expelled(index))
        else {
            return self.events.dropped(DropReason::NotAMember);
        };
        let expected = expand(expected.into(), MODULUS, self.sent);
        // Behind what it has acknowledged before is an old packet, unless it was asked: then messages
        // were given up for it that it still lacks.
        let asked = self.asked.as_ref().is_some_and(|asked| asked.index == index);
        if expected > self.sent || (expected < self.window.acknowledged_below(index) && !asked) {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        self.events.push(Event::Received { packet: "ack", message: MessageId(expected.saturating_sub(1)) });
        if expected > self.window.start() {
            self.window.acknowledge(index, expected - 1);
        }
        if let Some(asked) = self.asked.take_if(|asked| asked.index == index) {
            self.timers.cancel(Timer::Answer);
            match asked.count {
                0 => self.timeout.on_sample(now.since(asked.since)),
                _ => self.timeout.on_recovery(),
            }
        }
        self.mark_missing(index, expected, received);
        self.advance();
    }

    /// What a receiver lacks of the messages sent is due again.
    fn mark_missing(&mut self, index: usize, expected: u64, received: u64) {
        let mut missing = 0;
        for number in expected.max(self.window.start())..self.sent {
            let offset = number - expected;
            // Beyond the map nothing is known: its turn will come again.
            if offset > 64 {
                break;
            }
            let there = offset > 0 && received & (1 << (offset - 1)) != 0;
            if let Some(slot) = self.window.get_mut(number).filter(|_| !there) {
                slot.due = true;
                missing += 1;
            }
        }
        if missing > 0 {
            self.reporter = Some(index);
            let member = self.members.node(index);
            self.events.push(Event::RepairNeeded { member, messages: missing });
        }
    }

    fn advance(&mut self) {
        while let Some((number, slot)) = self.window.pop_acknowledged() {
            let outcome = if slot.failed { Outcome::Failed } else { Outcome::Acknowledged };
            let window = slot.sent.map_or(0, |(_, window)| window);
            self.events.push(Event::Completed { message: MessageId(number), outcome, window });
            self.sent = self.sent.max(number + 1);
        }
        if self.window.is_empty() {
            self.asked = None;
            self.timers.clear();
        }
    }

    fn on_no_answer(&mut self) {
        self.events.push(Event::TimerFired { timer: "answer" });
        self.timeout.on_expiry();
        let Some(asked) = &mut self.asked else { return };
        if !self.retransmission.is_exceeded(asked.count) {
            asked.count = asked.count.saturating_add(1);
            asked.due = true;
            return;
        }
        let index = asked.index;
        self.asked = None;
        match self.retransmission.past_limit {
            PastLimit::Expel => {
                self.window.expel(index);
                self.events.push(Event::MemberLost { member: self.members.node(index) });
            }
            PastLimit::Skip => {
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
            // Then there is no limit.
            PastLimit::Wait => {}
        }
        self.advance();
    }

    /// Counts a packet; whether it is the last of its burst.
    fn ends_burst(&mut self, last: bool) -> bool {
        self.in_burst += 1;
        last || self.in_burst >= self.burst
    }

    /// The next receiver by turns that `wanted` holds for.
    fn next_turn(&mut self, wanted: impl Fn(&AckWindow, usize) -> bool) -> Option<usize> {
        let group = self.members.len();
        let index = (0..group)
            .map(|step| (self.turn + step) % group)
            .find(|&index| !self.window.is_expelled(index) && wanted(&self.window, index))?;
        self.turn = (index + 1) % group;
        Some(index)
    }

    /// Asks a receiver with the packet that is about to go out.
    fn ask(&mut self, now: Time, index: usize, message: u64) -> u64 {
        let count = self.asked.as_ref().map_or(0, |asked| asked.count);
        self.asked = Some(Asked { index, message, since: now, count, due: false });
        self.timers.arm(Timer::Answer, now + self.timeout.current());
        self.in_burst = 0;
        self.identities.member(index, self.members.node(index))
    }

    /// Emits message `number`, which asks `index` if anyone.
    fn send(&mut self, now: Time, number: u64, asks: Option<usize>, buf: &mut Vec<u8>) -> Transmit {
        let acker = asks.map_or(NOBODY, |index| self.ask(now, index, number));
        let first = (self.window.start() % MODULUS) as u32;
        let window = self.window.len() as u32;
        let slot = self.window.get_mut(number).expect("the message is in the window");
        slot.due = false;
        let sequence = (number % MODULUS) as u32;
        Packet::Data { sequence, first, acker, payload: &slot.payload }.emit(self.association, buf);
        let (message, bytes) = (MessageId(number), buf.len() as u32);
        let first = slot.sent.is_none();
        self.events.push(match slot.sent {
            Some(_) => {
                slot.retransmissions += 1;
                Event::RepairSent { message, bytes }
            }
            None => {
                slot.sent = Some((now, window));
                self.sent = number + 1;
                Event::Sent { message, bytes }
            }
        });
        Transmit { original: first.then_some(message), ..Transmit::now(Dest::group(self.group)) }
    }

    fn poll(&mut self, now: Time, index: usize, buf: &mut Vec<u8>) -> Transmit {
        let last = self.sent.saturating_sub(1);
        let acker = self.ask(now, index, last);
        let first = (self.window.start().min(last) % MODULUS) as u32;
        Packet::Poll { sequence: (last % MODULUS) as u32, first, acker }.emit(self.association, buf);
        self.events.push(Event::ControlSent { packet: "poll", message: MessageId(last) });
        Transmit::now(Dest::group(self.group))
    }
}

impl Machine for RraSender {
    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        match Packet::parse(datagram.bytes) {
            Err(_) => self.events.dropped(DropReason::Malformed),
            Ok((association, _)) if association != self.association => {
                self.events.dropped(DropReason::Foreign)
            }
            Ok((_, Packet::Ack { expected, received })) => {
                self.on_ack(now, datagram.source, expected, received);
            }
            Ok(_) => self.events.dropped(DropReason::Foreign),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.expire(now) {
            match timer {
                Timer::Answer => self.on_no_answer(),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(asked) = &self.asked {
            if !asked.due {
                return None;
            }
            // Asked again with the same message, or without one if it is complete by now.
            let (index, message) = (asked.index, asked.message);
            return Some(match self.window.get_mut(message) {
                Some(_) => self.send(now, message, Some(index), buf),
                None => self.poll(now, index, buf),
            });
        }
        if self.window.is_empty() {
            return None;
        }
        let due = self.window.first_due().map(|(number, _)| number);
        match due {
            // Repairs go first. The last of a burst asks the receiver that reported the loss.
            Some(number) if number < self.sent => {
                let mut rest = number + 1..self.sent;
                let more = rest.any(|n| self.window.get_mut(n).is_some_and(|slot| slot.due));
                let asks = self.ends_burst(!more).then(|| {
                    let reporter = self.reporter.filter(|&index| !self.window.is_expelled(index));
                    reporter.or_else(|| self.next_turn(|_, _| true))
                });
                Some(self.send(now, number, asks.flatten(), buf))
            }
            Some(number) => {
                let last = number + 1 == self.window.end();
                let asks = self.ends_burst(last).then(|| self.next_turn(|_, _| true));
                Some(self.send(now, number, asks.flatten(), buf))
            }
            // Nothing to send: ask those who have not acknowledged everything.
            None => {
                let sent = self.sent;
                let index = self.next_turn(|window, index| window.acknowledged_below(index) < sent)?;
                Some(self.poll(now, index, buf))
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }
}

impl Sender for RraSender {
    fn offer(&mut self, _now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.window.len() == self.window_size {
            return Err(OfferError::Full);
        }
        let number = self.window.push(payload);
        // With nobody left to acknowledge, the message is with all receivers at once.
        self.advance();
        Ok(MessageId(number))
    }

    fn finish(&mut self, _now: Time) {
        self.finished = true;
    }

    fn expel(&mut self, _now: Time, member: NodeId) {
        let index = self.members.index_of(member).filter(|&index| !self.window.is_expelled(index));
        if let Some(index) = index {
            self.window.expel(index);
            if self.asked.take_if(|asked| asked.index == index).is_some() {
                self.timers.cancel(Timer::Answer);
            }
            self.advance();
        }
    }

    fn is_finished(&self) -> bool {
        self.finished && self.window.is_empty()
    }

    fn header_bytes(&self) -> usize {
        HEADER_LEN
    }
}

/// Names no receiver: a message in the middle of a burst.
const NOBODY: u64 = u64::MAX;
