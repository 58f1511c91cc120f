//! The sending side: a message, its announcement, a silence; now and then a poll.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, DropReason, Event, MessageId, NodeId, ObservedState, OfferError, Outcome, Received,
    Role, Time, Transmit, expand,
};
use carillon_wire::msaw::Packet;

use super::MODULUS;
use crate::blocks::{AckWindow, FixedWindow, Members, Part, PastLimit, Player, RetransmissionTimeout};
use crate::protocols::msaw::config::SenderConfig;
use crate::protocols::msaw::describe::NAK_SENDER;

type Context = crate::blocks::MachineContext<Timer>;

/// Sends one message at a time and waits for someone to miss it; holds it until all have confirmed.
#[derive(Debug)]
pub struct NakSender {
    config: SenderConfig,
    /// Messages that not all have confirmed: at most a poll interval of them.
    window: AckWindow,
    /// How long negative acknowledgments have to come.
    wait: Duration,
    phase: Phase,
    /// What follows the messages that are due, by an announcement or a poll.
    next: Option<Phase>,
    /// How many announcements and polls there were. For each message held, `serial` is the round that followed when
    /// it was last sent: a request that answers to an earlier one was made before that.
    rounds: u64,
    /// When the first poll of this window was sent.
    polled: Option<Time>,
    /// How often the poll was repeated without any news.
    repeats: u32,
    timeout: RetransmissionTimeout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The next message may come.
    Ready,
    /// A message was sent; those that miss it have their time to say so.
    Waiting,
    /// All are asked.
    Polling,
}

/// The sender's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Nobody has asked for the last message.
    Silence,
    /// The application has nothing to send: what is outstanding is to be confirmed.
    Idle,
    /// The poll has not been answered by all.
    Poll,
}

impl NakSender {
    /// A sender to the members of the context.
    pub fn new(build: &BuildContext, config: SenderConfig, settings: &Config) -> Player<Self> {
        let room = FixedWindow(settings.count("poll_interval"));
        NakSender {
            window: AckWindow::new(Members::new(build.members.clone()), room),
            // A timer for this very moment would fire again and again.
            wait: (config.retransmission.first_answer() + settings.span("nak_wait").at(build.bit_rate))
                .max(Duration::from_nanos(1)),
            phase: Phase::Ready,
            next: None,
            rounds: 0,
            polled: None,
            repeats: 0,
            timeout: RetransmissionTimeout::new(&config.retransmission),
            config,
        }
        .play(build)
    }

