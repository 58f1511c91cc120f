//! Sending side: a message, its announcement, a silence, and a poll from time to time.

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
use crate::protocols::msaw::states::NAK_SENDER;

type Context = crate::blocks::MachineContext<Timer>;

/// Sender that transmits one message at a time, waits for NAKs, and holds messages until all receivers have confirmed
/// them.
#[derive(Debug)]
pub struct NakSender {
    config: SenderConfig,
    /// Messages without confirmation from all receivers, at most a poll interval of them.
    window: AckWindow,
    /// Time in which NAKs may arrive after an announcement.
    wait: Duration,
    phase: Phase,
    /// Phase that follows the pending messages, with an announcement or a poll.
    next: Option<Phase>,
    /// Number of announcements and polls sent. The `serial` of a held message is the round after its last
    /// transmission; a NAK for an earlier round is older than that transmission.
    rounds: u64,
    /// Sending time of the first poll of this window.
    polled: Option<Time>,
    /// Consecutive polls without progress.
    repeats: u32,
    timeout: RetransmissionTimeout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// Phase of the sender.
enum Phase {
    /// Ready for the next message.
    Ready,
    /// Message announced; receivers that miss it may send NAKs.
    Waiting,
    /// Poll outstanding.
    Polling,
}

/// Timers of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// End of the silence after an announcement.
    Silence,
    /// Application idle: outstanding messages need a confirmation.
    Idle,
    /// Poll not answered by all receivers in time.
    Poll,
}

impl NakSender {
    /// Creates a sender to the members of `build`.
    pub fn new(build: &BuildContext, config: SenderConfig, settings: &Config) -> Player<Self> {
        let room = FixedWindow(settings.count("poll_interval"));
        NakSender {
            window: AckWindow::new(Members::new(build.members.clone()), room),
            // A wait of zero would make the timer fire again at the same instant.
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

    /// Handles an answer: the receiver has everything before `below`.
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
        // An answer interrupts the silence.
        if context.timers.armed(Timer::Silence).is_some() {
            context.timers.arm(Timer::Silence, context.now + self.wait);
        }
        if let Some(round) = missing {
            self.go_back(context, source, below, round);
        }
    }

    /// Sends everything from `wanted` on again, unless it was sent again after that round.
    fn go_back(&mut self, context: &mut Context, member: NodeId, wanted: u64, round: u8) {
        let round = expand(round.into(), MODULUS, self.rounds);
        let Some(slot) = self.window.get(wanted) else { return };
        // Past the limit the poll decides whether the message is discarded.
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
            // No receiver is left for the message or its announcement.
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

    /// Ends the present message or poll.
    fn may_send_next(&mut self, context: &mut Context) {
        context.timers.clear();
        self.phase = Phase::Ready;
        self.next = None;
        self.polled = None;
        self.repeats = 0;
    }

    /// Polls all receivers while messages are unconfirmed.
    fn poll_all(&mut self, context: &mut Context) {
        if !self.window.is_empty() {
            context.timers.clear();
            self.phase = Phase::Polling;
            self.next = Some(Phase::Polling);
        }
    }

    /// Discards the messages, or expels the silent receivers, after too many polls without progress.
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
            // The announcement follows the retransmissions again.
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
        // Without a receiver left, the message is complete at once.
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
