//! Sending side of stop-and-wait.

use carillon_core::{
    BuildContext, Dest, DropReason, Event, MessageId, NodeId, ObservedState, Outcome, Received, Role,
    Transmit,
};
use carillon_wire::msaw::Packet;

use super::config::SenderConfig;
use super::states::ACK_SENDER;
use crate::blocks::{AckWindow, Addressed, AnswerTimer, FixedWindow, Part, PastLimit, Player, Recipients};

type Context = crate::blocks::MachineContext<Timer>;

/// Sender that transmits one message at a time, and waits until every receiver has acknowledged it.
#[derive(Debug)]
pub struct MsawSender {
    config: SenderConfig,
    /// Destination of first transmissions: the group, or the receiver of a unicast run.
    data_dest: Dest,
    /// Message in flight; the lowest bit of its number is its sequence number.
    window: AckWindow,
    timer: AnswerTimer,
    /// Number of retransmissions to each receiver, with unicast retransmission.
    counts: Vec<u32>,
    /// Receivers with a pending unicast retransmission, last first.
    again: Vec<usize>,
}

/// Timers of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Acknowledgment of the group overdue: retransmit, or handle the failure.
    Message,
    /// Acknowledgment of one receiver overdue: the same for it alone.
    Receiver(u32),
}

impl MsawSender {
    /// Creates a sender to the given receivers.
    pub fn new(build: &BuildContext, mut config: SenderConfig, to: Recipients) -> Player<Self> {
        let Recipients { members, dest } = to;
        config.retransmission = config.retransmission.for_receivers(members.len() as u32);
        let each = if config.addressed == Addressed::Unicast { members.len() } else { 0 };
        MsawSender {
            timer: AnswerTimer::new(&config.retransmission),
            config,
            data_dest: dest,
            window: AckWindow::new(members, FixedWindow(1)),
            counts: vec![0; each],
            again: Vec::new(),
        }
        .play(build)
    }

    fn on_ack(&mut self, context: &mut Context, source: NodeId, sequence: u8) {
        let Some(index) = self.window.members().index_of(source) else {
            return context.events.dropped(DropReason::NotAMember);
        };
        let message = self.window.start();
        let Some(slot) = self.window.first().filter(|_| u64::from(sequence) == message & 1) else {
            return context.events.dropped(DropReason::OutOfWindow);
        };
        // Karn's rule: the answer to a retransmitted message gives no round-trip sample.
        let undisturbed = slot.sent.filter(|_| slot.retransmissions == 0);
        if !self.window.acknowledge(index, message) {
            return context.events.dropped(DropReason::Duplicate);
        }
        context.events.received("ack", message);
        if let Some((sent, _)) = undisturbed {
            self.timer.on_answer(context.now.since(sent));
        }
        self.leave_alone(context, index);
        self.advance(context);
    }

    /// Cancels retransmissions to a receiver.
    fn leave_alone(&mut self, context: &mut Context, index: usize) {
        context.timers.cancel(Timer::Receiver(index as u32));
        self.again.retain(|&due| due != index);
    }
}

impl Part for MsawSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let (state, turn) = match self.window.first() {
            Some(slot) => {
                let settled = self.window.members().len() - self.window.missing().count();
                ("Waiting", settled as u64 + u64::from(slot.retransmissions))
            }
            None => ("Idle", 0),
        };
        tell(ObservedState { of: ACK_SENDER.of, about: 0, state, turn });
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::Ack { sequence } => self.on_ack(context, datagram.source, sequence),
            _ => context.events.dropped(DropReason::Foreign),
        }
    }

    /// Handles an expired timer. Section 2.5: while the count "does not exceed the maximum", the message is sent
    /// again; otherwise the failure is recorded and the next message follows.
    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        let message = self.window.start();
        let Some(slot) = self.window.get_mut(message) else { return };
        self.timer.timeout_mut().on_expiry();
        self.timer.on_round_end();
        context.events.push(Event::TimerFired { timer: "retransmission" });
        let count = match timer {
            Timer::Message => slot.retransmissions,
            Timer::Receiver(index) => self.counts[index as usize],
        };
        if !self.config.retransmission.is_exceeded(count) {
            slot.retransmissions = slot.retransmissions.saturating_add(1);
            match timer {
                Timer::Message => slot.due = true,
                Timer::Receiver(index) => {
                    self.counts[index as usize] = count.saturating_add(1);
                    self.again.push(index as usize);
                    return context.events.repair_needed(self.window.node(index as usize), 1);
                }
            }
            for (index, _) in self.window.missing() {
                context.events.repair_needed(self.window.node(index), 1);
            }
            return;
        }
        let silent = match timer {
            Timer::Message => self.window.missing_first(),
            Timer::Receiver(index) => vec![index as usize],
        };
        for index in silent {
            if self.config.retransmission.past_limit == PastLimit::Expel {
                self.window.expel(index);
                context.events.member_lost(self.window.node(index));
            } else {
                self.window.skip(index, message + 1);
            }
        }
        self.advance(context);
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let message = self.window.start();
        let to_all = std::mem::take(&mut self.window.get_mut(message)?.due);
        let alone = if to_all { None } else { Some(self.again.pop()?) };
        let dest = alone.map(|index| Dest::Node(self.window.node(index)));
        let slot = self.window.get_mut(message)?;
        let (sequence, payload) = ((message & 1) as u8, &slot.payload[..]);
        let packet = match self.timer.ack_wait_nanos() {
            Some(ack_wait) => Packet::Timed { sequence, ack_wait, payload },
            None => Packet::Data { sequence, payload },
        };
        packet.emit(context.association, buf);
        let again = slot.sent.is_some();
        slot.sent.get_or_insert((context.now, 1));
        let deadline = self.timer.deadline(context.now);
        match (self.config.addressed, alone) {
            (Addressed::Multicast, _) => context.timers.arm(Timer::Message, deadline),
            (Addressed::Unicast, Some(index)) => context.timers.arm(Timer::Receiver(index as u32), deadline),
            (Addressed::Unicast, None) => {
                for (index, _) in self.window.missing() {
                    context.timers.arm(Timer::Receiver(index as u32), deadline);
                }
            }
        }
        let to = Transmit::now(dest.unwrap_or_else(|| self.data_dest.clone()));
        Some(context.events.data_sent(to, MessageId(message), buf.len(), again))
    }

    fn window(&self) -> Option<&AckWindow> {
        Some(&self.window)
    }

    fn window_mut(&mut self) -> Option<&mut AckWindow> {
        Some(&mut self.window)
    }

    fn advance(&mut self, context: &mut Context) {
        let Some((number, slot)) = self.window.pop_acknowledged() else { return };
        context.timers.clear();
        self.counts.fill(0);
        self.timer.on_round_end();
        match slot.sent.filter(|_| slot.retransmissions == 0) {
            Some((sent, _)) => self.timer.timeout_mut().on_sample(context.now.since(sent)),
            None => self.timer.timeout_mut().on_recovery(),
        }
        let outcome = if slot.failed { Outcome::Failed } else { Outcome::Acknowledged };
        context.events.completed(MessageId(number), outcome, 1);
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        if let Some(index) = self.window.expel_node(member) {
            self.leave_alone(context, index);
            self.advance(context);
        }
    }
}
