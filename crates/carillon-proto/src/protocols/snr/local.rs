//! Local multicast in a region: repairs of a local source, and orders of an exchange.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::{NodeId, Time};

use super::children::{Child, Children};
use super::report::Report;

/// Blocks that a local source multicasts.
#[derive(Debug)]
pub struct Local {
    /// Scope in hops of the first multicast of a block.
    scope: u8,
    /// Blocks that were received or sent here, with the time and the number of multicasts.
    passed: BTreeMap<u64, (Time, u32)>,
    /// Blocks due for multicast.
    due: BTreeSet<u64>,
    /// Blocks that an exchange has ordered.
    ordered: BTreeMap<u64, ActiveOrder>,
}

/// Order in force.
#[derive(Clone, Copy, Debug)]
struct ActiveOrder {
    /// Time of the next multicast.
    next: Time,
    /// Expiry of the order unless it is repeated, because the packet that ends it may be lost.
    until: Time,
    /// Number of multicasts so far.
    times: u32,
}

impl Local {
    /// Creates a local source without blocks.
    pub fn new(scope: u8) -> Self {
        Local { scope, passed: BTreeMap::new(), due: BTreeSet::new(), ordered: BTreeMap::new() }
    }

    /// Records the arrival of a block.
    pub fn arrived(&mut self, now: Time, number: u64) {
        self.passed.entry(number).or_insert((now, 0));
    }

    /// Returns true if a state taken at `since` should have contained the block by now.
    pub fn is_late(&self, number: u64, since: Time, expected: Duration) -> bool {
        self.passed.get(&number).is_none_or(|&(at, _)| since >= at && since.since(at) >= expected)
    }

    /// Makes a block due for multicast.
    pub fn due(&mut self, number: u64) {
        self.due.insert(number);
    }

    /// Records the multicast of a block, and returns its scope in hops.
    pub fn sent(&mut self, now: Time, number: u64) -> u8 {
        let (at, times) = self.passed.entry(number).or_insert((now, 0));
        // The scope doubles each time until it covers the network.
        let scope = (u32::from(self.scope) << (*times).min(8)).min(u8::MAX.into()) as u8;
        (*at, *times) = (now, times.saturating_add(1));
        scope
    }

    /// Handles an order of an exchange to multicast a block repeatedly, or to stop.
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

    /// Makes ordered blocks due; the interval of each doubles (exponential back-off).
    pub fn on_time(&mut self, now: Time, interval: Duration) {
        self.ordered.retain(|_, order| order.until > now);
        for (&number, order) in self.ordered.iter_mut().filter(|(_, order)| order.next <= now) {
            self.due.insert(number);
            order.next = now + interval * (2 << order.times.min(8));
            order.times += 1;
        }
    }

    /// Time of the next ordered multicast or expiry.
    pub fn next_time(&self) -> Option<Time> {
        self.ordered.values().map(|order| order.next.min(order.until)).min()
    }

    /// Removes the next due block.
    pub fn next(&mut self) -> Option<u64> {
        self.due.pop_first()
    }

    /// Returns true if no block is due.
    pub fn is_idle(&self) -> bool {
        self.due.is_empty()
    }

    /// Forgets blocks before `before`, which all endpoints have.
    pub fn release(&mut self, before: u64) {
        remove_before(&mut self.passed, before);
        remove_before(&mut self.ordered, before);
    }
}

/// Removes the entries of blocks before `before`, usually none or one. Splitting the map would count all others.
fn remove_before<T>(entries: &mut BTreeMap<u64, T>, before: u64) {
    while let Some(entry) = entries.first_entry().filter(|entry| *entry.key() < before) {
        entry.remove();
    }
}

/// Orders of an exchange of CP to its region.
#[derive(Debug, Default)]
pub struct Orders {
    pending: BTreeMap<u64, PartialBlock>,
    /// Orders to send: endpoint, block, and true for start or false for stop.
    queue: BTreeSet<(NodeId, u64, bool)>,
}

/// Block that only a part of the region has.
#[derive(Clone, Copy, Debug)]
struct PartialBlock {
    /// Endpoint that was ordered to multicast it.
    holder: Option<NodeId>,
    /// Time of the order, or of the first report.
    since: Time,
    /// Expiry of an order from the exchange above.
    above: Option<Time>,
}

impl Orders {
    /// Updates the orders after a status of a child. A block beyond everything that a child has may still be in
    /// flight, so it counts as missing only after a quiet time.
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
                // A gap proves a loss; at the end the block may be in flight.
                let is_gap = number < report.map.end();
                let held = |(other, trusted): &(&Report, bool)| *trusted && other.map.has(number);
                if (is_gap || is_quiet) && self.pending.len() < MAX_ORDERS && reports.iter().any(held) {
                    let new = PartialBlock { holder: None, since: now, above: None };
                    self.pending.entry(number).or_insert(new);
                }
            }
        }
        // A block that all have needs no order any longer; its holder has proven to be honest.
        let (queue, mut proven) = (&mut self.queue, Vec::new());
        self.pending.retain(|&number, pending| {
            let is_missing = reports.iter().any(|(report, _)| !report.map.has(number));
            let stays = number >= first && (is_missing || pending.above.is_some());
            if !stays && let Some(holder) = pending.holder {
                queue.remove(&(holder, number, true));
                queue.insert((holder, number, false));
                if !is_missing {
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

    /// Handles an order of the exchange above for an endpoint of this region.
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

    /// Repeats orders while they are needed, and passes failed ones to another endpoint.
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
            // No endpoint received the block: the holder may not have it either.
            self.queue.insert((holder, number, false));
            if let Some(child) = children.get_mut(holder) {
                child.failed_orders += 1;
            }
            (pending.holder, pending.since) = (None, now);
        }
        self.choose(now, children, own, Some(node));
    }

    /// Removes the next order to send.
    pub fn next(&mut self) -> Option<(NodeId, u64, bool)> {
        self.queue.pop_first()
    }

    /// Chooses a trusted holder for each block without one; holders take turns by block number.
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
            // Endpoints with the fewest failed orders go first.
            let fewest = holders.iter().map(|(failed_orders, _)| *failed_orders).min();
            let best: Vec<NodeId> = holders
                .iter()
                .filter(|(failed_orders, _)| Some(*failed_orders) == fewest)
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

/// Lifetime of an order in units of T_IN.
const ORDER_LIFETIME_INTERVALS: u32 = 16;
/// Time in units of T_IN after which an order without effect has failed.
const FAILED_ORDER_INTERVALS: u32 = 40;
/// Maximum number of orders in force; it bounds the memory.
const MAX_ORDERS: usize = 8192;
/// Maximum number of blocks examined for one status; it bounds the work.
const MAX_EXAMINED_BLOCKS: u64 = 1 << 16;

/// Number of failed orders after which a child's claims about its blocks are ignored.
pub(super) const MAX_FAILED_ORDERS: u32 = 8;
