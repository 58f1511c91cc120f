//! Children of a node and their latest statuses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use carillon_core::{NodeId, Time};
use carillon_wire::status::Status;

use super::report::Report;
use crate::blocks::{Minimum, RoundTrip};

/// Children of a node.
#[derive(Debug, Default)]
pub struct Children {
    known: BTreeMap<NodeId, Child>,
    /// Expelled children, which a new table does not bring back.
    lost: BTreeSet<NodeId>,
    minima: ChildMinima,
}

/// Minima over all children, updated incrementally so that a status costs no scan of all children.
#[derive(Debug, Default)]
struct ChildMinima {
    /// Children that have changed since the minima were last read.
    touched: BTreeSet<NodeId>,
    values: BTreeMap<NodeId, ChildValues>,
    done: Minimum,
    limit: Minimum,
    /// Longest round-trip time, as the minimum of the complement to the largest 64-bit value.
    trip: Minimum,
}

/// Values of one child; a held child has no limit.
#[derive(Debug)]
struct ChildValues {
    done: u64,
    limit: Option<u64>,
    trip: Option<u64>,
}

impl ChildMinima {
    /// Updates the minima by the changed children.
    fn refresh(&mut self, known: &BTreeMap<NodeId, Child>) {
        for node in std::mem::take(&mut self.touched) {
            if let Some(old) = self.values.remove(&node) {
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
            self.values.insert(node, values);
        }
    }
}

/// State of one child.
#[derive(Debug)]
pub struct Child {
    /// Latest status; the initial state before the first one.
    pub report: Report,
    /// True after the first status.
    pub has_reported: bool,
    /// Arrival time of the latest status.
    pub reported_at: Time,
    /// Sequence number of the latest status.
    seq: u32,
    /// Round-trip time to the child.
    pub trip: RoundTrip,
    /// Time of its last progress, or start of the wait for it.
    pub since: Time,
    /// True if the child is a helper.
    pub is_helper: bool,
    /// First block that may not be sent yet because of this child.
    pub limit: u64,
    /// Number of failed orders to multicast a block that the child claims to have.
    pub failed_orders: u32,
    /// True for an expelled helper. Its last status limits the release of blocks until its children have a new parent.
    pub is_held: bool,
}

impl Child {
    /// Returns true for a helper without children.
    pub fn is_unused(&self) -> bool {
        self.report.is_unused()
    }
}

impl Children {
    /// Replaces the children by the children in a new table. A new child starts with the state `empty`.
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

    /// Handles a status of a child. Returns `None` from a node that is no child, and `Some(None)` for an outdated
    /// status.
    pub fn on_status_of(
        &mut self,
        node: NodeId,
        status: &Status<'_>,
        now: Time,
        near: u64,
    ) -> Option<Option<(&mut Child, Report)>> {
        let child = self.known.get_mut(&node).filter(|child| !child.is_held)?;
        self.minima.touched.insert(node);
        // Statuses may be reordered: the newest one counts.
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

    /// Expels a failed child. A helper is held until its children have a new parent.
    pub fn lose(&mut self, node: NodeId) {
        self.minima.touched.insert(node);
        self.lost.insert(node);
        match self.known.get_mut(&node) {
            Some(child) if child.is_helper => child.is_held = true,
            _ => drop(self.known.remove(&node)),
        }
    }

    /// Expels a child at once: nothing waits for it.
    pub fn expel(&mut self, node: NodeId) {
        self.minima.touched.insert(node);
        self.lost.insert(node);
        self.known.remove(&node);
    }

    /// Child of a node.
    pub fn get(&self, node: NodeId) -> Option<&Child> {
        self.known.get(&node)
    }

    /// Child of a node for changes; the minima are updated later.
    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut Child> {
        self.minima.touched.insert(node);
        self.known.get_mut(&node)
    }

    /// Children in order of their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Child)> {
        self.known.iter().map(|(&node, child)| (node, child))
    }

    /// Children that may still report.
    pub fn live(&self) -> impl Iterator<Item = (NodeId, &Child)> {
        self.iter().filter(|(_, child)| !child.is_held)
    }

    /// Children that report for at least one endpoint.
    pub fn speaking(&self) -> impl Iterator<Item = (NodeId, &Child)> {
        self.live().filter(|(_, child)| !child.is_unused())
    }

    /// Returns true without children.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// First block that some child may be missing.
    pub fn done(&self) -> Option<u64> {
        self.known.values().map(|child| child.report.done).min()
    }

    /// Same as [`Children::done`], after each status. A scan of few children costs less than keeping their minimum.
    pub fn done_after_status(&mut self) -> Option<u64> {
        if self.known.len() <= MAX_SCANNED_CHILDREN { self.done() } else { self.min_done() }
    }

    /// Same as [`Children::done`], without a scan of all children.
    pub fn min_done(&mut self) -> Option<u64> {
        self.minima.refresh(&self.known);
        debug_assert_eq!(self.minima.done.get(), self.done());
        self.minima.done.get()
    }

    /// First block that may not be sent yet because of a live child.
    pub fn min_limit(&mut self) -> Option<u64> {
        self.minima.refresh(&self.known);
        debug_assert_eq!(self.minima.limit.get(), self.live().map(|(_, child)| child.limit).min());
        self.minima.limit.get()
    }

    /// Longest round-trip time of a child.
    pub fn max_round_trip(&mut self) -> Option<Duration> {
        self.minima.refresh(&self.known);
        let longest = self.minima.trip.get().map(|short| Duration::from_nanos(u64::MAX - short));
        debug_assert_eq!(longest, self.iter().filter_map(|(_, child)| child.trip.mean()).max());
        longest
    }

    /// Restarts the wait for every child that is missing blocks.
    pub fn wait_from(&mut self, now: Time) {
        self.known.values_mut().for_each(|child| child.since = now);
    }

    /// Returns the failed children: those silent for `silent`, and receivers without progress for `stuck` although
    /// `is_missing` is true for them. A helper may be delayed by a node below it.
    pub fn failed(
        &mut self,
        now: Time,
        (silent, stuck): (Duration, Duration),
        is_missing: impl Fn(&Child) -> bool,
    ) -> Vec<NodeId> {
        let mut failed = Vec::new();
        for (&node, child) in self.known.iter_mut().filter(|(_, child)| !child.is_held) {
            if !is_missing(child) {
                child.since = now;
            }
            // A child that is missing nothing may be silent.
            let is_silent = now.since(child.reported_at.max(child.since)) >= silent;
            if is_silent || !child.is_helper && now.since(child.since) >= stuck {
                failed.push(node);
            }
        }
        failed
    }
}

/// Sending or arrival times of the latest packets of the source, by their Seq#.
#[derive(Debug, Default)]
pub struct SeqLog {
    /// Sequence number of the first entry.
    start: u32,
    times: VecDeque<Option<Time>>,
}

impl SeqLog {
    /// Records a packet. A large jump of the sequence number clears the log instead of growing it.
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

    /// Time of the packet with this sequence number.
    pub fn at(&self, seq: u32) -> Option<Time> {
        self.times.get(seq.wrapping_sub(self.start) as usize).copied().flatten()
    }
}

/// Maximum number of children of which the minimum is found by a scan.
const MAX_SCANNED_CHILDREN: usize = 32;
/// Maximum number of logged packets: no more than a window is in flight.
const MAX_LOGGED_PACKETS: usize = 16_384;
