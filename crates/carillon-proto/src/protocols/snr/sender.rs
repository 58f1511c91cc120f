//! Source of a group.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Dest, DropReason, HelperTable, MessageId, NodeId, ObservedState,
    OfferError, Outcome, Received, Role, Time, TokenBucket, Transmit,
};
use carillon_wire::status::{Packet, Status};

use super::children::{Child, Children, SeqLog};
use super::config::{MAX_INTERVAL, MIN_INTERVAL, Settings};
use super::report::{MODULUS, Report};
use super::rule::{Rule, TransmitterState};
use super::states::STATES;
use crate::blocks::{Numbered, Part, PastLimit, Player, RepairBudget};

type Context = crate::blocks::MachineContext<Timer>;

/// Sender that multicasts blocks, and retransmits blocks that a status does not contain after the expected time.
#[derive(Debug)]
pub struct StatusSender {
    rule: Rule,
    settings: Settings,
    table: Arc<HelperTable>,
    children: Children,
    /// Blocks that some child may be missing.
    blocks: Numbered<Block>,
    /// First block not sent yet.
    next: u64,
    /// First block that the windows of the children do not permit yet.
    limit: u64,
    /// Blocks due for retransmission.
    due: BTreeSet<u64>,
    /// Unicast copies of the present block: block, addressee, and true for a retransmission.
    copies: VecDeque<(u64, NodeId, bool)>,
    budget: RepairBudget<NodeId>,
    seq: u32,
    log: SeqLog,
    pace: TokenBucket,
    finished: bool,
    /// True while a block is outstanding.
    is_waiting: bool,
    /// T_IN.
    interval: Duration,
    /// Time of the last data packet.
    sent_at: Option<Time>,
    /// True while the transmitter's state is due.
    state_due: bool,
    k: u32,
    /// Sum of first and next block when the state was last sent.
    last_reported: u64,
}

/// Block that some child may be missing.
#[derive(Debug)]
struct Block {
    payload: Bytes,
    /// Time of the last transmission.
    sent: Option<Time>,
    again: bool,
    failed: bool,
}

/// Timers of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Earliest time of the next packet.
    Pace,
    /// Next transmitter state.
    State,
    /// Next check for failed children.
    Patience,
}

