//! Acknowledgment processor: the status of the nodes that report to a node, and the repairs it sends them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{DropReason, NodeId, ObservedState, Time};
use carillon_wire::map::MAX_WORDS;
use carillon_wire::rmtp::Ack;

use super::config::Settings;
use super::states::STATES;
use crate::blocks::{HoldOff, Minimum, MissedPolls, Numbered, PastLimit, ReceiverMap, RepairBudget, near};

/// Acknowledgment processor of the sender or of a designated receiver. The owner passes in which messages it holds.
#[derive(Debug)]
pub(super) struct Processor {
    settings: Settings,
    members: Arc<[NodeId]>,
    children: BTreeMap<NodeId, Child>,
    /// Members that report here because this node is nearer, while their parent is another node.
    extra_reporters: BTreeMap<NodeId, Child>,
    /// Minima over the children: stable prefix, first missing message, and first message without room.
    stable: Minimum,
    next: Minimum,
    limit: Minimum,
    /// Expelled children, which a later table does not bring back.
    lost: BTreeSet<NodeId>,
    /// State of messages, from the first that may be missing below.
    slots: Numbered<Slot>,
    /// Messages requested since the last repair interval.
    requested: BTreeSet<u64>,
    due: BTreeSet<(u64, RepairTarget)>,
    requests: u64,
    budget: RepairBudget<NodeId>,
    /// Maximum report age seen in acknowledgments, capped at `MAX_REPORT_AGE`.
    max_report_age: Duration,
}

/// Destination of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RepairTarget {
    Group,
    Node(NodeId),
}

/// Repair state of one message.
#[derive(Debug, Default)]
struct Slot {
    /// Time of the last transmission to the group.
    at: Option<Time>,
    to: HoldOff<NodeId>,
    requested: Vec<NodeId>,
}

/// Status of one reporting node.
#[derive(Debug, Default)]
struct Child {
    map: ReceiverMap,
    stable: u64,
    limit: u64,
    silence: MissedPolls,
    /// First missing message at the last check.
    last_next: u64,
    /// True if an acknowledgment came since the last check.
    has_reported: bool,
    /// True if another processor repairs for it.
    served: bool,
    /// True for an expelled helper. Its children may need messages until they report elsewhere, so its status is
    /// kept.
    is_lost_helper: bool,
}

/// Sequence numbers of an acknowledgment, expanded to 64 bits.
struct AckFields {
    next: u64,
    stable: u64,
    limit: u64,
}

impl Processor {
    /// Creates a processor for these children; other members may report too.
    pub fn new(settings: &Settings, members: &Arc<[NodeId]>, children: Vec<NodeId>) -> Self {
        let mut processor = Processor {
            settings: settings.clone(),
            members: members.clone(),
            children: BTreeMap::new(),
            extra_reporters: BTreeMap::new(),
            stable: Minimum::default(),
            next: Minimum::default(),
            limit: Minimum::default(),
            lost: BTreeSet::new(),
            slots: Numbered::default(),
            requested: BTreeSet::new(),
            due: BTreeSet::new(),
            requests: 0,
            budget: RepairBudget::new(settings.repair_budget),
            max_report_age: Duration::ZERO,
        };
        processor.set_children(children, |_| true);
        processor
    }

    /// Replaces the children. A new child may miss every kept message; an expelled one stays only while it is the
    /// parent of others.
    pub fn set_children(&mut self, children: Vec<NodeId>, is_helper: impl Fn(NodeId) -> bool) {
        let wanted: BTreeSet<NodeId> = children.into_iter().collect();
        let stays = |node: &NodeId| wanted.contains(node) && (!self.lost.contains(node) || is_helper(*node));
        let gone: Vec<NodeId> = self.children.keys().filter(|node| !stays(node)).copied().collect();
        gone.into_iter().for_each(|node| self.remove(node));
        let base = self.slots.start();
        for node in wanted.into_iter().filter(|node| !self.lost.contains(node)) {
            self.extra_reporters.remove(&node);
            self.children.entry(node).or_insert_with(|| {
                let limit = base + self.settings.window;
                self.stable.insert(base);
                self.next.insert(base);
                self.limit.insert(limit);
                Child {
                    map: ReceiverMap::new(base, []),
                    stable: base,
                    limit,
                    last_next: base,
                    ..Child::default()
                }
            });
        }
    }

