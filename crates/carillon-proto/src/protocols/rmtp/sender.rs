//! RMTP sender: the acknowledgment processor at the root of the tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Dest, DropReason, HelperTable, MessageId, NodeId, ObservedState,
    OfferError, Outcome, Received, Role, Time, Transmit,
};
use carillon_wire::rmtp::{Ack, Packet};

use super::config::Settings;
use super::processor::{Processor, RepairTarget};
use crate::blocks::{FixedWindow, FlowControl, Numbered, Part, Player, wire};

type Context = crate::blocks::MachineContext<Timer>;

/// Sends new messages at periodic opportunities, as many as the congestion window holds, and repairs for its
/// children.
#[derive(Debug)]
pub struct RmtpSender {
    settings: Settings,
    table: Arc<HelperTable>,
    processor: Processor,
    /// Messages kept for repairs, from the first that may be missing below.
    kept: Numbered<Bytes>,
    sent: u64,
    finished: bool,
    /// Number after the last message that may have been skipped for a child.
    skipped: u64,
    opportunity: Opportunity,
    /// RTT_ACKs to send: node and echoed timestamp.
    rtt_acks: BTreeMap<NodeId, u64>,
    sap_due: bool,
}

/// Periodic opportunity to send (T_send), with its congestion window.
#[derive(Debug)]
struct Opportunity {
    /// Congestion window, in messages.
    window: u64,
    left: u64,
    next: Time,
}

/// Timers of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Next opportunity to send (T_send).
    Send,
    /// Repairs of requested messages (T_retx).
    Retx,
    /// Check of the children's progress.
    Check,
    /// Next offer to serve as acknowledgment processor (SND_ACK_TOME).
    Sap,
}

impl RmtpSender {
    /// Creates the sender of a session.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config)?;
        let children = build.helpers.children_of_sender(&build.members);
        Ok(RmtpSender {
            processor: Processor::new(&settings, &build.members, children),
            table: build.helpers.clone(),
            kept: Numbered::default(),
            sent: 0,
            finished: false,
            skipped: 0,
            opportunity: Opportunity { window: 1, left: 0, next: Time::ZERO },
            rtt_acks: BTreeMap::new(),
            sap_due: false,
            settings,
        }
        .play(build))
    }

    fn on_ack(&mut self, context: &mut Context, from: NodeId, ack: &Ack<'_>, at_once: bool) {
        let kept = &self.kept;
        let bounds = (self.sent, self.sent);
        match self.processor.on_ack(context.now, from, ack, bounds, |number| kept.get(number).is_some()) {
            Ok(next) => {
                context.events.received(if at_once { "ack_txnow" } else { "ack" }, next.saturating_sub(1));
                if at_once {
                    self.processor.repair_at_once(from);
                }
                if self.processor.has_requests() && context.timers.armed(Timer::Retx).is_none() {
                    context.timers.arm(Timer::Retx, context.now + self.settings.t_retx);
                }
                self.settle(context);
            }
            Err(reason) => context.events.dropped(reason),
        }
    }

    fn settle(&mut self, context: &mut Context) {
        let base = self.processor.settle(self.sent);
        while self.kept.start() < base {
            let Some((number, _)) = self.kept.pop() else { break };
            let outcome = if number < self.skipped { Outcome::Failed } else { Outcome::Acknowledged };
            context.events.completed(MessageId(number), outcome, 1);
        }
        match self.processor.is_behind(self.sent) {
            false => _ = context.timers.cancel(Timer::Check),
            true if context.timers.armed(Timer::Check).is_none() => {
                context.timers.arm(Timer::Check, context.now + self.settings.t_ack);
            }
            true => {}
        }
    }

    fn check(&mut self, context: &mut Context) {
        let RmtpSender { processor, table, kept, sent, .. } = self;
        let holds = |number: u64| kept.get(number).is_some();
        let (lost, skipped) = processor.check(*sent, |node| table.is_helper(node), holds);
        if skipped {
            self.skipped = self.sent;
        }
        lost.into_iter().for_each(|node| context.events.member_lost(node));
        self.settle(context);
    }

    /// Number after the last message that the window and the children's buffers admit.
    fn limit(&self) -> u64 {
        let window = FixedWindow(self.settings.window);
        let window = self.processor.next().map_or(u64::MAX, |next| window.limit(next));
        window.min(self.processor.limit().unwrap_or(u64::MAX))
    }

    fn poll_rtt_ack(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (node, timestamp) = self.rtt_acks.pop_first()?;
        Packet::RttAck { timestamp }.emit(context.association, buf);
        context.events.control("rtt_ack", 0_u64);
        Some(Transmit::now(Dest::Node(node)))
    }

    fn poll_sap(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !std::mem::take(&mut self.sap_due) {
            return None;
        }
        Packet::SndAckTome { oldest: wire(self.kept.start()) }.emit(context.association, buf);
        context.events.control("snd_ack_tome", self.kept.start());
        Some(Transmit::now(Dest::Group { group: context.group, scope: self.settings.sap_scope }))
    }

    fn poll_repair(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let kept = &self.kept;
        let (number, to) = self.processor.next_repair(context.now, |number| kept.get(number).is_some())?;
        let dest = match to {
            RepairTarget::Group => Dest::group(context.group),
            RepairTarget::Node(node) => Dest::Node(node),
        };
        Some(self.send(context, number, Transmit::now(dest), true, buf))
    }

    fn poll_message(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let number = self.sent;
        if number >= self.kept.end().min(self.limit()) {
            return None;
        }
        let opportunity = &mut self.opportunity;
        // Slow start of RMTP: the window grows by one each interval and falls to one when many repairs were
        // requested.
        if opportunity.left == 0 {
            if context.now < opportunity.next {
                context.timers.arm(Timer::Send, opportunity.next);
                return None;
            }
            opportunity.window = match self.processor.take_requests() > self.settings.congestion_thresh {
                true => 1,
                false => (opportunity.window + 1).min(self.settings.window),
            };
            opportunity.left = opportunity.window;
            opportunity.next = context.now + self.settings.t_send;
        }
        opportunity.left -= 1;
        self.sent += 1;
        self.processor.on_passed(context.now, number);
        let transmit = self.send(context, number, context.to_group(), false, buf);
        // Without children every message is stable at once.
        self.settle(context);
        Some(transmit)
    }

    fn send(
        &mut self,
        context: &mut Context,
        number: u64,
        to: Transmit,
        again: bool,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let payload = self.kept.get(number).map_or(&[][..], |payload| payload);
        let oldest = wire(self.kept.start());
        Packet::Data { sequence: wire(number), oldest, payload }.emit(context.association, buf);
        context.events.data_sent(to, MessageId(number), buf.len(), again)
    }
}

