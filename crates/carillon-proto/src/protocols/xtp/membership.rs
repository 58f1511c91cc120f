//! Membership of a group: late joins, leaving, and receivers that need not receive everything.
//!
//! The three-way join is that of XTP 4.0b: JCNTL of the joining receiver, JCNTL with its starting point in the
//! stream, and CNTL.

use carillon_core::{Dest, DropReason, Event, NodeId, Note, Transmit, Value};
use carillon_wire::xtp::{Address, Body, Common, Diag, Handover, Packet, Rates, Traffic, option};

use super::config::ErrorControl;
use super::receiver::{Answer, Open, Timer, XtpReceiver};
use super::sender::{Notice, Phase, XtpSender};

impl XtpSender {
    /// Queues a notice to a node, replacing an earlier one.
    pub(super) fn queue_notice(&mut self, node: NodeId, notice: Notice) {
        if let Some((_, old)) = self.notices.iter_mut().find(|(to, _)| *to == node) {
            *old = notice;
        } else if self.notices.len() < MAX_NOTICES {
            self.notices.push((node, notice));
        }
    }

    /// Emits the next notice.
    pub(super) fn put_notice(
        &mut self,
        context: &mut super::sender::Context,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let (node, notice) = self.notices.pop()?;
        let end = self.stream.sent_end();
        let diag = |code, value| Body::Diag(Diag { code, value, text: b"" });
        let not_demanded = if self.group.is_optional(node) { option::NOERR } else { 0 };
        let (name, options, seq, body) = match notice {
            Notice::Abandoned => ("diag", option::END, end, diag(Diag::CONTEXT_ABANDONED, Diag::UNSPECIFIED)),
            Notice::Refused => ("diag", option::END, end, diag(Diag::JOIN_REFUSED, Diag::JOIN_DENIED)),
            Notice::NotDemanded => ("cntl", option::NOERR, end, Body::Cntl(Common::default())),
            Notice::Joined(xkey) => {
                let handover = Handover { common: Common::default(), xkey };
                // A repeated request gets the same starting point.
                let from = self.group.member_index(node).filter(|_| not_demanded == 0);
                let from =
                    from.map_or(self.stream.next_message_start(), |index| self.group.context(index).rseq);
                ("jcntl", not_demanded, from, Body::Jcntl(handover, self.address, self.traffic()))
            }
        };
        self.emit(options, seq, body, buf);
        context.control(name, 0);
        Some(Transmit::now(Dest::Node(node)))
    }

    /// Handles a join request (JCNTL): the receiver gets messages that are not yet being sent.
    pub(super) fn on_join(&mut self, context: &mut super::sender::Context, node: NodeId, handover: Handover) {
        let is_open = !matches!(self.phase, Phase::Quiescent | Phase::Inactive);
        let Some(place) = self.group.member_index(node).filter(|_| is_open && self.settings.late_join) else {
            if is_open {
                self.queue_notice(node, Notice::Refused);
            }
            return context.events.dropped(DropReason::NotAMember);
        };
        context.received("jcntl", 0);
        self.queue_notice(node, Notice::Joined(handover.xkey));
        let is_known = self.group.context(place).key == Some(handover.xkey);
        if self.group.is_optional(node) || (is_known && self.group.index_of(node).is_some()) {
            return;
        }
        let from = self.stream.next_message_start();
        self.group.admit(place, handover.xkey, from, self.settings.room, self.sync, context.now);
        context.events.push(Event::MemberJoined { member: node });
        // The new context forgets what the old one received or missed.
        self.settle(context);
    }

    /// Handles the END of a receiver that leaves.
    pub(super) fn on_leave(&mut self, context: &mut super::sender::Context, index: usize) {
        let node = self.group.node(index);
        let fields = vec![("member", Value::Count(node.0.into()))];
        context.events.push(Event::Note(Box::new(Note { name: "left", fields })));
        self.group.remove(index);
        context.events.member_lost(node);
        self.settle(context);
    }
}