impl StatusSender {
    /// Creates the source of a group; fails if a setting is invalid.
    pub fn new(rule: Rule, build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config, &rule)?;
        let mut sender = StatusSender {
            rule,
            table: build.helpers.clone(),
            children: Children::default(),
            blocks: Numbered::default(),
            next: 0,
            limit: 0,
            due: BTreeSet::new(),
            copies: VecDeque::new(),
            budget: RepairBudget::new(settings.repair_budget),
            seq: 0,
            log: SeqLog::default(),
            pace: TokenBucket::new(settings.rate, PACING_BURST),
            finished: false,
            is_waiting: false,
            interval: settings.interval,
            sent_at: None,
            state_due: false,
            k: 1,
            last_reported: 0,
            settings,
        };
        sender.adopt(&build.members, Time::ZERO);
        Ok(sender.play(build))
    }

    fn adopt(&mut self, members: &[NodeId], now: Time) {
        let table = &self.table;
        let empty = Report::empty(self.blocks.start(), u64::MAX, now);
        let limit = self.blocks.start() + self.settings.window;
        self.children.adopt(&table.children_of_sender(members), |node| table.is_helper(node), &empty, limit);
        self.set_limit();
    }

    fn on_status(&mut self, context: &mut Context, source: NodeId, status: &Status<'_>) {
        let start = self.blocks.start();
        let (child, mut report) = match self.children.on_status_of(source, status, context.now, start) {
            None => return context.events.dropped(DropReason::NotAMember),
            Some(None) => return context.events.dropped(DropReason::Duplicate),
            Some(Some(accepted)) => accepted,
        };
        if !report.is_unused() && (report.lower > self.next || report.done > self.next) {
            if !child.is_helper {
                return context.events.dropped(DropReason::OutOfWindow);
            }
            // A helper reports what its children told it, which may be wrong: cut it to the blocks that were sent.
            let map = (start..self.next).filter(|&block| report.map.has(block));
            let map = map.fold(Report::empty(start, 0, context.now).map, |mut map, block| {
                map.insert(block);
                map
            });
            (report.lower, report.done) = (report.lower.min(self.next), report.done.min(self.next));
            report.map = map;
        }
        report.done = report.done.min(report.map.next());
        context.events.received("status", report.lower.saturating_sub(1));
        if let Some((seq, at)) = report.echo
            && let Some(sent) = self.log.at(seq)
        {
            child.trip.on_sample(at.since(sent));
        }
        if report.map != child.report.map || report.done > child.report.done {
            child.since = context.now;
        }
        (child.reported_at, child.has_reported) = (context.now, true);
        // The child accepts as many new blocks as it has room for beside those in flight.
        let in_flight = report.map.lacking(start..self.next);
        let room = self.next.saturating_add(report.buffer.saturating_sub(in_flight));
        child.limit = room.min(report.map.next().max(start).saturating_add(self.settings.window));
        let trip = child.trip.mean().unwrap_or(self.settings.round_trip);
        let expected = self.settings.expected(trip);
        let mut left = self.budget.left(source, self.next);
        let (mut repairs, mut missing) = (0, 0);
        for number in report.map.missing(start..self.next) {
            let Some(block) = self.blocks.get(number) else { break };
            let Some(sent) = block.sent else { break };
            if report.since.since(sent) < expected || report.since < sent {
                if block.again {
                    continue;
                }
                // Later blocks were sent later.
                break;
            }
            missing += 1;
            if left > 0 && self.due.insert(number) {
                (left, repairs) = (left - 1, repairs + 1);
            }
        }
        child.report = report;
        self.budget.spend(source, repairs);
        if missing > 0 {
            context.events.repair_needed(source, missing);
        }
        self.settle(context);
    }

    /// Completes the blocks that all children have, and updates the limit.
    fn settle(&mut self, context: &mut Context) {
        let done = self.children.min_done().unwrap_or(self.next).min(self.next);
        while self.blocks.start() < done
            && let Some((number, block)) = self.blocks.pop()
        {
            self.due.remove(&number);
            let outcome = if block.failed { Outcome::Failed } else { Outcome::Acknowledged };
            context.events.completed(MessageId(number), outcome, self.settings.window as u32);
        }
        self.set_limit();
        match self.blocks.is_empty() || self.next == self.blocks.start() {
            true => {
                self.is_waiting = false;
                context.timers.cancel(Timer::Patience);
            }
            false => {
                if !std::mem::replace(&mut self.is_waiting, true) {
                    // The first outstanding block starts the wait: no child is late yet.
                    self.children.wait_from(context.now);
                }
                if context.timers.armed(Timer::Patience).is_none() {
                    context.timers.arm(Timer::Patience, context.now + self.settings.patience / 8);
                }
            }
        }
    }

    fn set_limit(&mut self) {
        // An expelled child imposes no limit.
        self.limit = self.children.min_limit().unwrap_or(u64::MAX);
        self.limit = self.limit.min(self.blocks.start() + self.kept());
        if self.settings.kou.is_some() {
            self.set_interval();
        }
    }

    /// T_IN = max(RTD / kou, ipt), for the longest RTD, because all receivers use the same T_IN.
    fn set_interval(&mut self) {
        if let (Some(trip), Some(kou)) = (self.children.max_round_trip(), self.settings.kou) {
            self.interval = (trip / kou).max(self.settings.packet_time).clamp(MIN_INTERVAL, MAX_INTERVAL);
        }
    }

    /// Maximum number of kept blocks: a window, and blocks that regions still repair.
    fn kept(&self) -> u64 {
        if self.rule.is_local() { 4 * self.settings.window } else { self.settings.window }
    }

    fn on_patience(&mut self, context: &mut Context) {
        let next = self.next;
        let is_missing = |child: &Child| child.report.done < next;
        if self.settings.past_limit != PastLimit::Wait {
            for node in self.children.failed(
                context.now,
                (self.settings.patience, self.settings.patience),
                is_missing,
            ) {
                match self.settings.past_limit {
                    // Children of a helper turn to another one and are not expelled with it.
                    PastLimit::Skip if !self.table.is_helper(node) => self.skip(node, context.now),
                    _ => {
                        self.children.lose(node);
                        context.events.member_lost(node);
                    }
                }
            }
        }
        self.settle(context);
    }

    /// Stops waiting for the blocks that a child is missing: they fail.
    fn skip(&mut self, node: NodeId, now: Time) {
        let next = self.next;
        let Some(child) = self.children.get_mut(node) else { return };
        for number in child.report.map.missing(self.blocks.start()..next) {
            if let Some(block) = self.blocks.get_mut(number) {
                block.failed = true;
            }
        }
        child.report = Report::empty(next, u64::MAX, now);
        child.since = now;
        child.limit = next.saturating_add(self.settings.window);
    }

    /// Returns the next retransmission that a live child still needs.
    fn next_repair(&mut self) -> Option<u64> {
        loop {
            let number = self.due.pop_first()?;
            let is_missing = |(_, child): (NodeId, &Child)| !child.report.map.has(number);
            if self.blocks.get(number).is_some() && self.children.live().any(is_missing) {
                return Some(number);
            }
        }
    }

    /// Sends a block to the group, or to each child that reports here and may be missing it.
    fn send(&mut self, context: &mut Context, number: u64, buf: &mut Vec<u8>) -> Option<Transmit> {
        let is_repair = self.blocks.get(number).is_some_and(|block| block.sent.is_some());
        let is_addressed = self.settings.is_relayed || (self.settings.is_addressed && is_repair);
        if !is_addressed {
            let to = context.to_group();
            return self.send_to(context, number, to, None, buf);
        }
        let block = self.blocks.get_mut(number)?;
        let again = block.sent.is_some();
        block.again |= again;
        let is_missing = |(_, child): &(NodeId, &Child)| !child.report.map.has(number) && !child.is_unused();
        // The first copy is the original.
        let copies = self.children.live().filter(is_missing).enumerate();
        self.copies.extend(copies.map(|(turn, (node, _))| (number, node, again || turn > 0)));
        if self.copies.is_empty() {
            let to = context.to_group();
            return self.send_to(context, number, to, Some(again), buf);
        }
        self.next_copy(context, buf)
    }

    fn next_copy(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((number, node, again)) = self.copies.pop_front() {
            let to = Transmit::now(Dest::Node(node));
            if let Some(transmit) = self.send_to(context, number, to, Some(again), buf) {
                return Some(transmit);
            }
        }
        None
    }

    fn send_to(
        &mut self,
        context: &mut Context,
        number: u64,
        to: Transmit,
        copy_again: Option<bool>,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let first = self.blocks.start();
        let block = self.blocks.get_mut(number)?;
        self.seq = self.seq.wrapping_add(1).max(1);
        Packet::Data {
            local: false,
            seq: self.seq,
            block: (number % MODULUS) as u32,
            first: (first % MODULUS) as u32,
            interval: micros(self.interval),
            payload: &block.payload,
        }
        .emit(self.rule.family, context.association, buf);
        let again = copy_again.unwrap_or(block.sent.is_some());
        block.sent = Some(context.now);
        block.again |= again && copy_again.is_none();
        self.log.push(self.seq, context.now);
        self.sent_at = Some(context.now);
        self.pace.spend(context.now, buf.len() as u64);
        Some(context.events.data_sent(to, MessageId(number), buf.len(), again))
    }

    fn send_state(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Transmit {
        self.state_due = false;
        self.seq = self.seq.wrapping_add(1).max(1);
        self.log.push(self.seq, context.now);
        let progress = self.next + self.blocks.start();
        self.k = if progress == self.last_reported { (2 * self.k).min(self.settings.max_k) } else { 1 };
        self.last_reported = progress;
        Packet::State {
            seq: self.seq,
            upper: (self.next % MODULUS) as u32,
            first: (self.blocks.start() % MODULUS) as u32,
            interval: micros(self.interval),
            k: self.k as u8,
        }
        .emit(self.rule.family, context.association, buf);
        context.timers.arm(Timer::State, context.now + self.interval * self.k);
        context.events.control("state", self.next.saturating_sub(1));
        context.to_group()
    }
}

