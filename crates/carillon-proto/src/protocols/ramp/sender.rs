//! Sending side: channels, bursts, acknowledgments and repairs.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Dest, DropReason, MessageId, NodeId, ObservedState, OfferError,
    Outcome, Received, Role, TokenBucket, Transmit,
};
use carillon_wire::ramp::{Flags, Packet, Spans, Status};

use super::bursts::Bursts;
use super::channels::{Channel, Channels};
use super::config::Settings;
use super::poll::Poll;
use super::rate::AdaptiveRate;
use super::repairs::{Repairs, Target, targets};
use super::states::STATES;
use crate::blocks::{Members, Numbered, Part, PastLimit, Player, RateControl, RepairBudget, near, wire};

type Context = crate::blocks::MachineContext<Timer>;

/// Sender of a session.
#[derive(Debug)]
pub struct RampSender {
    settings: Settings,
    members: Members,
    channels: Channels,
    /// Messages kept for repairs, and messages not sent yet.
    kept: Numbered<Bytes>,
    /// First message that some awaited receiver is missing.
    done: u64,
    /// First message that was not sent.
    sent: u64,
    finished: bool,
    /// Number after the last message that was skipped for some receiver.
    failed_before: u64,
    bursts: Bursts,
    repairs: Repairs,
    budget: RepairBudget<NodeId>,
    rate: AdaptiveRate,
    pace: TokenBucket,
    poll: Poll,
    /// Members to which a CONNECT is due.
    connects: BTreeSet<usize>,
    /// Members with a RESPOND that is not answered yet.
    responds: BTreeSet<usize>,
    /// True if an IDLE to the group is due.
    idle_due: bool,
}

/// Timers of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// End of the present burst.
    BurstEnd,
    /// Next IDLE of idle mode.
    Idle,
    /// Next check of the receivers' Idles, in idle mode.
    Silence,
    /// Overdue answers, or the next request for confirmation.
    Response,
    /// End of the retransmission hold timer.
    Hold,
    /// Earliest time of the next packet.
    Pace,
}

