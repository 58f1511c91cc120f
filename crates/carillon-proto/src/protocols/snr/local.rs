//! Multicast in a region: what a local source sends again, and what an exchange orders of whom.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::{NodeId, Time};

use super::children::{Child, Children};
use super::report::Report;

/// What a local source multicasts.
#[derive(Debug)]
pub struct Local {
    /// Hops of the first multicast of a block.
    scope: u8,
    /// Blocks that came or were sent here: when, and how often sent.
    passed: BTreeMap<u64, (Time, u32)>,
    due: BTreeSet<u64>,
    /// Blocks that an exchange has ordered.
    ordered: BTreeMap<u64, ActiveOrder>,
}

/// An order that is in force.
#[derive(Clone, Copy, Debug)]
struct ActiveOrder {
    /// When the block is sent next.
    next: Time,
    /// Then the order is forgotten, if it was not repeated: the one to stop may be lost.
    until: Time,
    times: u32,
}

impl Local {
    /// Nothing yet.
    pub fn new(scope: u8) -> Self {
        Local { scope, passed: BTreeMap::new(), due: BTreeSet::new(), ordered: BTreeMap::new() }
    }

    /// A block came.
    pub fn arrived(&mut self, now: Time, number: u64) {
        self.passed.entry(number).or_insert((now, 0));
    }

    /// Whether who has not got it in this state has not got it in the expected time.
    pub fn is_late(&self, number: u64, since: Time, expected: Duration) -> bool {
        self.passed.get(&number).is_none_or(|&(at, _)| since >= at && since.since(at) >= expected)
    }

    /// A block is to be multicast.
    pub fn due(&mut self, number: u64) {
        self.due.insert(number);
    }

    /// A block is multicast now: how far.
    pub fn sent(&mut self, now: Time, number: u64) -> u8 {
        let (at, times) = self.passed.entry(number).or_insert((now, 0));
        // Twice as far each time, until it is everywhere.
        let scope = (u32::from(self.scope) << (*times).min(8)).min(u8::MAX.into()) as u8;
        (*at, *times) = (now, times.saturating_add(1));
        scope
    }

    /// An exchange orders to multicast a block, repeatedly, or to stop.
    pub fn order(&mut self, now: Time, number: u64, start: bool, interval: Duration) {
        if !start {
            self.ordered.remove(&number);
            return;
        }
        let until = now + interval * ORDER_LIFETIME_INTERVALS;
        if self.ordered.len() >= MAX_ORDERS && !self.ordered.contains_key(&number) {
            return;
        }
        self.ordered.entry(number).or_insert(ActiveOrder { next: now, until, times: 0 }).until = until;
        self.on_time(now, interval);
    }

    /// Orders are carried out, each time after twice the time.
    pub fn on_time(&mut self, now: Time, interval: Duration) {
        self.ordered.retain(|_, order| order.until > now);
        for (&number, order) in self.ordered.iter_mut().filter(|(_, order)| order.next <= now) {
            self.due.insert(number);
            order.next = now + interval * (2 << order.times.min(8));
            order.times += 1;
        }
    }

    /// When an order is to be carried out or forgotten.
    pub fn next_time(&self) -> Option<Time> {
        self.ordered.values().map(|order| order.next.min(order.until)).min()
    }

    /// The next block that is due.
    pub fn next(&mut self) -> Option<u64> {
        self.due.pop_first()
    }

    /// Whether nothing is due.
    pub fn is_idle(&self) -> bool {
        self.due.is_empty()
    }

    /// What lies before this block is with all.
    pub fn release(&mut self, before: u64) {
        if self.passed.first_key_value().is_some_and(|(&first, _)| first < before) {
            self.passed = self.passed.split_off(&before);
        }
        if self.ordered.first_key_value().is_some_and(|(&first, _)| first < before) {
            self.ordered = self.ordered.split_off(&before);
        }
    }
}

/// What an exchange of CP has its region multicast.
#[derive(Debug, Default)]
pub struct Orders {
    pending: BTreeMap<u64, PartialBlock>,
    /// To be sent: to whom, which block, start or stop.
    queue: BTreeSet<(NodeId, u64, bool)>,
}

/// A block that some of a region have, and some not.
#[derive(Clone, Copy, Debug)]
struct PartialBlock {
    /// Who multicasts it.
    holder: Option<NodeId>,
    /// Since when.
    since: Time,
    /// An exchange above has ordered it, and its order is in force until then.
    above: Option<Time>,
}

