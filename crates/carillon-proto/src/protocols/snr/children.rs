//! Those who turn to a node, and what they have said.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use carillon_core::{NodeId, Time};
use carillon_wire::status::Status;

use super::report::Report;
use crate::blocks::{Minimum, RoundTrip};

/// The children of a node.
#[derive(Debug, Default)]
pub struct Children {
    known: BTreeMap<NodeId, Child>,
    /// Those who were given up: they do not come back with a table.
    lost: BTreeSet<NodeId>,
    minima: ChildMinima,
}

/// What counts of all children is what the least of them says: known without a look at each.
#[derive(Debug, Default)]
struct ChildMinima {
    /// Those that have changed since the numbers below were last asked for.
    touched: BTreeSet<NodeId>,
    of: BTreeMap<NodeId, ChildValues>,
    done: Minimum,
    limit: Minimum,
    /// Of the farthest: what its round trip is short of the longest there is.
    trip: Minimum,
}

/// What counts of one of them; one that is held limits nobody.
#[derive(Debug)]
struct ChildValues {
    done: u64,
    limit: Option<u64>,
    trip: Option<u64>,
}

impl ChildMinima {
    fn see(&mut self, known: &BTreeMap<NodeId, Child>) {
        for node in std::mem::take(&mut self.touched) {
            if let Some(old) = self.of.remove(&node) {
                self.done.remove(old.done);
                old.limit.into_iter().for_each(|limit| self.limit.remove(limit));
                old.trip.into_iter().for_each(|trip| self.trip.remove(trip));
            }
            let Some(child) = known.get(&node) else { continue };
            let trip = child.trip.mean().map(|trip| u64::try_from(trip.as_nanos()).unwrap_or(u64::MAX));
            let values = ChildValues {
                done: child.report.done,
                limit: (!child.is_held).then_some(child.limit),
                trip: trip.map(|nanos| u64::MAX - nanos),
            };
            self.done.insert(values.done);
            values.limit.into_iter().for_each(|limit| self.limit.insert(limit));
            values.trip.into_iter().for_each(|trip| self.trip.insert(trip));
            self.of.insert(node, values);
        }
    }
}

/// One of them.
#[derive(Debug)]
pub struct Child {
    /// Its latest state; what is known of it before it was heard.
    pub report: Report,
    /// Whether it was heard.
    pub has_reported: bool,
    /// When its latest state came.
    pub reported_at: Time,
    /// The number of its latest status.
    seq: u32,
    /// To it and back.
    pub trip: RoundTrip,
    /// When it last got further, or was waited for.
    pub since: Time,
    /// Whether it helps others.
    pub is_helper: bool,
    /// The first block that may not be sent yet because of it.
    pub limit: u64,
    /// How often it was ordered in vain to multicast a block that it claims to have.
    pub failed_orders: u32,
    /// It was given up, and has helped others: what they may lack is kept until they turn to somebody else.
    pub is_held: bool,
}

impl Child {
    /// A helper that nobody turns to.
    pub fn is_unused(&self) -> bool {
        self.report.is_unused()
    }
}

impl Children {
    /// These are the children from now on. Of who is new nothing is known but that it has what `empty` says.
    pub fn adopt(
        &mut self,
        children: &[NodeId],
        is_helper: impl Fn(NodeId) -> bool,
        empty: &Report,
        limit: u64,
    ) {
        self.minima.touched.extend(self.known.keys().chain(children).copied());
        let lost = &self.lost;
        self.known.retain(|node, _| children.contains(node) && (!lost.contains(node) || is_helper(*node)));
        for &node in children.iter().filter(|node| !self.lost.contains(node)) {
            let new = || Child {
                report: empty.clone(),
                has_reported: false,
                reported_at: empty.since,
                seq: 0,
                trip: RoundTrip::default(),
                since: empty.since,
                is_helper: false,
                limit,
                failed_orders: 0,
                is_held: false,
            };
            self.known.entry(node).or_insert_with(new).is_helper = is_helper(node);
        }
    }

    /// A child says this. `None` if it is no child, `Some(None)` if it has said something newer.
    pub fn on_status_of(
        &mut self,
        node: NodeId,
        status: &Status<'_>,
        now: Time,
        near: u64,
    ) -> Option<Option<(&mut Child, Report)>> {
        let child = self.known.get_mut(&node).filter(|child| !child.is_held)?;
        self.minima.touched.insert(node);
        // Statuses that overtake each other: the newer one counts.
        if child.has_reported && status.seq.wrapping_sub(child.seq) as i32 <= 0 {
            return Some(None);
        }
        child.seq = status.seq;
        let report = match status.k {
            0 => Report::complete(now),
            _ if child.is_unused() => Report::of_packet(status, near, now),
            _ => Report::of_packet(status, child.report.lower.max(near), now),
        };
        Some(Some((child, report)))
    }

