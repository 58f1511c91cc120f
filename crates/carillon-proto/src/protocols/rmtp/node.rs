//! RMTP below the sender: a receiver, a designated receiver, or a helper that only repairs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, Dest, Draws, DropReason, Event, HelperTable, MessageId,
    NodeId, ObservedState, Received, Rng, Role, Time, Transmit,
};
use carillon_wire::map::{MAX_WORDS, Map};
use carillon_wire::rmtp::{Ack, HEADER_LEN, Packet};

use super::config::Settings;
use super::processor::{Processor, RepairTarget};
use super::selector::ProcessorSelector;
use crate::blocks::{Arrival, KeptWindow, Part, Player, RoundTrip, near, wire};

type Context = crate::blocks::MachineContext<Timer>;

/// Acknowledges periodically and, if designated, repairs for the nodes that report to it.
#[derive(Debug)]
pub struct RmtpNode {
    settings: Settings,
    node: NodeId,
    table: Arc<HelperTable>,
    delivers: bool,
    window: KeptWindow,
    /// Acknowledgment processor, if the node is designated.
    processor: Option<Box<Processor>>,
    selector: ProcessorSelector,
    /// Number after the newest message known to exist.
    known_end: u64,
    /// Oldest message that the sender still keeps.
    oldest: u64,
    rtt: RoundTrip,
    measured: bool,
    /// Status in the last acknowledgment: next message, known end, stable prefix.
    last_status: (u64, u64, u64),
    unchanged_acks: u32,
    due: Due,
    /// Acknowledgments since the last report to the session's parent, while another processor serves this node.
    acks_since_parent_report: u32,
    rtt_acks: BTreeMap<NodeId, u64>,
    draws: Draws,
    map: Vec<u8>,
}

/// Packets due to be sent.
#[derive(Debug, Default)]
struct Due {
    ack: bool,
    /// Report to the session's parent, while another processor serves this node.
    parent_report: bool,
    measure: bool,
    sap: bool,
}

/// Timers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Next acknowledgment (T_ack).
    Ack,
    /// Next measurement of the round-trip time (T_rtt).
    Rtt,
    /// Repairs of requested messages (T_retx).
    Retx,
    /// Check of the children's progress.
    Check,
    /// Next offer to serve as acknowledgment processor (SND_ACK_TOME).
    Sap,
}