    fn remove(&mut self, node: NodeId) {
        let Some(child) = self.children.remove(&node) else { return };
        self.stable.remove(child.stable);
        self.next.remove(child.map.next());
        self.limit.remove(child.limit);
    }

    /// Expels a child. A helper's status is kept until its children report elsewhere.
    pub fn expel(&mut self, node: NodeId, is_helper: bool) {
        self.lost.insert(node);
        match self.children.get_mut(&node).filter(|_| is_helper) {
            Some(child) => child.is_lost_helper = true,
            None => self.remove(node),
        }
    }

    /// Records that a message passed this node or was sent to the group.
    pub fn on_passed(&mut self, now: Time, number: u64) {
        while self.slots.end() <= number {
            self.slots.push(Slot::default());
        }
        if let Some(slot) = self.slots.get_mut(number) {
            slot.at = Some(now);
        }
    }

    /// Handles an acknowledgment. `end` is one past the newest message known here, `most` bounds the acknowledged
    /// prefix, and `holds` tells which messages can be repaired. Returns the first missing message.
    pub fn on_ack(
        &mut self,
        now: Time,
        from: NodeId,
        ack: &Ack<'_>,
        (end, most): (u64, u64),
        holds: impl Fn(u64) -> bool,
    ) -> Result<u64, DropReason> {
        let is_child = self.children.contains_key(&from);
        if !is_child && (ack.served || !self.may_report(from)) {
            return Err(DropReason::NotAMember);
        }
        // An expelled helper is ignored: its kept status must not advance.
        let base = self.slots.start();
        let extra_reporter = || Child { map: ReceiverMap::new(base, []), ..Child::default() };
        let child = match is_child {
            true => self.children.get_mut(&from),
            false => Some(self.extra_reporters.entry(from).or_insert_with(extra_reporter)),
        };
        let Some(child) = child.filter(|child| !child.is_lost_helper) else {
            return Err(DropReason::OutOfWindow);
        };
        let fields = AckFields::read(ack, child.map.next())?;
        if fields.next > most {
            return Err(DropReason::OutOfWindow);
        }
        // Merge the report; prefix and limit never move back.
        let before = (child.stable, child.map.next(), child.limit);
        child.map = child.map.or(&ReceiverMap::new(fields.next, ack.received.words()));
        child.stable = child.stable.max(fields.stable);
        child.limit = child.limit.max(fields.limit);
        (child.has_reported, child.served) = (true, ack.served);
        if is_child {
            self.stable.change(before.0, child.stable);
            self.next.change(before.1, child.map.next());
            self.limit.change(before.2, child.limit);
        }
        // Another processor serves this node: only its stable prefix matters here.
        if ack.served {
            return Ok(fields.next);
        }
        // A bitmap of maximum length may be truncated; messages beyond it are not reported as missing.
        let whole = ack.received.count() < MAX_WORDS;
        let report_end = if whole { end } else { fields.next + 1 + ack.received.span() };
        // A report is as old as the acknowledgment interval: ignore losses of messages sent since.
        let age = Duration::from_micros(ack.span.into());
        self.max_report_age = self.max_report_age.max(age.min(MAX_REPORT_AGE));
        let left = self.budget.left(from, end).min(MAX_REQUESTS_PER_ACK) as usize;
        let wanted = child.map.missing(fields.next.max(base)..end.min(report_end).min(child.limit));
        let mut requested = 0;
        for number in wanted.filter(|&number| holds(number)) {
            let Some(slot) = self.slots.get_mut(number) else { break };
            // A message sent within the report's age may be in flight.
            let in_flight = slot.at.is_none_or(|at| now.since(at) < age) || !slot.to.is_over(now, from, age);
            if in_flight || slot.requested.contains(&from) {
                continue;
            }
            if requested == left {
                break;
            }
            slot.requested.push(from);
            self.requested.insert(number);
            requested += 1;
        }
        self.requests += requested as u64;
        self.budget.spend(from, requested as u64);
        Ok(fields.next)
    }

