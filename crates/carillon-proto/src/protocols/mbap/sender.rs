//! Sending side of block acknowledgment.

use carillon_core::{
    BuildContext, Dest, DropReason, Event, MessageId, NodeId, ObservedState, Received, Role, Time, Transmit,
};
use carillon_wire::mbap::Packet;

use super::config::SenderConfig;
use super::states::{ACK_SENDER, NAK_SENDER};
use crate::blocks::{AckWindow, AnswerTimer, FixedWindow, Part, PastLimit, Player, Recipients, Slot};

type Context = crate::blocks::MachineContext<Timer>;

/// Sender that transmits up to n messages at once, and advances to the first message without all acknowledgments.
#[derive(Debug)]
pub struct MbapSender {
    config: SenderConfig,
    /// Destination of messages: the group, or the receiver of a unicast run.
    data_dest: Dest,
    window: AckWindow,
    /// True while the last message is due again as a poll, with NAKs.
    poll_due: bool,
    /// Consecutive polls without progress.
    polls: u32,
    /// Sending time of the single unanswered poll, with selective repair.
    polled: Option<Time>,
    timer: AnswerTimer,
    /// Time at which everything handed over will have left the interface.
    leaves: Time,
    /// Number last processed from each receiver, if it is remembered.
    processed: Vec<Option<u16>>,
}

/// Timers of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Packet timer: restarted with each message, retransmits the whole window.
    Packet,
}

impl MbapSender {
    /// Creates a sender to the given receivers.
    pub fn new(build: &BuildContext, mut config: SenderConfig, to: Recipients) -> Player<Self> {
        let Recipients { members, dest } = to;
        config.retransmission = config.retransmission.for_receivers(members.len() as u32);
        MbapSender {
            timer: AnswerTimer::new(&config.retransmission),
            processed: vec![None; if config.remembers { members.len() } else { 0 }],
            window: match (AckWindow::new(members, FixedWindow(config.window as u64)), config.by_blocks) {
                (window, true) => window.by_blocks(),
                (window, false) => window,
            },
            leaves: Time::ZERO,
            config,
            data_dest: dest,
            poll_due: false,
            polls: 0,
            polled: None,
        }
        .play(build)
    }

    /// Message of a sequence number, if it is in the active window or the next one.
    fn message(&self, sequence: u16) -> Option<u64> {
        let modulus = 2 * self.config.window as u64;
        let sequence = u64::from(sequence);
        let rank = (sequence % modulus + modulus - self.window.start() % modulus) % modulus;
        (sequence < modulus && rank <= self.window.len() as u64).then_some(self.window.start() + rank)
    }

    fn on_ack(&mut self, context: &mut Context, source: NodeId, sequence: u16) {
        let Some(index) = self.window.index_of(source) else {
            return context.events.dropped(DropReason::NotAMember);
        };
        let Some(message) = self.message(sequence).filter(|&message| message < self.window.end()) else {
            // An acknowledgment outside of the active window is ignored.
            return context.events.dropped(DropReason::OutOfWindow);
        };
        self.on_answer(context);
        let processed = self.processed.get_mut(index).and_then(|last| last.replace(sequence));
        if processed == Some(sequence) || !self.window.acknowledge(index, message) {
            return context.events.dropped(DropReason::Duplicate);
        }
        self.polls = 0;
        context.events.received("ack", message);
        self.note_answer(context, message);
        self.advance(context);
    }

    /// Takes a round-trip sample from a poll and its first answer, because with selective repair messages complete
    /// long after they were sent.
    fn on_answer(&mut self, context: &mut Context) {
        if let Some(polled) = self.polled.take() {
            self.timer.timeout_mut().on_sample(context.now.since(polled));
        }
    }

    /// Samples the adaptive wait from an answer to the whole window, unless the window was retransmitted (Karn and
    /// Partridge 1987).
    fn note_answer(&mut self, context: &mut Context, message: u64) {
        let whole = message + 1 == self.window.end();
        let slot = self.window.get(message).filter(|slot| whole && slot.retransmissions == 0);
        if let Some((sent, _)) = slot.and_then(|slot| slot.sent) {
            self.timer.on_answer(context.now.since(sent));
        }
    }

    /// Handles a NAK, which acknowledges all messages before the requested one. The sender goes back to it, unless it
    /// has just done so for another receiver.
    fn on_nak(&mut self, context: &mut Context, source: NodeId, sequence: u16) {
        let Some(index) = self.window.index_of(source) else {
            return context.events.dropped(DropReason::NotAMember);
        };
        let Some(wanted) = self.message(sequence).filter(|_| self.config.negative) else {
            return context.events.dropped(DropReason::OutOfWindow);
        };
        context.events.received("nak", wanted);
        self.on_answer(context);
        let acknowledges_prefix = !self.config.selective;
        if acknowledges_prefix && wanted > self.window.start() && self.window.acknowledge(index, wanted - 1) {
            self.polls = 0;
            self.advance(context);
        }
        let Some(slot) = self.window.get_mut(wanted) else { return };
        // With selective repair a single message is repeated, so the answer takes no longer than that to a poll.
        let answered = |at: Time| match (at + self.config.retransmission.all_answers(), &self.timer) {
            (window, timer) if self.config.selective => window.min(timer.deadline(at)),
            (window, _) => window,
        };
        let just_resent = slot.resent.is_some_and(|at| context.now < answered(at));
        // Past the limit the packet timer decides whether the message is skipped.
        if slot.sent.is_none() || just_resent || self.config.retransmission.is_exceeded(slot.retransmissions)
        {
            return;
        }
        if self.config.selective {
            if !std::mem::replace(&mut slot.due, true) {
                self.polls = 0;
            }
        } else {
            self.window.go_back_to(wanted);
        }
        // The receiver misses the first of these messages, and the rest is sent with it.
        context.events.repair_needed(source, self.window.due_again());
    }

