//! Calls of the host to an XTP sender.

use bytes::Bytes;
use carillon_core::{
    DropReason, Event, MessageId, NodeId, ObservedState, OfferError, Outcome, Received, Role, Transmit,
};
use carillon_wire::xtp::{Body, Common, HEADER_LEN, Packet, RTN, option};

use super::{Context, Notice, Phase, Timer, XtpSender};
use crate::blocks::Part;
use crate::protocols::xtp::config::{ErrorControl, FIRST_LEN, Paradigm};
use crate::protocols::xtp::states;

impl Part for XtpSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let parsed = Packet::parse(datagram.bytes).map(|packet| (packet.association(), packet));
        let (association, packet) = match parsed {
            Ok((Some(association), packet)) => (association, packet),
            Ok((None, _)) => return context.events.dropped(DropReason::Foreign),
            Err(_) => return context.events.dropped(DropReason::Malformed),
        };
        if association != context.association || packet.key & RTN == 0 {
            return context.events.dropped(DropReason::Foreign);
        }
        if let Body::Jcntl(handover, ..) = packet.body {
            return self.on_join(context, datagram.source, handover);
        }
        let Some(index) = self.group.index_of(datagram.source) else {
            if self.group.was_abandoned(datagram.source) {
                self.queue_notice(datagram.source, Notice::Abandoned);
            } else if self.group.is_optional(datagram.source) {
                self.queue_notice(datagram.source, Notice::NotDemanded);
                return context.received(packet.name(), 0);
            }
            return context.events.dropped(DropReason::NotAMember);
        };
        let Some(status) = self.response(&packet).or_else(|| packet.status()) else {
            return context.events.dropped(DropReason::Foreign);
        };
        let key = match packet.body {
            Body::Tcntl(handover, _) => Some(handover.xkey),
            _ => None,
        };
        let known = match key {
            // A receiver has one context per association; another key means that it lost the first.
            Some(key) => self.phase != Phase::Quiescent && self.group.on_key(index, key),
            // Receivers of single messages keep no context and no key.
            None if self.is_single() => self.phase != Phase::Quiescent,
            None => self.group.context(index).key.is_some(),
        };
        match known {
            true if packet.has(option::END) && !self.is_single() => self.on_leave(context, index),
            true => self.on_status(context, index, &packet, status),
            false => context.events.dropped(DropReason::Foreign),
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Wtimer => self.on_wtimer(context),
            Timer::Ctimeout => self.on_ctimeout(context),
            Timer::Ctimer => {
                context.events.push(Event::TimerFired { timer: "ctimer" });
                if self.phase == Phase::Active {
                    self.phase = Phase::Handshake(self.sync + 1);
                    self.group.mark_received(context.now);
                    context.timers.arm(Timer::Ctimeout, context.now + self.settings.ctimeout);
                    self.request_due = true;
                }
                self.arm_ctimer(context);
            }
            Timer::Pace => {}
            Timer::Group => {
                self.after_answer(context);
                self.advance(context);
            }
            Timer::Pause => {
                self.request_due = self.phase == Phase::Active;
                // A receiver that is complete or has no room reports again only after its user has read data.
                match self.is_single() {
                    true => self.expiries = self.expiries.saturating_add(1),
                    false => self.pauses = self.pauses.saturating_add(1),
                }
            }
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(transmit) = self.put_notice(context, buf) {
            return Some(transmit);
        }
        if std::mem::take(&mut self.end_due) {
            let options = option::WCLOSE | option::RCLOSE | option::END;
            let end = self.stream.start();
            self.emit(options, end, Body::Cntl(Common::default()), buf);
            context.control("cntl", self.stream.messages_before(end));
            return Some(Transmit::now(self.dest(context)));
        }
        if self.request_due {
            return Some(self.put_request(context, buf));
        }
        if self.phase != Phase::Active {
            return None;
        }
        let number = self.stream.next().filter(|&number| self.has_room(number))?;
        if let Some(at) = self.settings.pace.ready_at(context.now) {
            context.timers.arm(Timer::Pace, at);
            return None;
        }
        let transmit = match self.is_single() {
            true => self.put_single(context, number, buf),
            false => self.put_data(context, number, buf),
        };
        self.arm_pause_timer(context);
        self.settings.pace.spend(context.now, buf.len() as u64);
        if self.settings.errors == ErrorControl::Off {
            self.advance(context);
        }
        Some(transmit)
    }

    fn offer(&mut self, context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        let is_full = match self.settings.send_buffer {
            // A call waits until the group is known and the buffer has room. A message longer than the buffer waits
            // until it is alone.
            Some(most) => {
                let held = self.stream.end() - self.stream.start();
                self.phase == Phase::Opening || (held > 0 && held + payload.len() as u64 > most)
            }
            None => self.stream.unsent() >= self.settings.calls,
        };
        if is_full {
            return Err(OfferError::Full);
        }
        let max = self.settings.maxdata;
        if self.is_single() && payload.len() > max {
            return Err(OfferError::TooLarge { len: payload.len(), max });
        }
        // Leave room for the segments of FIRST.
        let is_first = self.settings.data_in_first && self.stream.end() == 0 && !self.is_single();
        let most = if is_first { max.saturating_sub(FIRST_LEN - HEADER_LEN).max(1) } else { max };
        let number = self.stream.offer(&payload, most);
        if self.is_single() {
            self.phase = if self.phase == Phase::Quiescent { Phase::Active } else { self.phase };
        } else if self.phase == Phase::Quiescent && self.group.rseq().is_some() {
            self.phase = Phase::Opening;
            self.opened_at = context.now;
            self.group.mark_received(context.now);
            context.timers.arm(Timer::Ctimeout, context.now + self.settings.ctimeout);
            self.request_due = true;
            self.arm_ctimer(context);
        }
        // Without active receivers every message is complete at once.
        self.advance(context);
        Ok(MessageId(number))
    }

    fn finish(&mut self, context: &mut Context) {
        self.finished = true;
        self.advance(context);
    }

    fn advance(&mut self, context: &mut Context) {
        let all = self.group.rseq().unwrap_or(self.stream.end());
        let sent = if self.settings.errors == ErrorControl::Off { self.stream.sent_end() } else { 0 };
        let base = all.max(sent);
        while let Some((number, message)) = self.stream.complete(base) {
            let outcome = if self.skipped { Outcome::Failed } else { Outcome::Acknowledged };
            if self.is_confirmed {
                context.events.completed(MessageId(number), outcome, message.window.unwrap_or(0));
            }
            if self.is_single() {
                self.expiries = 0;
                self.end_due = self.settings.paradigm == Paradigm::Transaction && self.group.rseq().is_some();
            }
        }
        if self.finished && self.stream.is_empty() && self.phase != Phase::Inactive {
            if !self.is_single() {
                self.end_due = self.phase != Phase::Quiescent && self.group.rseq().is_some();
            }
            self.phase = Phase::Inactive;
            self.request_due = false;
            context.timers.clear();
        }
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        if let Some(index) = self.group.index_of(member)
            && self.group.remove(index)
        {
            self.settle(context);
        }
    }

    fn awaits(&self, _context: &Context, member: NodeId) -> bool {
        let Some(index) = self.group.index_of(member) else { return false };
        let build = self.group.context(index);
        match self.phase {
            Phase::Opening => build.key.is_none(),
            _ => {
                let next = self.stream.next().and_then(|number| self.stream.piece(number));
                let flow = self.settings.flow && self.settings.errors != ErrorControl::Off;
                let has_no_room = next.is_some_and(|piece| piece.times == 0 && build.alloc < piece.end());
                let oldest = self.stream.oldest();
                let lacks = oldest.is_some_and(|oldest| oldest.window.is_some() && build.rseq < oldest.end);
                lacks || (flow && has_no_room)
            }
        }
    }

    fn acknowledged(&self, _context: &Context, member: NodeId) -> Option<u64> {
        let index = self.group.index_of(member)?;
        Some(self.stream.messages_before(self.group.context(index).rseq))
    }

    fn is_finished(&self) -> bool {
        self.finished && self.stream.is_empty()
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        if self.is_single() {
            let (state, turn) = match self.phase {
                _ if self.settings.paradigm == Paradigm::Datagram => return,
                Phase::Inactive => return,
                _ if self.awaits_answers() => ("Awaiting", u64::from(self.expiries)),
                _ => ("Idle", 0),
            };
            return tell(ObservedState { of: states::SINGLE_SENDER.of, about: 0, state, turn });
        }
        let (state, turn) = match self.phase {
            Phase::Quiescent => ("Quiescent", 0),
            Phase::Opening => ("Opening", u64::from(self.expiries)),
            Phase::Active => ("Active", 0),
            Phase::Handshake(_) => ("Handshake", u64::from(self.expiries)),
            Phase::Inactive => return,
        };
        tell(ObservedState { of: states::SENDER, about: 0, state, turn });
    }
}