impl RmtpNode {
    /// Creates a receiver or helper of a session.
    pub fn new(role: Role, build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config)?;
        let helps = role == Role::Helper || build.helpers.is_helper(build.node);
        let children = build.helpers.children(build.node);
        let keep = if helps { settings.cache } else { settings.window };
        let keep = build.max_messages(keep);
        Ok(RmtpNode {
            node: build.node,
            table: build.helpers.clone(),
            delivers: role == Role::Receiver,
            window: KeptWindow::new(keep, if helps { keep as usize } else { 0 }, false),
            processor: helps.then(|| Box::new(Processor::new(&settings, &build.members, children))),
            selector: ProcessorSelector::new(settings.t_sap * 3),
            known_end: 0,
            oldest: 0,
            rtt: RoundTrip::default(),
            measured: false,
            last_status: (0, 0, 0),
            unchanged_acks: 0,
            due: Due::default(),
            acks_since_parent_report: 0,
            rtt_acks: BTreeMap::new(),
            draws: build.seeds.draws("rmtp.ack"),
            map: Vec::new(),
            settings,
        }
        .play(build))
    }

    /// Parent in the session's table, or the sender.
    fn parent(&self, context: &Context) -> NodeId {
        self.table.parent(self.node).unwrap_or(context.sender)
    }

    /// Acknowledgment processor that this node reports to. A repairing node always reports to its parent, so that no
    /// cycle can form.
    fn reports_to(&self, context: &Context) -> NodeId {
        let parent = self.parent(context);
        if self.processor.is_some() { parent } else { self.selector.processor(parent) }
    }

    /// Minimum acknowledgment interval: T_ack, or the round-trip time if that is longer.
    fn interval(&self) -> Duration {
        self.settings.t_ack.max(self.rtt.timeout().unwrap_or_default())
    }

    /// Time to the next acknowledgment. Doubles up to `k_max` intervals while the status does not change.
    fn ack_interval(&self) -> Duration {
        self.interval() * 2_u32.saturating_pow(self.unchanged_acks).min(self.settings.k_max)
    }

    /// Ends the back-off of acknowledgments: new data must be acknowledged within one interval.
    fn on_progress(&mut self, context: &mut Context) {
        let at = context.now + self.interval();
        if std::mem::take(&mut self.unchanged_acks) > 0
            && context.timers.armed(Timer::Ack).is_none_or(|then| then > at)
        {
            context.timers.arm(Timer::Ack, at);
        }
    }

    fn on_data(&mut self, context: &mut Context, sequence: u32, oldest: u32, payload: Bytes) {
        // New data ends the back-off of acknowledgments.
        self.on_progress(context);
        let expected = self.window.expected();
        let number = near(sequence, expected);
        let oldest = near(oldest, number);
        if number.abs_diff(oldest) > MAX_SEQUENCE_SPAN {
            return context.events.dropped(DropReason::Malformed);
        }
        // The sender keeps nothing before `oldest`: skip what is missing there.
        self.oldest = self.oldest.max(oldest);
        self.skip(context);
        self.known_end = self.known_end.max(number + 1);
        if number >= self.room() {
            return context.events.dropped(DropReason::BufferFull);
        }
        match self.window.insert(number, payload) {
            Arrival::Duplicate => return context.events.dropped(DropReason::Duplicate),
            Arrival::NoRoom => return context.events.dropped(DropReason::BufferFull),
            Arrival::New => context.events.received("data", number),
        }
        // Children that do not report this message later have lost it.
        if let Some(processor) = &mut self.processor {
            processor.on_passed(context.now, number);
        }
        self.advance(context);
        while let Some(gap) = self.window.take_gap() {
            gap.for_each(|missing| context.events.loss_found(context.sender, missing));
        }
        self.settle(context);
    }

    /// Skips missing messages that the sender no longer keeps.
    fn skip(&mut self, context: &mut Context) {
        let Some((skipped, _)) = self.window.skip_to(self.oldest) else { return };
        context.unrecoverable(None, skipped.range.start, skipped.lost());
        for (number, _) in &skipped.survivors {
            self.delivered(context, *number);
        }
        self.advance(context);
    }

    fn advance(&mut self, context: &mut Context) {
        while let Some(number) = self.window.advance() {
            self.delivered(context, number);
        }
    }

    fn delivered(&mut self, context: &mut Context, number: u64) {
        match self.delivers {
            true => {
                context.events.push(Event::Delivered { source: context.sender, message: MessageId(number) })
            }
            // A helper has no application: discard the delivery and keep the message for repairs only.
            false => _ = self.window.fetch(),
        }
    }

    /// Prefix of messages that this node and all nodes below it hold.
    fn stable(&self) -> u64 {
        let expected = self.window.expected();
        self.processor.as_ref().map_or(expected, |processor| processor.base().min(expected))
    }

    /// First message beyond the window and the cache of this node.
    fn room(&self) -> u64 {
        let kept =
            self.processor.as_ref().map_or(u64::MAX, |processor| processor.base() + self.settings.cache);
        self.window.limit().min(kept)
    }

    fn on_ack(&mut self, context: &mut Context, from: NodeId, ack: &Ack<'_>, at_once: bool) {
        let RmtpNode { processor, window, known_end, .. } = self;
        let Some(processor) = processor else { return context.events.dropped(DropReason::NotAMember) };
        let holds = |number| window.message(number).is_some();
        // A child may know newer messages than this node, so its acknowledgment has no upper bound.
        match processor.on_ack(context.now, from, ack, (*known_end, u64::MAX), holds) {
            Ok(next) => {
                context.events.received(if at_once { "ack_txnow" } else { "ack" }, next.saturating_sub(1));
                if at_once {
                    processor.repair_at_once(from);
                }
                if processor.has_requests() && context.timers.armed(Timer::Retx).is_none() {
                    context.timers.arm(Timer::Retx, context.now + self.settings.t_retx);
                }
                self.settle(context);
            }
            Err(reason) => context.events.dropped(reason),
        }
    }

    fn settle(&mut self, context: &mut Context) {
        let Some(processor) = &mut self.processor else { return };
        processor.settle(self.window.expected());
        match processor.is_behind(self.known_end) {
            false => _ = context.timers.cancel(Timer::Check),
            true if context.timers.armed(Timer::Check).is_none() => {
                context.timers.arm(Timer::Check, context.now + self.settings.t_ack);
            }
            true => {}
        }
    }

    fn check(&mut self, context: &mut Context) {
        let RmtpNode { processor, window, known_end, table, .. } = self;
        let Some(processor) = processor else { return };
        let holds = |number| window.message(number).is_some();
        let (lost, _) = processor.check(*known_end, |node| table.is_helper(node), holds);
        lost.into_iter().for_each(|node| context.events.member_lost(node));
        self.settle(context);
    }

    fn on_rtt_ack(&mut self, context: &mut Context, from: NodeId, timestamp: u64) {
        let sent = Time::from_nanos(timestamp);
        if from != self.reports_to(context) || sent > context.now || context.now.since(sent) > MAX_ROUND_TRIP
        {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        context.events.received("rtt_ack", 0_u64);
        self.rtt.on_sample(context.now.since(sent));
        self.measured = true;
    }

    /// Selects the nearest acknowledgment processor, and restarts the RTT estimator if it changed.
    fn choose(&mut self, context: &Context) {
        let (parent, expected) = (self.parent(context), self.window.expected());
        if self.selector.choose(context.now, expected, parent) {
            (self.rtt, self.measured) = (RoundTrip::default(), false);
        }
    }

    fn poll_ack(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (to, parent) = (self.reports_to(context), self.parent(context));
        let served = if std::mem::take(&mut self.due.ack) {
            false
        } else if std::mem::take(&mut self.due.parent_report) && to != parent {
            true
        } else {
            return None;
        };
        let next = self.window.expected();
        let (stable, processor) = (self.stable(), self.processor.as_deref());
        let limit = processor.and_then(Processor::limit).unwrap_or(u64::MAX);
        let limit = self.room().min(limit).max(next);
        self.map.clear();
        self.window.early().map(MAX_WORDS, |word| Map::push(word, &mut self.map));
        let span = if self.measured { self.interval() } else { INITIAL_ROUND_TRIP };
        let span = u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        let received = Map::new(&self.map);
        let ack = Ack { next: wire(next), stable: wire(stable), limit: wire(limit), span, served, received };
        // More than a window behind: request immediate repairs (ACK_TXNOW).
        let (packet, name) = match self.known_end.saturating_sub(next) > self.settings.window {
            true => (Packet::AckTxnow(ack), "ack_txnow"),
            false => (Packet::Ack(ack), "ack"),
        };
        packet.emit(context.association, buf);
        context.events.control(name, next.saturating_sub(1));
        Some(Transmit::now(Dest::Node(if served { parent } else { to })))
    }

    fn poll_control(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some((node, timestamp)) = self.rtt_acks.pop_first() {
            Packet::RttAck { timestamp }.emit(context.association, buf);
            context.events.control("rtt_ack", 0_u64);
            return Some(Transmit::now(Dest::Node(node)));
        }
        if std::mem::take(&mut self.due.measure) {
            Packet::RttMeasure { timestamp: context.now.as_nanos() }.emit(context.association, buf);
            context.events.control("rtt_measure", 0_u64);
            return Some(Transmit::now(Dest::Node(self.reports_to(context))));
        }
        if std::mem::take(&mut self.due.sap) {
            let oldest = self.processor.as_deref().map_or(0, Processor::base);
            Packet::SndAckTome { oldest: wire(oldest) }.emit(context.association, buf);
            context.events.control("snd_ack_tome", oldest);
            return Some(Transmit::now(Dest::Group { group: context.group, scope: self.settings.sap_scope }));
        }
        None
    }

    fn poll_repair(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let RmtpNode { processor, window, .. } = self;
        let holds = |number| window.message(number).is_some();
        let (number, to) = processor.as_mut()?.next_repair(context.now, holds)?;
        let payload = window.message(number)?;
        Packet::Data { sequence: wire(number), oldest: wire(self.oldest), payload }
            .emit(context.association, buf);
        let (source, message, bytes) = (context.sender, MessageId(number), buf.len() as u32);
        context.events.push(Event::Forwarded { source, message, bytes, repair: true });
        Some(Transmit::now(match to {
            RepairTarget::Group => Dest::Group { group: context.group, scope: self.settings.repair_scope },
            RepairTarget::Node(node) => Dest::Node(node),
        }))
    }
}