impl Part for RmtpSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.kept.len() as u64)
    }

    fn start(&mut self, context: &mut Context) {
        if self.settings.nearest {
            self.sap_due = true;
            context.timers.arm(Timer::Sap, context.now + self.settings.t_sap);
        }
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::Ack(ack) => self.on_ack(context, datagram.source, &ack, false),
            Packet::AckTxnow(ack) => self.on_ack(context, datagram.source, &ack, true),
            Packet::RttMeasure { timestamp } if self.processor.may_report(datagram.source) => {
                context.events.received("rtt_measure", 0_u64);
                self.rtt_acks.insert(datagram.source, timestamp);
            }
            Packet::RttMeasure { .. } => context.events.dropped(DropReason::NotAMember),
            _ => context.events.dropped(DropReason::Foreign),
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Send => {}
            Timer::Retx => self.processor.on_retx(),
            Timer::Check => self.check(context),
            Timer::Sap => {
                self.sap_due = true;
                context.timers.arm(Timer::Sap, context.now + self.settings.t_sap);
            }
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.poll_rtt_ack(context, buf)
            .or_else(|| self.poll_sap(context, buf))
            .or_else(|| self.poll_repair(context, buf))
            .or_else(|| self.poll_message(context, buf))
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        self.processor.report_states(self.sent, tell);
    }

    fn offer(&mut self, _context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        let unsent = self.kept.end() - self.sent;
        if self.kept.len() as u64 >= self.settings.cache || unsent >= self.settings.window {
            return Err(OfferError::Full);
        }
        Ok(MessageId(self.kept.push(payload)))
    }

    fn finish(&mut self, _context: &mut Context) {
        self.finished = true;
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        self.processor.expel(member, self.table.is_helper(member));
        self.settle(context);
    }

    fn update_helpers(&mut self, context: &mut Context, table: &Arc<HelperTable>) {
        if table.edition() > self.table.edition() {
            self.table = table.clone();
            self.processor
                .set_children(table.children_of_sender(&context.nodes), |node| table.is_helper(node));
            self.settle(context);
        }
    }

    fn awaits(&self, _context: &Context, member: NodeId) -> bool {
        let blocked = self.sent < self.kept.end();
        self.processor.awaits(member, self.sent) || (blocked && self.processor.is_full(member, self.sent))
    }

    fn acknowledged(&self, _context: &Context, member: NodeId) -> Option<u64> {
        self.processor.has(member)
    }

    fn is_finished(&self) -> bool {
        self.finished && self.kept.is_empty()
    }
}
