//! Node below the source: a receiver, a representative, or a local exchange.

mod part;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Dest, Draws, DropReason, Event, HelperTable, MessageId, NodeId, Note,
    Received, Role, Scope, Time, TokenBucket, Transmit, Value, expand,
};
use carillon_wire::status::{HEADER_LEN, Packet, Status};

use super::children::{Child, Children, SeqLog};
use super::config::{MAX_INTERVAL, MIN_INTERVAL, Settings};
use super::endpoint::Endpoint;
use super::local::{Local, MAX_FAILED_ORDERS, Orders};
use super::report::{Consolidation, MODULUS, Report};
use super::rule::{Repairs, Rule};
use crate::blocks::{Part, Player};

pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// Node that receives data, reports its state, and repairs for others as its protocol allows.
#[derive(Debug)]
pub struct StatusNode {
    rule: Rule,
    settings: Settings,
    table: Arc<HelperTable>,
    node: NodeId,
    delivers: bool,
    /// Receiving part; `None` in an exchange.
    endpoint: Option<Endpoint>,
    /// Nodes that report to this one.
    children: Children,
    /// Blocks that this node multicasts in its region.
    local: Local,
    /// Orders of this exchange to endpoints.
    orders: Orders,
    /// Repairs to forward: block, payload, and remaining addressees.
    passing: VecDeque<(u64, Bytes, Vec<NodeId>)>,
    /// Arrival times of the source's packets by sequence number.
    log: SeqLog,
    /// Latest packet of the source for the next status.
    echo: Option<(u32, Time)>,
    /// Oldest block that the source keeps, and the first block not known to exist.
    known: (u64, u64),
    /// Time at which the second value last grew.
    raised: Time,
    /// T_IN.
    interval: Duration,
    /// Factor of T_IN, doubled while nothing changes.
    k: u32,
    seq: u32,
    data_seq: u32,
    status_due: bool,
    /// Content of the last status.
    last_reported: Option<Report>,
    pace: TokenBucket,
    draws: Draws,
    /// Buffer for the map of a packet, reused to avoid allocations.
    map: Vec<u8>,
}

/// Timers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Next status.
    Status,
    /// Next local multicast.
    Local,
    /// Earliest time of the next packet.
    Pace,
    /// Next check for failed children.
    Patience,
}