impl RampSender {
    /// Creates the sender of a session.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config)?;
        let members = Members::new(build.members.clone());
        let channels = Channels::new(&settings, members.len());
        Ok(RampSender {
            bursts: Bursts::new(&settings, channels.awaited()),
            channels,
            kept: Numbered::default(),
            done: 0,
            sent: 0,
            finished: false,
            failed_before: 0,
            repairs: Repairs::new(&settings),
            budget: RepairBudget::new(settings.repair_budget),
            rate: AdaptiveRate::new(
                settings.rate,
                settings.rate_min,
                settings.rate_scale,
                settings.rate_clean,
            ),
            pace: TokenBucket::new(settings.rate, PACING_BURST),
            poll: Poll::default(),
            connects: (0..members.len()).collect(),
            responds: BTreeSet::new(),
            idle_due: false,
            members,
            settings,
        }
        .play(build))
    }

    fn on_packet(&mut self, context: &mut Context, source: NodeId, packet: &Packet<'_>) {
        let (Packet::Accept { status, .. }
        | Packet::Ack { status, .. }
        | Packet::ReceiverIdle(status)
        | Packet::Respond(status)
        | Packet::Resend { status, .. }) = *packet
        else {
            return context.events.dropped(DropReason::Foreign);
        };
        let Some(index) =
            self.members.index_of(source).filter(|&index| !self.channels.channel(index).is_closed)
        else {
            return context.events.dropped(DropReason::NotAMember);
        };
        let Status { next, limit } = status;
        let next = near(next, self.done);
        if next > self.sent {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        // The room that a receiver reports is at most a window, whatever the number says.
        let limit = near(limit, next).clamp(next, next + self.settings.window);
        context.events.received(packet.name(), next.saturating_sub(1));
        self.channels.on_status(index, next, limit);
        match *packet {
            Packet::Accept { .. } => self.channels.on_answer(context.now, index, None),
            Packet::Ack { sequence, .. } => {
                self.channels.on_answer(context.now, index, Some(near(sequence, self.sent)));
            }
            Packet::Respond(_) => _ = self.responds.insert(index),
            Packet::Resend { spans, .. } => self.on_resend(context, source, index, spans),
            _ => {}
        }
        self.settle(context);
    }

    /// Collects the requested messages until the hold timer ends.
    fn on_resend(&mut self, context: &mut Context, source: NodeId, index: usize, spans: Spans<'_>) {
        let mut left = self.budget.left(source, self.sent).min(self.settings.window);
        let mut requested = 0;
        for (first, length) in spans.iter() {
            let first = near(first, self.sent);
            let end = first.saturating_add(length.into()).min(self.sent);
            if first < self.kept.start() {
                self.repairs.refuse(index);
            }
            for number in first.max(self.kept.start())..end {
                if left == 0 {
                    break;
                }
                left -= 1;
                requested += 1;
                self.repairs.request(number, index);
            }
        }
        self.budget.spend(source, requested);
        match self.repairs.hold() {
            Duration::ZERO => self.decide(context),
            hold if context.timers.armed(Timer::Hold).is_none() => {
                context.timers.arm(Timer::Hold, context.now + hold);
            }
            _ => {}
        }
    }

    fn decide(&mut self, context: &mut Context) {
        let requested = self.repairs.decide(context.now);
        if requested > 0 && self.rate.on_requested(requested) {
            self.pace.set_rate(context.now, self.rate.rate());
        }
    }

    /// Completes the messages that all awaited receivers have, and asks for confirmation if it is needed.
    fn settle(&mut self, context: &mut Context) {
        let done = self.channels.first_missing().unwrap_or(self.sent).min(self.sent);
        while self.done < done {
            let failed = self.done < self.failed_before;
            let outcome = if failed { Outcome::Failed } else { Outcome::Acknowledged };
            context.events.completed(MessageId(self.done), outcome, self.settings.window as u32);
            self.done += 1;
        }
        while self.kept.len() as u64 > self.settings.buffer && self.kept.start() < self.done {
            if let Some((number, _)) = self.kept.pop() {
                self.repairs.forget(number);
            }
        }
        self.ask(context);
    }

    /// Asks for confirmation if the sender cannot go on without it, and keeps the timer.
    fn ask(&mut self, context: &mut Context) {
        if self.is_finished() {
            // Nothing more is expected from the receivers.
            self.connects.clear();
            self.poll.due.clear();
            self.poll.confirm = false;
            for timer in [Timer::Response, Timer::Silence] {
                context.timers.cancel(timer);
            }
            return;
        }
        let wants = self.wants_confirmation(context);
        // Answers that are on the way may open the window. The end of the stream has no later flag.
        let covered = self.poll.covers == Some(self.sent);
        if wants && !covered && (self.is_all_sent() || !self.channels.has_debts()) {
            self.poll.confirm = true;
        }
        match self.channels.overdue_at() {
            Some(at) => {
                context.timers.arm(Timer::Response, at.max(context.now + Duration::from_nanos(1)));
            }
            // Receivers have answered and repair what they miss. The sender asks again later.
            None if wants && context.timers.armed(Timer::Response).is_none() => {
                let wait = self.channels.longest_timeout(self.settings.response_timeout);
                context.timers.arm(Timer::Response, context.now + wait);
            }
            None if !wants => _ = context.timers.cancel(Timer::Response),
            None => {}
        }
    }

    /// Returns true if messages are outstanding and nothing else would make the receivers confirm them.
    fn wants_confirmation(&self, context: &Context) -> bool {
        let is_silent = self.settings.idle_ack && self.bursts.ends_at().is_some_and(|end| end <= context.now);
        let is_blocked = self.sent < self.kept.end() && self.sent >= self.limit();
        // A receiver without room may have reported its new room in a packet that was lost.
        is_blocked || (self.done < self.sent && self.is_all_sent() && (self.finished || is_silent))
    }

    /// First message that the window or the room of a receiver does not admit.
    fn limit(&self) -> u64 {
        self.channels.limit().unwrap_or(u64::MAX).min(self.done + self.settings.window)
    }

    fn is_all_sent(&self) -> bool {
        self.sent == self.kept.end()
    }

    fn on_response(&mut self, context: &mut Context) {
        let (again, failed) = self.channels.overdue(context.now);
        self.fail(context, failed);
        let (connected, others): (BTreeSet<_>, BTreeSet<_>) =
            again.into_iter().partition(|&index| self.channels.channel(index).is_connected);
        self.connects.extend(others);
        self.poll.due.extend(targets(&connected, self.settings.mcast_thresh));
        if connected.is_empty() && self.wants_confirmation(context) && !self.channels.has_debts() {
            self.poll.confirm = true;
        }
        self.settle(context);
    }

    /// Closes the channels to failed receivers, or skips the messages that they miss.
    fn fail(&mut self, context: &mut Context, failed: Vec<usize>) {
        for index in failed {
            let is_awaited = self.channels.channel(index).is_awaited();
            match self.settings.past_limit {
                PastLimit::Wait if self.channels.channel(index).is_connected => {
                    self.poll.due.insert(Some(index));
                }
                PastLimit::Wait => _ = self.connects.insert(index),
                PastLimit::Skip if is_awaited => {
                    self.channels.skip(index, self.sent);
                    self.failed_before = self.failed_before.max(self.sent);
                }
                _ => {
                    self.channels.close(index);
                    if is_awaited {
                        context.events.member_lost(self.members.node(index));
                    }
                }
            }
        }
    }

    fn flags(&self, ack: bool) -> Flags {
        let end = self.finished && self.is_all_sent();
        Flags { ack, idle_mode: self.bursts.is_idle_mode(), end }
    }

    fn to(&self, context: &Context, target: Target) -> Transmit {
        target.map_or_else(|| context.to_group(), |index| Transmit::now(Dest::Node(self.members.node(index))))
    }

    fn poll_connect(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let index = loop {
            let index = self.connects.pop_first()?;
            // The receiver may have answered an earlier CONNECT meanwhile.
            if !self.channels.channel(index).is_connected {
                break index;
            }
        };
        self.channels.connect(context.now, index);
        let service = self.channels.channel(index).service;
        Packet::Connect { next: wire(self.sent), service, flags: self.flags(false) }
            .emit(context.association, buf);
        context.events.control("connect", self.sent);
        self.ask(context);
        Some(self.to(context, Some(index)))
    }

    /// IDLEs: answers to a RESPOND, flagged ones, and the one that is due by time.
    fn poll_idle(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(index) = self.responds.pop_first() {
            return Some(self.send_idle(context, Some(index), false, buf));
        }
        while let Some(target) = self.poll.due.pop_first() {
            let channel = target.map(|index| self.channels.channel(index));
            if channel.is_some_and(|channel| !channel.is_awaited()) {
                continue;
            }
            // The source retransmits the flagged data. They are no use to a receiver that has them.
            let missing = channel.map_or(self.done, |channel| channel.next);
            let message = self.poll.message.filter(|&number| number >= missing);
            if let Some(number) = message.filter(|&number| self.kept.get(number).is_some()) {
                self.note_retransmission(context, target);
                self.channels.ask(context.now, target, number);
                self.ask(context);
                return Some(self.send_data(context, number, target, (true, true), buf));
            }
            return Some(self.send_idle(context, target, true, buf));
        }
        let confirm = std::mem::take(&mut self.poll.confirm);
        let is_due = std::mem::take(&mut self.idle_due) || confirm;
        is_due.then(|| self.send_idle(context, None, confirm, buf))
    }

    /// Reports the receivers for which a flagged message is retransmitted.
    fn note_retransmission(&self, context: &mut Context, target: Target) {
        for (index, channel) in self.channels.iter() {
            let owes = channel.is_awaited() && channel.owes_since.is_some();
            if owes && target.is_none_or(|target| target == index) {
                context.events.repair_needed(self.members.node(index), 1);
            }
        }
    }

    fn send_idle(&mut self, context: &mut Context, target: Target, ack: bool, buf: &mut Vec<u8>) -> Transmit {
        if ack {
            if target.is_none() {
                self.poll.on_asked(self.sent, None);
                self.idle_due = false;
            }
            self.channels.ask(context.now, target, self.sent);
            self.ask(context);
        }
        Packet::Idle { next: wire(self.sent), flags: self.flags(ack) }.emit(context.association, buf);
        context.events.control("idle", self.sent.saturating_sub(1));
        self.to(context, target)
    }

    fn poll_nak(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let target = self.repairs.due.pop_refusal(context.now)?;
        Packet::Nak { oldest: wire(self.kept.start()) }.emit(context.association, buf);
        context.events.control("nak", self.kept.start());
        Some(self.to(context, target))
    }

    fn poll_repair(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((number, target)) = self.repairs.due.pop(context.now) {
            // The member may have received it meanwhile, or be gone.
            let needs = |channel: &Channel| !channel.is_closed && channel.next <= number;
            let is_needed = target.is_none_or(|index| needs(self.channels.channel(index)));
            let requesters = target.map_or_else(|| self.repairs.take_group(number), |index| vec![index]);
            if is_needed && self.kept.get(number).is_some() {
                for index in requesters {
                    context.events.repair_needed(self.members.node(index), 1);
                }
                return Some(self.send_data(context, number, target, (false, true), buf));
            }
        }
        None
    }

    fn poll_message(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let number = self.sent;
        let first = self.bursts.on_message(context.now);
        let ack = first && !self.bursts.is_idle_mode() && self.channels.awaited() > 0;
        self.sent += 1;
        self.idle_due = false;
        if ack {
            self.poll.on_asked(self.sent, Some(number));
            self.channels.ask(context.now, None, number);
        }
        if let Some(end) = self.bursts.ends_at() {
            context.timers.arm(Timer::BurstEnd, end);
        }
        context.timers.cancel(Timer::Idle);
        if self.bursts.is_idle_mode() && context.timers.armed(Timer::Silence).is_none() {
            context.timers.arm(Timer::Silence, context.now + self.silence());
        }
        let transmit = self.send_data(context, number, None, (ack, false), buf);
        if self.rate.on_sent() {
            self.pace.set_rate(context.now, self.rate.rate());
        }
        self.settle(context);
        Some(transmit)
    }

    fn send_data(
        &mut self,
        context: &mut Context,
        number: u64,
        target: Target,
        (ack, again): (bool, bool),
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let flags = Flags { end: false, ..self.flags(ack) };
        let payload = self.kept.get(number).map_or(&[][..], |payload| payload);
        Packet::Data { sequence: wire(number), flags, payload }.emit(context.association, buf);
        self.pace.spend(context.now, buf.len() as u64);
        context.events.data_sent(self.to(context, target), MessageId(number), buf.len(), again)
    }

    /// Interval of the check in idle mode.
    fn silence(&self) -> Duration {
        self.settings.receiver_idle_interval.max(self.settings.idle_interval)
    }

    fn on_silence(&mut self, context: &mut Context) {
        if !self.bursts.is_idle_mode() || self.is_finished() {
            return;
        }
        let failed = self.channels.silent(self.silence());
        self.fail(context, failed);
        context.timers.arm(Timer::Silence, context.now + self.silence());
        self.settle(context);
    }
}