impl XtpReceiver {
    /// Handles a packet of an association that FIRST has not opened here.
    pub(super) fn on_unopened(&mut self, context: &mut super::receiver::Context, packet: &Packet<'_>) {
        match packet.body {
            Body::Jcntl(handover, _, traffic) if handover.xkey == self.own_key => {
                context.received("jcntl", 0);
                context.timers.cancel(Timer::Join);
                self.open = Some(Open::of(&traffic));
                self.stream.start_at(packet.seq);
                self.echo = packet.sync;
                self.alloc = packet.seq.saturating_add(self.settings.room);
                if packet.has(option::NOERR) {
                    self.is_optional_member = true;
                } else {
                    self.answer = Some(Answer::Status);
                }
            }
            // The join was refused.
            Body::Diag(_) => {
                context.received("diag", 0);
                context.timers.cancel(Timer::Join);
                self.is_abandoned = true;
            }
            Body::Data(_) | Body::First(..) | Body::Cntl(_) if !packet.has(option::END) => {
                context.received(packet.name(), 0);
                if context.timers.armed(Timer::Join).is_none() {
                    self.joins = 0;
                    self.ask_to_join(context);
                }
            }
            _ => context.events.dropped(DropReason::Foreign),
        }
    }

    /// Sends a join request, and repeats it after WTIMER.
    pub(super) fn ask_to_join(&mut self, context: &mut super::receiver::Context) {
        if self.open.is_some() || self.is_abandoned || self.joins >= MAX_JOIN_ATTEMPTS {
            return;
        }
        self.joins += 1;
        self.answer = Some(Answer::Join);
        context.timers.arm(Timer::Join, context.now + self.settings.wtimer);
    }

    /// Emits a join request (JCNTL).
    pub(super) fn put_join(&self, context: &mut super::receiver::Context, buf: &mut Vec<u8>) {
        let common = Common { rseq: 0, alloc: self.settings.room, echo: self.echo };
        let traffic = Traffic::rates(self.settings.service, Rates::default());
        let body = Body::Jcntl(Handover { common, xkey: self.own_key }, Address::NULL, traffic);
        let name = self.emit(0, 0, 0, body, buf);
        context.control(name, 0);
    }

    /// Handles the notice that this receiver is not demanded: it no longer asks for repairs.
    pub(super) fn on_not_demanded(&mut self) {
        if !std::mem::replace(&mut self.is_optional_member, true) {
            let next = self.stream.next();
            self.stream = self.fresh_stream();
            self.stream.start_at(next);
            (self.reported_gap, self.status_when_read) = (None, None);
        }
    }

    /// Returns true if losses here cause no retransmission.
    pub(super) fn is_unrepaired(&self) -> bool {
        self.is_optional_member || self.settings.errors == ErrorControl::Off
    }

    /// Leaves the association after the user has read enough.
    pub(super) fn leave(&mut self) {
        self.has_left = true;
        self.answer = Some(Answer::End);
    }

    /// Handles the status of another receiver about a gap (damping): suppresses the pending own one if this receiver
    /// misses nothing that the other has.
    pub(super) fn on_overheard_status(
        &mut self,
        context: &mut super::receiver::Context,
        packet: &Packet<'_>,
    ) {
        let Some(status) = packet.status().filter(|_| packet.has(option::FASTNAK)) else {
            return context.events.dropped(DropReason::Foreign);
        };
        context.received(packet.name(), self.messages);
        let theirs: Vec<(u64, u64)> = match packet.body {
            Body::Ecntl(_, spans) => spans.iter().collect(),
            _ => Vec::new(),
        };
        let own: Vec<(u64, u64)> = self.stream.spans().collect();
        let next = self.stream.next();
        let has =
            |&(left, right): &(u64, u64)| right <= next || own.iter().any(|&(l, r)| l <= left && right <= r);
        let ends = |spans: &[(u64, u64)]| spans.last().map(|span| span.1);
        // Go-back-N resends everything from the other's gap on; selective retransmission resends gaps before its last
        // span only.
        let covers = match self.settings.errors {
            ErrorControl::Selective => theirs.iter().all(has) && ends(&theirs) >= ends(&own),
            _ => true,
        };
        if self.slotted == Some(Answer::Nak) && status.rseq <= next && status.echo >= self.echo && covers {
            self.slotted = None;
            context.timers.cancel(Timer::Slot);
            context.events.push(Event::RequestSuppressed { message: self.messages.into() });
        }
    }
}

/// Maximum number of nodes with a pending notice; further ones are dropped.
const MAX_NOTICES: usize = 64;
/// Maximum number of join attempts before the next packet triggers another one.
const MAX_JOIN_ATTEMPTS: u32 = 20;