impl Orders {
    /// A child has spoken: which blocks are to be multicast in the region, and of which that is over. What is missing behind
    /// all that a child has may be on its way, unless it has been quiet.
    pub fn update(
        &mut self,
        now: Time,
        children: &mut Children,
        own: Option<&Report>,
        known: (u64, u64),
        is_quiet: bool,
    ) {
        let (first, upper) = known;
        let reports: Vec<(&Report, bool)> = children
            .speaking()
            .map(|(_, child)| (&child.report, child.failed_orders < MAX_FAILED_ORDERS))
            .chain(own.map(|own| (own, true)))
            .collect();
        let highest = reports.iter().map(|(report, _)| report.map.end()).max().unwrap_or(first).max(upper);
        let span = first..highest.min(first + MAX_EXAMINED_BLOCKS);
        for (report, _) in &reports {
            for number in report.map.missing(span.clone()) {
                // A gap tells that it was lost; at the end it may be on its way.
                let is_gap = number < report.map.end();
                let held = |(other, trusted): &(&Report, bool)| *trusted && other.map.has(number);
                if (is_gap || is_quiet) && self.pending.len() < MAX_ORDERS && reports.iter().any(held) {
                    let new = PartialBlock { holder: None, since: now, above: None };
                    self.pending.entry(number).or_insert(new);
                }
            }
        }
        let (queue, mut proven) = (&mut self.queue, Vec::new());
        self.pending.retain(|&number, pending| {
            let lacks = reports.iter().any(|(report, _)| !report.map.has(number));
            let stays = number >= first && (lacks || pending.above.is_some());
            if !stays && let Some(holder) = pending.holder {
                queue.remove(&(holder, number, true));
                queue.insert((holder, number, false));
                if !lacks {
                    proven.push(holder);
                }
            }
            stays
        });
        for holder in proven {
            if let Some(child) = children.get_mut(holder) {
                child.failed_orders = 0;
            }
        }
        self.choose(now, children, own, None);
    }

    /// An exchange above orders a block of one of this region, or has it stopped.
    pub fn on_order_above(&mut self, now: Time, number: u64, start: bool, interval: Duration) {
        if !start {
            if let Some(pending) = self.pending.get_mut(&number) {
                pending.above = None;
            }
        } else if self.pending.len() < MAX_ORDERS {
            let new = PartialBlock { holder: None, since: now, above: None };
            self.pending.entry(number).or_insert(new).above = Some(now + interval * ORDER_LIFETIME_INTERVALS);
        }
    }

    /// Orders are repeated as long as they are needed, and go to somebody else if they are in vain.
    pub fn refresh(
        &mut self,
        now: Time,
        children: &mut Children,
        own: Option<&Report>,
        node: NodeId,
        interval: Duration,
    ) {
        for (&number, pending) in &mut self.pending {
            pending.above = pending.above.filter(|&until| until > now);
            let Some(holder) = pending.holder else { continue };
            if now.since(pending.since) < interval * FAILED_ORDER_INTERVALS {
                self.queue.insert((holder, number, true));
                continue;
            }
            // Nobody who lacked it has it: perhaps the holder has not got it either.
            self.queue.insert((holder, number, false));
            if let Some(child) = children.get_mut(holder) {
                child.failed_orders += 1;
            }
            (pending.holder, pending.since) = (None, now);
        }
        self.choose(now, children, own, Some(node));
    }

    /// The next order to send.
    pub fn next(&mut self) -> Option<(NodeId, u64, bool)> {
        self.queue.pop_first()
    }

    /// Whoever has a block and is believed multicasts it, in turn by its number.
    fn choose(&mut self, now: Time, children: &Children, own: Option<&Report>, node: Option<NodeId>) {
        for (&number, pending) in self.pending.iter_mut().filter(|(_, pending)| pending.holder.is_none()) {
            let has = |(_, child): &(NodeId, &Child)| {
                child.failed_orders < MAX_FAILED_ORDERS && child.report.map.has(number)
            };
            let holders: Vec<(u32, NodeId)> = children
                .speaking()
                .filter(has)
                .map(|(holder, child)| (child.failed_orders, holder))
                .collect();
            let own = node.filter(|_| own.is_some_and(|own| own.map.has(number)));
            // Those that were never ordered in vain go first.
            let minima = holders.iter().map(|(failed_orders, _)| *failed_orders).min();
            let best: Vec<NodeId> = holders
                .iter()
                .filter(|(failed_orders, _)| Some(*failed_orders) == minima)
                .map(|(_, holder)| *holder)
                .collect();
            let turn = number as usize % best.len().max(1);
            let Some(holder) = own.or_else(|| best.get(turn).copied()) else { continue };
            (pending.holder, pending.since) = (Some(holder), now);
            self.queue.remove(&(holder, number, false));
            self.queue.insert((holder, number, true));
        }
    }
}

/// For how many T_IN an order is in force.
const ORDER_LIFETIME_INTERVALS: u32 = 16;
/// After so many T_IN an order was in vain.
const FAILED_ORDER_INTERVALS: u32 = 40;
/// Blocks that are ordered at a time.
const MAX_ORDERS: usize = 8192;
/// Blocks that are looked at.
const MAX_EXAMINED_BLOCKS: u64 = 1 << 16;

/// Ordered so often in vain a child is not believed any more to have what it says.
pub(super) const MAX_FAILED_ORDERS: u32 = 8;