    /// Moves up to `txnow_burst` requests of a node to immediate unicast repairs (ACK_TXNOW).
    pub fn repair_at_once(&mut self, node: NodeId) {
        let mine =
            |number: &&u64| self.slots.get(**number).is_some_and(|slot| slot.requested.contains(&node));
        let numbers: Vec<u64> =
            self.requested.iter().filter(mine).take(self.settings.txnow_burst).copied().collect();
        for number in numbers {
            self.due.insert((number, RepairTarget::Node(node)));
            if let Some(slot) = self.slots.get_mut(number) {
                slot.requested.retain(|requester| *requester != node);
            }
        }
    }

    /// Returns true if requests wait for the next repair interval.
    pub fn has_requests(&self) -> bool {
        !self.requested.is_empty()
    }

    /// Schedules repairs at T_retx: multicast for more than `mcast_thresh` requesters, unicast to each otherwise.
    pub fn on_retx(&mut self) {
        for number in std::mem::take(&mut self.requested) {
            let Some(slot) = self.slots.get_mut(number) else { continue };
            let requesters = std::mem::take(&mut slot.requested);
            match requesters.len() > self.settings.mcast_thresh {
                true => _ = self.due.insert((number, RepairTarget::Group)),
                false => {
                    self.due.extend(requesters.into_iter().map(|node| (number, RepairTarget::Node(node))))
                }
            }
        }
    }

    /// Next repair that is still needed, and its destination.
    pub fn next_repair(&mut self, now: Time, holds: impl Fn(u64) -> bool) -> Option<(u64, RepairTarget)> {
        // An acknowledgment may have arrived since the request.
        while let Some((number, to)) = self.due.pop_first() {
            let Some(slot) = self.slots.get_mut(number).filter(|_| holds(number)) else { continue };
            match to {
                RepairTarget::Group => slot.at = Some(now),
                RepairTarget::Node(node) => {
                    let child = self.children.get(&node).or_else(|| self.extra_reporters.get(&node));
                    if child.is_none_or(|child| child.is_lost_helper || child.map.has(number)) {
                        continue;
                    }
                    slot.to.note(now, node, self.max_report_age);
                }
            }
            return Some((number, to));
        }
        None
    }

    /// Checks the progress of all children. Returns the expelled ones, and whether messages were skipped for any
    /// child.
    pub fn check(
        &mut self,
        end: u64,
        is_helper: impl Fn(NodeId) -> bool,
        holds: impl Fn(u64) -> bool,
    ) -> (Vec<NodeId>, bool) {
        let (patience, interval) = (self.settings.patience, self.settings.t_ack);
        if self.settings.past_limit == PastLimit::Wait {
            return (Vec::new(), false);
        }
        let mut over = Vec::new();
        for (&node, child) in self.children.iter_mut().filter(|(_, child)| !child.is_lost_helper) {
            let next = child.map.next();
            // A child fails the check if it could progress and did not, or if it is incomplete and silent.
            let can_get_on = next < end.min(child.limit) && holds(next) && !child.served;
            let waits_silently = child.stable < end && !std::mem::take(&mut child.has_reported);
            if next > child.last_next || !(can_get_on || waits_silently) {
                child.last_next = next;
                child.silence.heard();
            } else if child.silence.missed(patience, interval) {
                over.push(node);
            }
        }
        // A helper cannot be skipped, since its children need another processor.
        let skips = self.settings.past_limit == PastLimit::Skip;
        let (skipped, lost): (Vec<_>, Vec<_>) = over.into_iter().partition(|&node| skips && !is_helper(node));
        skipped.iter().for_each(|&node| self.skip(node, end));
        lost.iter().for_each(|&node| self.expel(node, is_helper(node)));
        (lost, !skipped.is_empty())
    }