    /// A receiver has everything before `below`.
    fn on_answer(&mut self, context: &mut Context, source: NodeId, sequence: u8, missing: Option<u8>) {
        let Some(index) = self.window.index_of(source) else {
            return context.events.dropped(DropReason::NotAMember);
        };
        let start = self.window.start();
        let rank = (u64::from(sequence) + MODULUS - start % MODULUS) % MODULUS;
        let below = start + rank + u64::from(missing.is_none());
        if below > self.window.end() {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        let packet = if missing.is_some() { "nak" } else { "ack" };
        context.events.received(packet, start + rank);
        if below > start && self.window.acknowledge(index, below - 1) {
            self.repeats = 0;
            self.advance(context);
        }
        // It is no silence.
        if context.timers.armed(Timer::Silence).is_some() {
            context.timers.arm(Timer::Silence, context.now + self.wait);
        }
        if let Some(round) = missing {
            self.go_back(context, source, below, round);
        }
    }

    /// Everything from `wanted` on is sent again, unless it was for someone else after that round.
    fn go_back(&mut self, context: &mut Context, member: NodeId, wanted: u64, round: u8) {
        let round = expand(round.into(), MODULUS, self.rounds);
        let Some(slot) = self.window.get(wanted) else { return };
        // Past the limit the poll decides what becomes of it.
        if round < slot.serial || self.config.retransmission.is_exceeded(slot.retransmissions) {
            return;
        }
        let messages = self.window.go_back_to(wanted);
        if messages > 0 {
            context.events.repair_needed(member, messages);
        }
    }

    fn advance(&mut self, context: &mut Context) {
        while let Some((number, _)) = self.window.pop_acknowledged() {
            context.events.completed(MessageId(number), Outcome::Acknowledged, 1);
        }
        if self.window.is_empty()
            && context.timers.armed(Timer::Silence).is_none()
            && self.phase == Phase::Waiting
        {
            // Nobody is left to send it to, or to tell of it.
            self.may_send_next(context);
        }
        if self.window.is_empty() && self.phase == Phase::Polling {
            match self.polled {
                Some(polled) if self.repeats == 0 => self.timeout.on_sample(context.now.since(polled)),
                _ => self.timeout.on_recovery(),
            }
            self.may_send_next(context);
        }
    }

    fn may_send_next(&mut self, context: &mut Context) {
        context.timers.clear();
        self.phase = Phase::Ready;
        self.next = None;
        self.polled = None;
        self.repeats = 0;
    }

    fn poll_all(&mut self, context: &mut Context) {
        if !self.window.is_empty() {
            context.timers.clear();
            self.phase = Phase::Polling;
            self.next = Some(Phase::Polling);
        }
    }

    /// The poll was repeated too often without news.
    fn discard_message(&mut self, context: &mut Context) {
        if self.config.retransmission.past_limit == PastLimit::Expel {
            self.window.expel_missing(&mut context.events);
            return self.advance(context);
        }
        while self.window.fail_first(&mut context.events).is_some() {}
        self.may_send_next(context);
    }
}

impl Part for NakSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let (state, turn) = match self.phase {
            Phase::Ready => ("Ready", 0),
            Phase::Waiting => ("Waiting", self.rounds),
            Phase::Polling => ("Polling", self.rounds),
        };
        tell(ObservedState { of: NAK_SENDER.of, about: 0, state, turn });
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::AckUpTo { sequence } => self.on_answer(context, datagram.source, sequence, None),
            Packet::Nak { sequence, round } => {
                self.on_answer(context, datagram.source, sequence, Some(round));
            }
            _ => context.events.dropped(DropReason::Foreign),
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Silence => {
                self.phase = Phase::Ready;
                if self.window.is_closed() {
                    self.poll_all(context);
                } else {
                    context.timers.arm(Timer::Idle, context.now + self.wait);
                }
            }
            Timer::Idle => self.poll_all(context),
            Timer::Poll => {
                context.events.push(Event::TimerFired { timer: "poll" });
                self.timeout.on_expiry();
                self.repeats = self.repeats.saturating_add(1);
                if self.config.retransmission.is_exceeded(self.repeats) {
                    self.discard_message(context);
                }
                self.poll_all(context);
            }
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let full = self.window.is_full();
        if let Some((number, slot)) = self.window.first_due() {
            let sequence = (number % MODULUS) as u8;
            Packet::Numbered { sequence, payload: &slot.payload }.emit(context.association, buf);
            slot.serial = self.rounds;
            let again = slot.on_send(context.now, 1);
            // It is announced again after what is sent again.
            context.timers.clear();
            let asks_all = full || self.phase == Phase::Polling;
            self.next = Some(if asks_all { Phase::Polling } else { Phase::Waiting });
            return Some(context.events.data_sent(context.to_group(), MessageId(number), buf.len(), again));
        }
        let (first, last) = (self.window.start(), self.window.end().checked_sub(1)?);
        let (sequence, first) = ((last % MODULUS) as u8, (first % MODULUS) as u8);
        self.phase = self.next.take().filter(|_| !self.window.is_empty())?;
        let round = (self.rounds % MODULUS) as u8;
        self.rounds += 1;
        let (packet, name) = if self.phase == Phase::Polling {
            self.polled.get_or_insert(context.now);
            context.timers.arm(Timer::Poll, context.now + self.timeout.current());
            (Packet::Poll { sequence, first, round }, "poll")
        } else {
            context.timers.arm(Timer::Silence, context.now + self.wait);
            (Packet::Announce { sequence, first, round }, "announce")
        };
        packet.emit(context.association, buf);
        context.events.control(name, last);
        Some(context.to_group())
    }

    fn window(&self) -> Option<&AckWindow> {
        Some(&self.window)
    }

    fn offer(&mut self, context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.phase != Phase::Ready && !self.window.is_closed() {
            return Err(OfferError::Full);
        }
        let number = self.window.offer(payload)?;
        context.timers.clear();
        self.phase = Phase::Waiting;
        // With nobody left to acknowledge, the message is with all receivers at once.
        self.advance(context);
        Ok(MessageId(number))
    }

    fn finish(&mut self, context: &mut Context) {
        self.window.finish();
        if self.phase == Phase::Ready {
            self.poll_all(context);
        }
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        if self.window.expel_node(member).is_some() {
            self.advance(context);
        }
    }
}