impl StatusNode {
    /// Creates a node of a role; fails if a setting is invalid.
    pub fn new(
        rule: Rule,
        role: Role,
        build: &BuildContext,
        config: &Config,
    ) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config, &rule)?;
        let delivers = role == Role::Receiver;
        let takes_data = delivers || rule.consolidation.is_none();
        let mut node = StatusNode {
            rule,
            table: build.helpers.clone(),
            node: build.node,
            delivers,
            endpoint: takes_data.then(|| Endpoint::new(&settings, delivers, false)),
            children: Children::default(),
            local: Local::new(settings.scope),
            orders: Orders::default(),
            passing: VecDeque::new(),
            log: SeqLog::default(),
            echo: None,
            known: (0, 0),
            raised: Time::ZERO,
            interval: settings.interval,
            k: 1,
            seq: 0,
            data_seq: 0,
            status_due: false,
            last_reported: None,
            pace: TokenBucket::new(settings.rate, PACING_BURST),
            draws: build.seeds.draws("status.interval"),
            map: Vec::new(),
            settings,
        };
        node.adopt(Time::ZERO);
        Ok(node.play(build))
    }

    /// Adopts the children that the table lists.
    fn adopt(&mut self, now: Time) {
        let table = &self.table;
        let empty = Report::empty(self.known.0, u64::MAX, now);
        let children = table.children(self.node);
        self.children.adopt(&children, |node| table.is_helper(node), &empty, 0);
        // A representative without children keeps no blocks; an endpoint of CP may be ordered to multicast at any
        // time.
        let keeps = match self.rule.repairs {
            Repairs::Source => false,
            Repairs::Representative => !self.children.is_empty(),
            Repairs::Holder => self.table.parent(self.node).is_some() || self.table.is_helper(self.node),
        };
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.keep(keeps);
        }
    }

    /// Returns true if `source` may send blocks to the region of this node.
    fn is_local_source(&self, source: NodeId) -> bool {
        match self.rule.repairs {
            // An exchange forwards repairs of the source.
            Repairs::Source => self.settings.is_addressed && self.table.parent(self.node) == Some(source),
            Repairs::Representative => self.table.is_helper(source),
            Repairs::Holder => self.table.is_helper(source) || self.table.parent(source).is_some(),
        }
    }

    fn on_data(&mut self, context: &mut Context, datagram: Received<'_>, data: Data) {
        let may = if data.local {
            self.is_local_source(datagram.source)
        } else {
            datagram.source == context.sender
        };
        if !may || datagram.source == self.node {
            return context.events.dropped(DropReason::NotAMember);
        }
        let near = self.endpoint.as_ref().map_or(self.known.1, Endpoint::expected);
        let number = expand(data.block.into(), MODULUS, near);
        let first = expand(data.first.into(), MODULUS, near);
        if !data.local && !self.on_source_packet(context, data.seq, (first, number + 1), data.interval) {
            return context.events.dropped(DropReason::Malformed);
        }
        if data.local && self.settings.is_relayed && self.table.parent(self.node) == Some(datagram.source) {
            // This node receives no packets from the source directly.
            if !self.on_source_bounds(context, (first, number + 1)) {
                return context.events.dropped(DropReason::Malformed);
            }
        }
        if self.settings.is_addressed && matches!(datagram.destination, Dest::Node(_)) {
            self.pass_on(number, datagram.bytes);
        }
        let is_known = number < self.known.0;
        let Some(endpoint) = &mut self.endpoint else { return context.events.received("data", number) };
        if is_known {
            return context.events.dropped(DropReason::Duplicate);
        }
        match endpoint.take(context, number, datagram.bytes.slice(HEADER_LEN..)) {
            Ok(()) => {
                if self.rule.is_local() {
                    self.local.arrived(context.now, number);
                }
                // No other node sends the block to the nodes below.
                if self.settings.is_relayed && !self.children.is_empty() {
                    self.local.due(number);
                }
                self.wake(context);
            }
            Err(reason) => context.events.dropped(reason),
        }
    }

    /// Queues a repair for the children that are missing it. The exchange keeps no copy after that.
    fn pass_on(&mut self, number: u64, datagram: &Bytes) {
        let is_missing = |(_, child): &(NodeId, &Child)| child.has_reported && !child.report.map.has(number);
        let to: Vec<NodeId> = self.children.speaking().filter(is_missing).map(|(node, _)| node).collect();
        let waits = self.passing.iter().any(|(waiting, ..)| *waiting == number);
        // A node that is left out reports the missing block again.
        if !waits && !to.is_empty() && (self.passing.len() as u64) < self.settings.passing {
            self.passing.push_back((number, datagram.slice(HEADER_LEN..), to));
        }
    }

    fn send_passing(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (number, node, payload) = loop {
            let (number, payload, to) = self.passing.front_mut()?;
            match to.pop() {
                Some(node) => break (*number, node, payload.clone()),
                None => drop(self.passing.pop_front()),
            }
        };
        self.forward(context, number, &payload, buf);
        Some(Transmit::now(Dest::Node(node)))
    }

    /// Applies the progress, sequence number and T_IN of a packet of the source. Returns false if the numbers are
    /// impossible.
    fn on_source_packet(
        &mut self,
        context: &mut Context,
        seq: u32,
        (first, upper): (u64, u64),
        interval: u32,
    ) -> bool {
        if !self.on_source_bounds(context, (first, upper)) {
            return false;
        }
        self.log.push(seq, context.now);
        self.echo = Some((seq, context.now));
        if self.settings.kou.is_some() {
            let announced = Duration::from_micros(interval.into());
            self.interval = announced.clamp(MIN_INTERVAL, MAX_INTERVAL);
        }
        true
    }

    /// Applies the oldest block that the source keeps and the first block that it has not sent. Returns false if
    /// their distance exceeds the source's buffer.
    fn on_source_bounds(&mut self, context: &mut Context, (first, upper): (u64, u64)) -> bool {
        let max_span = 8 * self.settings.window.max(MIN_SOURCE_BUFFER);
        if first > upper || upper - first > max_span {
            return false;
        }
        if upper > self.known.1 {
            self.raised = context.now;
        }
        self.known = (self.known.0.max(first), self.known.1.max(upper));
        if let Some(endpoint) = &mut self.endpoint {
            if first > endpoint.expected() {
                endpoint.skip_to(context, first);
            }
            if self.rule.repairs == Repairs::Holder {
                endpoint.release(self.known.0);
            }
        }
        self.local.release(self.known.0);
        true
    }

    /// Resets k after a change, so that the next status leaves after one T_IN.
    fn wake(&mut self, context: &mut Context) {
        if self.k > 1 {
            self.k = 1;
            self.arm_status(context);
        }
    }

    fn arm_status(&mut self, context: &mut Context) {
        // The interval is drawn from 0.8 to 1.2 times k T_IN: every 4 to 6 ms for a T_IN of 5 ms (section 7).
        let share = 800 + self.draws.with(|rng| rng.below(401)) as u32;
        context.timers.arm(Timer::Status, context.now + self.interval * self.k * share / 1000);
    }

    fn on_status(&mut self, context: &mut Context, source: NodeId, status: &Status<'_>) {
        let near = self.known.0;
        let (child, mut report) = match self.children.on_status_of(source, status, context.now, near) {
            None => return context.events.dropped(DropReason::NotAMember),
            Some(None) => return context.events.dropped(DropReason::Duplicate),
            Some(Some(accepted)) => accepted,
        };
        if !report.is_unused() && report.map.end() > near + MAX_BLOCKS_AHEAD {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        report.done = report.done.min(report.map.next());
        if let Some((seq, at)) = report.echo
            && let Some(passed) = self.log.at(seq)
        {
            // Child and parent receive the source's packet at about the same time, so the status measures only the
            // way back.
            child.trip.on_sample(at.since(passed) * 2);
        }
        if report.map != child.report.map || report.done > child.report.done {
            child.since = context.now;
        }
        (child.reported_at, child.has_reported) = (context.now, true);
        child.report = report;
        context.events.received("status", u64::from(status.lower.wrapping_sub(1)));
        let changed = self.settle();
        let own = self.own(context.now);
        let is_quiet = context.now.since(self.raised) >= self.interval * 2;
        match self.rule.repairs {
            Repairs::Source => {}
            Repairs::Representative => self.repair(source),
            Repairs::Holder => {
                self.orders.update(context.now, &mut self.children, own.as_ref(), self.known, is_quiet)
            }
        }
        if changed {
            self.wake(context);
        }
    }

    /// Makes the blocks due that a child of a representative is missing after the expected time.
    fn repair(&mut self, child: NodeId) {
        let (Some(child), Some(endpoint)) = (self.children.get(child), &self.endpoint) else { return };
        let trip = child.trip.mean().unwrap_or(self.settings.round_trip.min(self.interval * 4));
        let expected = self.settings.expected(trip);
        for number in child.report.map.missing(endpoint.kept()) {
            if self.local.is_late(number, child.report.since, expected) {
                self.local.due(number);
            }
        }
    }

    /// Releases the blocks that all children have. Returns true if there were any.
    fn settle(&mut self) -> bool {
        let Some(endpoint) = &mut self.endpoint else { return false };
        if self.rule.repairs != Repairs::Representative {
            return false;
        }
        let before = endpoint.kept().start;
        let done = self.children.done_after_status().unwrap_or(u64::MAX);
        endpoint.release(done);
        endpoint.kept().start > before
    }

    fn on_patience(&mut self, context: &mut Context) {
        let upper = self.known.1;
        let is_missing = |child: &Child| child.report.done < upper;
        for node in self.children.failed(
            context.now,
            (self.settings.patience, 2 * self.settings.patience),
            is_missing,
        ) {
            self.children.lose(node);
            context.events.member_lost(node);
        }
        self.settle();
        self.watch(context);
    }

    /// Arms the check for failed children while there are children.
    fn watch(&mut self, context: &mut Context) {
        if !self.children.is_empty() && context.timers.armed(Timer::Patience).is_none() {
            context.timers.arm(Timer::Patience, context.now + self.settings.patience / 8);
        }
    }

    /// State of this endpoint itself.
    fn own(&self, now: Time) -> Option<Report> {
        self.endpoint.as_ref().map(|endpoint| endpoint.report(self.echo, now))
    }

    /// State for the parent; `None` without an endpoint to report for.
    fn report(&self, now: Time) -> Option<Report> {
        let own = self.own(now);
        let children = || self.children.speaking().map(|(_, child)| child);
        // An expelled helper counts until its children have a new parent: blocks that they may be missing must be
        // kept.
        let held = || {
            let held = self.children.iter().filter(|(_, child)| child.is_held && !child.is_unused());
            held.map(|(_, child)| child)
        };
        match self.rule.consolidation {
            // A representative reports its own blocks, and the progress of its region.
            None => {
                let mut own = own?;
                let done = self.children.done().unwrap_or(own.done);
                own.done = own.done.min(done);
                Some(own)
            }
            Some(how) => {
                // Children that claim blocks without multicasting them are ignored.
                let trusted = |child: &&Child| {
                    self.rule.repairs != Repairs::Holder || child.failed_orders < MAX_FAILED_ORDERS
                };
                let silent = held().filter(|_| how == Consolidation::Minimum);
                let all = children().filter(trusted).chain(silent).map(|child| &child.report).chain(&own);
                // Without any trusted child, the region has the blocks that all children have.
                let mut report = match how.combine(all) {
                    Some(report) => report,
                    None => {
                        Consolidation::Minimum.combine(children().chain(held()).map(|child| &child.report))?
                    }
                };
                report.done =
                    self.children.iter().map(|(_, child)| child.report.done).chain([report.done]).min()?;
                report.buffer = children().map(|child| child.report.buffer).chain([report.buffer]).min()?;
                report.done = report.done.min(report.map.next());
                Some(report)
            }
        }
    }

    fn send_status(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Transmit {
        let report = self.report(context.now);
        let is_news = match (&report, &self.last_reported) {
            (Some(report), Some(last_reported)) => {
                // Room is reported when it has doubled, because an application may free its buffer block by block.
                let has_room = report.buffer > last_reported.buffer.saturating_mul(2);
                (report.lower, report.done) != (last_reported.lower, last_reported.done)
                    || report.map != last_reported.map
                    || has_room
            }
            (report, last_reported) => report.is_some() != last_reported.is_some(),
        };
        self.k = if is_news { 1 } else { (2 * self.k).min(self.settings.max_k) };
        self.seq = self.seq.wrapping_add(1);
        let parent = self.table.parent(self.node);
        let unused = Report::empty(self.known.0, 0, context.now);
        let status =
            report.as_ref().unwrap_or(&unused).packet(context.now, self.settings.max_words, &mut self.map);
        let k = if report.is_some() { self.k as u8 } else { 0 };
        let lower = u64::from(status.lower);
        Packet::Status(Status { local: parent.is_some(), seq: self.seq, k, ..status }).emit(
            self.rule.family,
            context.association,
            buf,
        );
        self.last_reported = report;
        context.events.control("status", lower.saturating_sub(1));
        if let Some(endpoint) = self.endpoint.as_ref().filter(|_| self.delivers) {
            let fields = vec![("messages", Value::Count(endpoint.held()))];
            context.events.push(Event::Note(Box::new(Note { name: "held", fields })));
        }
        self.arm_status(context);
        Transmit::now(Dest::Node(parent.unwrap_or(context.sender)))
    }

    fn send_local(&mut self, context: &mut Context, number: u64, buf: &mut Vec<u8>) -> Option<Transmit> {
        let payload = self.endpoint.as_ref()?.get(number)?.clone();
        let scope = self.local.sent(context.now, number);
        self.forward(context, number, &payload, buf);
        Some(Transmit::now(Dest::Group { group: context.group, scope: Scope(scope) }))
    }

    /// Emits a block on behalf of the source.
    fn forward(&mut self, context: &mut Context, number: u64, payload: &[u8], buf: &mut Vec<u8>) {
        self.data_seq = self.data_seq.wrapping_add(1);
        Packet::Data {
            local: true,
            seq: self.data_seq,
            block: (number % MODULUS) as u32,
            first: (self.known.0 % MODULUS) as u32,
            interval: u32::try_from(self.interval.as_micros()).unwrap_or(u32::MAX),
            payload,
        }
        .emit(self.rule.family, context.association, buf);
        self.pace.spend(context.now, buf.len() as u64);
        let (source, message, bytes) = (context.sender, MessageId(number), buf.len() as u32);
        context.events.push(Event::Forwarded { source, message, bytes, repair: true });
    }

    /// Returns the next block to multicast that a child may still be missing.
    fn next_local(&mut self) -> Option<u64> {
        let Some(endpoint) = &self.endpoint else { return None };
        let is_missing = |number: u64| match self.rule.repairs {
            Repairs::Representative => self.children.live().any(|(_, child)| !child.report.map.has(number)),
            _ => true,
        };
        while let Some(number) = self.local.next() {
            if endpoint.get(number).is_some() && is_missing(number) {
                return Some(number);
            }
        }
        None
    }

    fn on_order(&mut self, context: &mut Context, source: NodeId, block: u32, start: bool) {
        let is_above = self.table.parent(self.node) == Some(source);
        if self.rule.repairs != Repairs::Holder || !is_above {
            return context.events.dropped(DropReason::NotAMember);
        }
        let number = expand(block.into(), MODULUS, self.known.1);
        context.events.received("order", number);
        let has = self.endpoint.as_ref().is_some_and(|endpoint| endpoint.get(number).is_some());
        if has {
            self.local.order(context.now, number, start, self.interval);
        } else if number >= self.known.0 && number < self.known.1.max(self.known.0) {
            self.orders.on_order_above(context.now, number, start, self.interval);
        }
    }
}

/// Header of a data packet.
struct Data {
    local: bool,
    seq: u32,
    block: u32,
    first: u32,
    interval: u32,
}

/// Depth of the pacing token bucket: the burst that may leave at once.
const PACING_BURST: Duration = Duration::from_millis(2);
/// Minimum of the send window that receivers assume when they check the source's numbers.
const MIN_SOURCE_BUFFER: u64 = 1024;
/// Maximum distance of a child's blocks from the oldest block that some node is missing: a window, and the blocks
/// that regions repair.
const MAX_BLOCKS_AHEAD: u64 = 1 << 17;