impl Part for StatusSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.blocks.len() as u64)
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let packet = Packet::parse(self.rule.family, datagram.bytes);
        match context.of_session(packet) {
            None => {}
            Some(Packet::Status(status)) if !status.local => {
                self.on_status(context, datagram.source, &status)
            }
            Some(_) => context.events.dropped(DropReason::Foreign),
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Pace => {}
            Timer::State => {
                let quiet = self.sent_at.is_none_or(|at| context.now.since(at) >= self.interval);
                let due = self.rule.transmitter_state == TransmitterState::Always || quiet;
                self.state_due = due && !self.is_finished();
                if !due {
                    context.timers.arm(Timer::State, context.now + self.interval);
                }
            }
            Timer::Patience => self.on_patience(context),
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.state_due {
            return Some(self.send_state(context, buf));
        }
        let has_new = self.next < self.limit.min(self.blocks.end());
        if !has_new && self.due.is_empty() && self.copies.is_empty() {
            return None;
        }
        if let Some(at) = self.pace.ready_at(context.now) {
            context.timers.arm(Timer::Pace, at);
            return None;
        }
        if let Some(transmit) = self.next_copy(context, buf) {
            return Some(transmit);
        }
        if let Some(number) = self.next_repair() {
            return self.send(context, number, buf);
        }
        if !has_new {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let transmit = self.send(context, number, buf);
        if self.rule.transmitter_state != TransmitterState::Never
            && context.timers.armed(Timer::State).is_none()
        {
            context.timers.arm(Timer::State, context.now + self.interval);
        }
        self.settle(context);
        transmit
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        for (number, block) in (self.blocks.start()..).zip(self.blocks.iter()) {
            let state = match block.sent {
                None => "Waiting",
                Some(_) if block.again => "Repeated",
                Some(_) => "Sent",
            };
            tell(ObservedState { of: STATES[0].of, about: number, state, turn: 0 });
        }
    }

    fn offer(&mut self, _context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        let waiting = self.blocks.end() - self.next;
        if waiting >= MAX_UNSENT_BLOCKS.min(self.settings.window) || self.blocks.len() as u64 >= self.kept() {
            return Err(OfferError::Full);
        }
        let block = Block { payload, sent: None, again: false, failed: false };
        Ok(MessageId(self.blocks.push(block)))
    }

    fn finish(&mut self, _context: &mut Context) {
        self.finished = true;
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        match self.table.is_helper(member) {
            // Blocks that its children may be missing are kept until they have a new parent.
            true => self.children.lose(member),
            false => self.children.expel(member),
        }
        self.settle(context);
    }

    fn awaits(&self, _context: &Context, member: NodeId) -> bool {
        let is_out = self.blocks.first().is_some_and(|block| block.sent.is_some());
        let blocked = self.next < self.blocks.end();
        self.children.get(member).is_some_and(|child| {
            (is_out && child.report.done <= self.blocks.start()) || (blocked && child.limit <= self.next)
        })
    }

    fn acknowledged(&self, _context: &Context, member: NodeId) -> Option<u64> {
        self.children.get(member).map(|child| child.report.done)
    }

    fn update_helpers(&mut self, context: &mut Context, table: &Arc<HelperTable>) {
        if table.edition() > self.table.edition() {
            self.table = table.clone();
            let members = context.nodes.clone();
            self.adopt(&members, context.now);
            self.settle(context);
        }
    }

    fn is_finished(&self) -> bool {
        self.finished && self.blocks.is_empty()
    }
}

fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

/// Depth of the pacing token bucket: the burst that may leave at once.
const PACING_BURST: Duration = Duration::from_millis(2);
/// Maximum number of blocks that wait for their first transmission.
const MAX_UNSENT_BLOCKS: u64 = 64;