    /// Handles the expiry of the packet timer. Section 2.6: it retransmits every message in the active window, unless
    /// the retransmission count is exceeded.
    fn on_packet_timer(&mut self, context: &mut Context) {
        context.events.push(Event::TimerFired { timer: "packet" });
        // Requests repair most losses, so that a poll alone does not indicate a slower path. A second poll in a row
        // does.
        if !self.config.selective || self.polls > 0 {
            self.timer.timeout_mut().on_expiry();
        }
        self.timer.on_round_end();
        if self.config.negative {
            return self.poll(context);
        }
        let limit = self.config.retransmission.limit;
        let exceeded = |slot: &Slot| slot.retransmissions > limit;
        match self.config.retransmission.past_limit {
            PastLimit::Skip => {
                while self.window.first().is_some_and(exceeded) {
                    self.window.fail_first(&mut context.events);
                }
            }
            PastLimit::Expel if self.window.first().is_some_and(exceeded) => {
                for index in self.window.missing_first() {
                    self.window.expel(index);
                    context.events.member_lost(self.window.node(index));
                }
                self.advance(context);
            }
            PastLimit::Expel | PastLimit::Wait => {}
        }
        self.note_missing(context);
        for slot in self.window.slots_mut() {
            slot.due = true;
        }
    }

    /// Polls all receivers with the last message: none misses anything, or requests were lost. Past the limit it
    /// discards or expels instead. Used with NAKs.
    fn poll(&mut self, context: &mut Context) {
        self.polls = self.polls.saturating_add(1);
        if self.config.retransmission.is_exceeded(self.polls) {
            self.polls = 0;
            if self.config.retransmission.past_limit == PastLimit::Expel {
                self.window.expel_missing(&mut context.events);
                self.advance(context);
            } else {
                while self.window.fail_first(&mut context.events).is_some() {}
            }
        }
        self.note_missing(context);
        self.poll_due = !self.window.is_empty();
    }

    fn note_missing(&mut self, context: &mut Context) {
        for (index, messages) in self.window.missing() {
            context.events.repair_needed(self.window.node(index), messages);
        }
    }
}

impl Part for MbapSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn report_states(&self, context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let of = if self.config.negative { NAK_SENDER.of } else { ACK_SENDER.of };
        let state = if self.window.is_full() { "Full" } else { "Open" };
        // Every transition back to a state sends a packet, which restarts the timer.
        let turn = context.timers.armed(Timer::Packet).map_or(0, Time::as_nanos);
        tell(ObservedState { of, about: 0, state, turn });
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::Ack { sequence } => self.on_ack(context, datagram.source, sequence),
            Packet::Nak { sequence } => self.on_nak(context, datagram.source, sequence),
            Packet::Data { .. } | Packet::Timed { .. } | Packet::Poll { .. } => {
                context.events.dropped(DropReason::Foreign);
            }
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        let Timer::Packet = timer;
        self.on_packet_timer(context);
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let outstanding = self.window.len() as u32;
        let (last, modulus) = (self.window.end().saturating_sub(1), 2 * self.config.window as u64);
        let (number, slot, poll) = match self.window.first_due() {
            Some((number, slot)) => (number, slot, false),
            None if std::mem::take(&mut self.poll_due) => (last, self.window.get_mut(last)?, true),
            None => return None,
        };
        let (sequence, payload) = ((number % modulus) as u16, &slot.payload[..]);
        match poll {
            true => {
                Packet::Poll { sequence, payload }.emit(context.association, buf);
                // With two polls in flight the answered one is unknown (Karn's rule).
                self.polled = (self.config.selective && self.polls == 1).then_some(context.now);
            }
            false => {
                let packet = match self.timer.ack_wait_nanos() {
                    Some(ack_wait) => Packet::Timed { sequence, ack_wait, payload },
                    None => Packet::Data { sequence, payload },
                };
                packet.emit(context.association, buf);
            }
        }
        let again = slot.on_send(context.now, outstanding);
        let sent = match self.config.from_departure {
            // Messages queue at the interface: this one leaves after those before it.
            Some((rate, overhead)) => {
                let begins = self.leaves.max(context.now);
                self.leaves = begins + rate.time_for_bytes(buf.len() as u64 + u64::from(overhead));
                begins
            }
            None => context.now,
        };
        context.timers.arm(Timer::Packet, self.timer.deadline(sent));
        let to = Transmit::now(self.data_dest.clone());
        Some(context.events.data_sent(to, MessageId(number), buf.len(), again))
    }

    fn window(&self) -> Option<&AckWindow> {
        Some(&self.window)
    }

    fn window_mut(&mut self) -> Option<&mut AckWindow> {
        Some(&mut self.window)
    }

    fn advance(&mut self, context: &mut Context) {
        let mut last = None;
        while let Some((_, slot)) = self.window.complete_first(&mut context.events) {
            last = Some(slot);
        }
        match last.as_ref().and_then(|slot| slot.sent.filter(|_| slot.retransmissions == 0)) {
            Some(_) if self.config.selective => {}
            Some((sent, _)) => self.timer.timeout_mut().on_sample(context.now.since(sent)),
            None if last.is_some() => self.timer.timeout_mut().on_recovery(),
            None => {}
        }
        if last.is_some() && self.config.resets {
            self.window.reset();
        }
        if self.window.is_empty() {
            self.timer.on_round_end();
            context.timers.cancel(Timer::Packet);
        }
    }
}