impl Part for RmtpNode {
    type Timer = Timer;

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.window.held())
    }

    fn delivers(&self) -> bool {
        self.delivers
    }

    fn start(&mut self, context: &mut Context) {
        // A random first interval spreads the acknowledgments of nodes that start together.
        let first = self.settings.t_ack.mul_f64(self.draws.with(Rng::unit));
        context.timers.arm(Timer::Ack, context.now + first.max(Duration::from_nanos(1)));
        context.timers.arm(Timer::Rtt, context.now + self.settings.t_rtt);
        if self.settings.nearest && self.processor.is_some() {
            self.due.sap = true;
            context.timers.arm(Timer::Sap, context.now + self.settings.t_sap);
        }
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        let source = datagram.source;
        let repairs = source == context.sender || self.table.is_helper(source);
        match packet {
            Packet::Data { sequence, oldest, .. } if repairs => {
                self.on_data(context, sequence, oldest, datagram.bytes.slice(HEADER_LEN..));
            }
            Packet::SndAckTome { oldest } if repairs => {
                context.events.received("snd_ack_tome", 0_u64);
                if self.settings.nearest {
                    let oldest = near(oldest, self.window.expected());
                    self.selector.on_offer(context.now, source, datagram.scope, oldest);
                    self.choose(context);
                }
            }
            Packet::RttAck { timestamp } => self.on_rtt_ack(context, source, timestamp),
            Packet::Ack(ack) => self.on_ack(context, source, &ack, false),
            Packet::AckTxnow(ack) => self.on_ack(context, source, &ack, true),
            Packet::RttMeasure { timestamp }
                if self.processor.as_ref().is_some_and(|own| own.may_report(source)) =>
            {
                context.events.received("rtt_measure", 0_u64);
                self.rtt_acks.insert(source, timestamp);
            }
            Packet::RttMeasure { .. } | Packet::Data { .. } | Packet::SndAckTome { .. } => {
                context.events.dropped(DropReason::NotAMember);
            }
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Ack => {
                // The next acknowledgment goes to the nearest processor known by now.
                self.choose(context);
                self.due.ack = true;
                self.due.measure |= !self.measured;
                self.acks_since_parent_report += 1;
                // The session's parent still awaits this node, so it gets a report now and then.
                if self.acks_since_parent_report >= ACKS_PER_PARENT_REPORT {
                    (self.acks_since_parent_report, self.due.parent_report) = (0, true);
                }
                let status = (self.window.expected(), self.known_end, self.stable());
                self.unchanged_acks =
                    if status == self.last_status { (self.unchanged_acks + 1).min(31) } else { 0 };
                self.last_status = status;
                context.timers.arm(Timer::Ack, context.now + self.ack_interval());
            }
            Timer::Rtt => {
                self.due.measure = true;
                context.timers.arm(Timer::Rtt, context.now + self.settings.t_rtt);
            }
            Timer::Retx => {
                if let Some(processor) = &mut self.processor {
                    processor.on_retx();
                }
            }
            Timer::Check => self.check(context),
            Timer::Sap => {
                self.due.sap = true;
                context.timers.arm(Timer::Sap, context.now + self.settings.t_sap);
            }
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.poll_ack(context, buf)
            .or_else(|| self.poll_control(context, buf))
            .or_else(|| self.poll_repair(context, buf))
    }

    fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        let (number, payload) = self.window.fetch()?;
        Some(Delivery { source: context.sender, message: MessageId(number), payload })
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        if let Some(processor) = &self.processor {
            processor.report_states(self.known_end, tell);
        }
    }

    fn update_helpers(&mut self, context: &mut Context, table: &Arc<HelperTable>) {
        if table.edition() <= self.table.edition() {
            return;
        }
        let before = self.reports_to(context);
        self.table = table.clone();
        self.selector.retain(|node| node == context.sender || table.is_helper(node));
        self.choose(context);
        if let Some(processor) = &mut self.processor {
            processor.set_children(table.children(self.node), |node| table.is_helper(node));
        }
        self.settle(context);
        // A new processor does not know this node's status: report at once and measure the round trip.
        if self.reports_to(context) != before {
            (self.rtt, self.measured) = (RoundTrip::default(), false);
            (self.due.ack, self.due.measure) = (true, true);
        }
    }
}

/// Acknowledgments per report to the session's parent while another processor serves this node. The parent keeps
/// messages for it all the same.
const ACKS_PER_PARENT_REPORT: u32 = 4;
/// Maximum distance of the sequence numbers in one packet; larger ones are malformed.
const MAX_SEQUENCE_SPAN: u64 = 1 << 20;
/// Round-trip time assumed before the first measurement (RFC 6298, section 2.1).
const INITIAL_ROUND_TRIP: Duration = Duration::from_secs(1);
/// Maximum plausible round-trip time; later answers are dropped.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(10);