    /// A child is given up. One that has helped others stays until they turn to somebody else.
    pub fn lose(&mut self, node: NodeId) {
        self.minima.touched.insert(node);
        self.lost.insert(node);
        match self.known.get_mut(&node) {
            Some(child) if child.is_helper => child.is_held = true,
            _ => drop(self.known.remove(&node)),
        }
    }

    /// Nothing waits for this one any more.
    pub fn expel(&mut self, node: NodeId) {
        self.minima.touched.insert(node);
        self.lost.insert(node);
        self.known.remove(&node);
    }

    /// One of them.
    pub fn get(&self, node: NodeId) -> Option<&Child> {
        self.known.get(&node)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut Child> {
        self.minima.touched.insert(node);
        self.known.get_mut(&node)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Child)> {
        self.known.iter().map(|(&node, child)| (node, child))
    }

    /// Those that can still say something.
    pub fn live(&self) -> impl Iterator<Item = (NodeId, &Child)> {
        self.iter().filter(|(_, child)| !child.is_held)
    }

    /// Those of them that speak for somebody.
    pub fn speaking(&self) -> impl Iterator<Item = (NodeId, &Child)> {
        self.live().filter(|(_, child)| !child.is_unused())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// All have these.
    pub fn done(&self) -> Option<u64> {
        self.known.values().map(|child| child.report.done).min()
    }

    /// The same, of many children.
    pub fn min_done(&mut self) -> Option<u64> {
        self.minima.see(&self.known);
        debug_assert_eq!(self.minima.done.get(), self.done());
        self.minima.done.get()
    }

    /// The first block that may not be sent yet because of one that can still say something.
    pub fn min_limit(&mut self) -> Option<u64> {
        self.minima.see(&self.known);
        debug_assert_eq!(self.minima.limit.get(), self.live().map(|(_, child)| child.limit).min());
        self.minima.limit.get()
    }

    /// The round trip of the farthest.
    pub fn max_round_trip(&mut self) -> Option<Duration> {
        self.minima.see(&self.known);
        let longest = self.minima.trip.get().map(|short| Duration::from_nanos(u64::MAX - short));
        debug_assert_eq!(longest, self.iter().filter_map(|(_, child)| child.trip.mean()).max());
        longest
    }

    /// Whoever lacks something has lacked it from now on.
    pub fn wait_from(&mut self, now: Time) {
        self.known.values_mut().for_each(|child| child.since = now);
    }

    /// Who has failed: whoever was not heard for the first of these times, and a receiver that got no further for the second
    /// although it `lacks` something. What keeps a helper may be somebody below it.
    pub fn failed(
        &mut self,
        now: Time,
        (silent, stuck): (Duration, Duration),
        lacks: impl Fn(&Child) -> bool,
    ) -> Vec<NodeId> {
        let mut failed = Vec::new();
        for (&node, child) in self.known.iter_mut().filter(|(_, child)| !child.is_held) {
            if !lacks(child) {
                child.since = now;
            }
            // While it lacks nothing it may well be silent.
            let is_silent = now.since(child.reported_at.max(child.since)) >= silent;
            if is_silent || !child.is_helper && now.since(child.since) >= stuck {
                failed.push(node);
            }
        }
        failed
    }
}

/// When packets of the source went by, by their Seq#: the latest ones.
#[derive(Debug, Default)]
pub struct SeqLog {
    /// The number of the first.
    start: u32,
    times: VecDeque<Option<Time>>,
}

impl SeqLog {
    /// A packet of this number went by. Who counts wildly makes the log forget, not grow.
    pub fn push(&mut self, seq: u32, now: Time) {
        let ahead = seq.wrapping_sub(self.start);
        if (ahead as i32) < 0 && !self.times.is_empty() {
            return;
        }
        if self.times.is_empty() || ahead as usize >= self.times.len() + MAX_LOGGED_PACKETS {
            self.times.clear();
            self.start = seq;
        }
        let at = seq.wrapping_sub(self.start) as usize;
        if at >= self.times.len() {
            self.times.resize(at + 1, None);
        }
        self.times[at] = Some(now);
        while self.times.len() > MAX_LOGGED_PACKETS {
            self.times.pop_front();
            self.start = self.start.wrapping_add(1);
        }
    }

    /// When a packet of this number went by.
    pub fn at(&self, seq: u32) -> Option<Time> {
        self.times.get(seq.wrapping_sub(self.start) as usize).copied().flatten()
    }
}

/// More than a window is not under way.
const MAX_LOGGED_PACKETS: usize = 16_384;