impl Part for RampSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.kept.len() as u64)
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        self.on_packet(context, datagram.source, &packet);
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::BurstEnd | Timer::Idle => {
                // Idle mode repeats the Idle until the next burst; a finished sender says once that it has ended.
                let is_told = self.is_all_sent() && self.finished && self.poll.covers == Some(self.sent);
                self.idle_due = if timer == Timer::BurstEnd { !is_told } else { !self.is_finished() };
                if self.bursts.is_idle_mode() && !self.is_finished() {
                    context.timers.arm(Timer::Idle, context.now + self.settings.idle_interval);
                }
                self.ask(context);
            }
            Timer::Silence => self.on_silence(context),
            Timer::Response => self.on_response(context),
            Timer::Hold => self.decide(context),
            Timer::Pace => {}
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let control = self.poll_connect(context, buf).or_else(|| self.poll_idle(context, buf));
        let control = control.or_else(|| self.poll_nak(context, buf));
        if control.is_some() {
            return control;
        }
        let is_due = self.sent < self.kept.end().min(self.limit());
        if !is_due && self.repairs.due.is_empty() {
            return None;
        }
        if let Some(at) = self.pace.ready_at(context.now) {
            context.timers.arm(Timer::Pace, at);
            return None;
        }
        if let Some(repair) = self.poll_repair(context, buf) {
            return Some(repair);
        }
        if is_due { self.poll_message(context, buf) } else { None }
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        for (index, channel) in self.channels.iter() {
            let about = self.members.node(index).0.into();
            let of = STATES[0].of;
            if let Some(state) = channel.state() {
                tell(ObservedState { of, about, state, turn: 0 });
            }
        }
    }

    fn offer(&mut self, context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.kept.end() - self.sent >= self.settings.window {
            return Err(OfferError::Full);
        }
        let number = self.kept.push(payload);
        self.settle(context);
        Ok(MessageId(number))
    }

    fn finish(&mut self, context: &mut Context) {
        self.finished = true;
        self.settle(context);
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        if let Some(index) = self.members.index_of(member) {
            self.channels.close(index);
            self.settle(context);
        }
    }

    fn awaits(&self, _context: &Context, member: NodeId) -> bool {
        let blocked = self.sent < self.kept.end();
        let channel = self.members.index_of(member).map(|index| self.channels.channel(index));
        channel.filter(|channel| channel.is_awaited()).is_some_and(|channel| {
            (self.done < self.sent && channel.next <= self.done) || (blocked && channel.limit <= self.sent)
        })
    }

    fn acknowledged(&self, _context: &Context, member: NodeId) -> Option<u64> {
        self.members.index_of(member).map(|index| self.channels.channel(index).next)
    }

    fn is_finished(&self) -> bool {
        self.finished && self.is_all_sent() && self.done == self.sent
    }
}

/// Depth of the pacing token bucket: the burst that may leave at once.
const PACING_BURST: Duration = Duration::from_millis(2);