    /// Marks all messages before `end` as received by a child.
    fn skip(&mut self, node: NodeId, end: u64) {
        let Some(child) = self.children.get_mut(&node) else { return };
        let before = (child.stable, child.map.next(), child.limit);
        child.map = child.map.or(&ReceiverMap::new(end, []));
        child.stable = child.stable.max(end);
        child.limit = child.limit.max(end + self.settings.window);
        child.silence.heard();
        self.stable.change(before.0, child.stable);
        self.next.change(before.1, child.map.next());
        self.limit.change(before.2, child.limit);
    }

    /// Forgets messages that this node (prefix `own`) and all children hold. Returns the first that may be missing
    /// below.
    pub fn settle(&mut self, own: u64) -> u64 {
        let base = self.stable.get().unwrap_or(own).min(own);
        while self.slots.start() < base {
            if self.slots.pop().is_none() {
                self.slots.number_from(base);
            }
        }
        self.requested = self.requested.split_off(&base);
        self.due = self.due.split_off(&(base, RepairTarget::Group));
        self.slots.start()
    }

    /// First message that may be missing below.
    pub fn base(&self) -> u64 {
        self.slots.start()
    }

    /// First message that a child is missing.
    pub fn next(&self) -> Option<u64> {
        self.next.get()
    }

    /// First message that a child has no room for.
    pub fn limit(&self) -> Option<u64> {
        self.limit.get()
    }

    /// Takes the number of requests since the last call.
    pub fn take_requests(&mut self) -> u64 {
        std::mem::take(&mut self.requests)
    }

    /// Returns true if a node may report here.
    pub fn may_report(&self, node: NodeId) -> bool {
        self.children.contains_key(&node)
            || self.extra_reporters.contains_key(&node)
            || self.members.contains(&node)
    }

    /// Acknowledged prefix of a child; `None` for other nodes.
    pub fn has(&self, node: NodeId) -> Option<u64> {
        self.children.get(&node).map(|child| child.map.next())
    }

    /// Returns true if the first kept message is kept for this child.
    pub fn awaits(&self, node: NodeId, end: u64) -> bool {
        self.children.get(&node).is_some_and(|child| child.stable < end && child.stable <= self.base())
    }

    /// Returns true if this child has no room for a message.
    pub fn is_full(&self, node: NodeId, number: u64) -> bool {
        self.children.get(&node).is_some_and(|child| child.limit <= number)
    }

    /// Returns true if messages before `end` may be missing below.
    pub fn is_behind(&self, end: u64) -> bool {
        self.stable.get().is_some_and(|stable| stable < end)
    }

    /// Reports the state for each child.
    pub fn report_states(&self, end: u64, tell: &mut dyn FnMut(ObservedState)) {
        for (node, child) in &self.children {
            let state = match child.stable {
                _ if child.is_lost_helper => "Lost",
                stable if stable < end => "Behind",
                _ => "Complete",
            };
            tell(ObservedState { of: STATES[0].of, about: node.0.into(), state, turn: 0 });
        }
    }
}

impl AckFields {
    /// Expands the numbers near `known`. Fails if they contradict each other.
    fn read(ack: &Ack<'_>, known: u64) -> Result<Self, DropReason> {
        let next = near(ack.next, known);
        let below = u64::from(ack.next.wrapping_sub(ack.stable));
        let above = u64::from(ack.limit.wrapping_sub(ack.next));
        match next.checked_sub(below) {
            Some(stable) if below <= MAX_SEQUENCE_SPAN && above <= MAX_SEQUENCE_SPAN => {
                Ok(AckFields { next, stable, limit: next + above })
            }
            _ => Err(DropReason::Malformed),
        }
    }
}

/// Maximum distance of the sequence numbers in one acknowledgment; larger ones are malformed.
const MAX_SEQUENCE_SPAN: u64 = 1 << 20;
/// Maximum number of messages that one acknowledgment requests; the next one requests the rest.
const MAX_REQUESTS_PER_ACK: u64 = 1024;
/// Maximum age of a report that an acknowledgment may claim.
const MAX_REPORT_AGE: Duration = Duration::from_secs(10);
