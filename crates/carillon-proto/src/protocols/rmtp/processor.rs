//! The acknowledgment processor: what those who report to a node have, and what it sends them again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{DropReason, NodeId, ObservedState, Time};
use carillon_wire::map::MAX_WORDS;
use carillon_wire::rmtp::Ack;

use super::config::Settings;
use super::describe::DESCRIBED;
use crate::blocks::{HoldOff, Lowest, Numbered, PastLimit, ReceiverMap, RepairBudget, Silence, near};

/// Of the sender, or of a designated receiver. Which messages there are to repair with, its node says in each call.
#[derive(Debug)]
pub(super) struct Processor {
    settings: Settings,
    members: Arc<[NodeId]>,
    children: BTreeMap<NodeId, Child>,
    /// Members that report here though another waits for them: they are nearer to this node.
    extra_reporters: BTreeMap<NodeId, Child>,
    /// Of the children: before which all below it have everything, what it lacks first, how far it has room.
    stable: Lowest,
    next: Lowest,
    limit: Lowest,
    /// Children that were given up: they do not come back with a table.
    lost: BTreeSet<NodeId>,
    /// From the first message on that somebody may lack.
    slots: Numbered<Slot>,
    /// What was asked for since repairs were last sent.
    requested: BTreeSet<u64>,
    due: BTreeSet<(u64, RepairTarget)>,
    requests: u64,
    budget: RepairBudget<NodeId>,
    /// The oldest news that an acknowledgment has been.
    max_report_age: Duration,
}

/// Whom a repair goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RepairTarget {
    Group,
    Node(NodeId),
}

/// A message that has passed.
#[derive(Debug, Default)]
struct Slot {
    /// When all could last have heard it.
    at: Option<Time>,
    to: HoldOff<NodeId>,
    requested: Vec<NodeId>,
}

/// A node that reports here.
#[derive(Debug, Default)]
struct Child {
    map: ReceiverMap,
    stable: u64,
    limit: u64,
    silence: Silence,
    /// What it lacked first when it was last looked at.
    last_next: u64,
    /// It has said something since it was last looked at.
    has_reported: bool,
    /// It is repaired elsewhere.
    served: bool,
    /// It was given up, and has helped others: what they may lack is kept until they have another.
    is_lost_helper: bool,
}

/// An acknowledgment with its numbers as they were.
struct AckFields {
    next: u64,
    stable: u64,
    limit: u64,
}

impl Processor {
    /// Of a node that these report to. Other members may turn to it as well.
    pub fn new(settings: &Settings, members: &Arc<[NodeId]>, children: Vec<NodeId>) -> Self {
        let mut processor = Processor {
            settings: settings.clone(),
            members: members.clone(),
            children: BTreeMap::new(),
            extra_reporters: BTreeMap::new(),
            stable: Lowest::default(),
            next: Lowest::default(),
            limit: Lowest::default(),
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

    /// These report here from now on. Who is new may lack whatever is kept; who was given up stays only as long as others
    /// report to it.
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

    /// Nothing waits for this child any more; what those below one that has helped may lack is kept until they report
    /// elsewhere.
    pub fn expel(&mut self, node: NodeId, is_helper: bool) {
        self.lost.insert(node);
        match self.children.get_mut(&node).filter(|_| is_helper) {
            Some(child) => child.is_lost_helper = true,
            None => self.remove(node),
        }
    }

    /// A message passes here, or is sent to all: who lacks it later has lost it.
    pub fn on_passed(&mut self, now: Time, number: u64) {
        while self.slots.end() <= number {
            self.slots.push(Slot::default());
        }
        if let Some(slot) = self.slots.get_mut(number) {
            slot.at = Some(now);
        }
    }

    /// A node says what it has: no more than the messages before `most`. Those before `end` are known here to have been
    /// sent; `holds` says which of them are here. Returns what it lacks first.
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
        let base = self.slots.start();
        let extra_reporter = || Child { map: ReceiverMap::new(base, []), ..Child::default() };
        let child = match is_child {
            true => self.children.get_mut(&from),
            false => Some(self.extra_reporters.entry(from).or_insert_with(extra_reporter)),
        };
        let Some(child) = child.filter(|child| !child.is_lost_helper) else {
            return Err(DropReason::OutOfWindow);
        };
        let news = AckFields::read(ack, child.map.next())?;
        if news.next > most {
            return Err(DropReason::OutOfWindow);
        }
        let before = (child.stable, child.map.next(), child.limit);
        child.map = child.map.or(&ReceiverMap::new(news.next, ack.received.words()));
        child.stable = child.stable.max(news.stable);
        child.limit = child.limit.max(news.limit);
        (child.has_reported, child.served) = (true, ack.served);
        if is_child {
            self.stable.change(before.0, child.stable);
            self.next.change(before.1, child.map.next());
            self.limit.change(before.2, child.limit);
        }
        if ack.served {
            return Ok(news.next);
        }
        // What was cut off at the end of the longest map is not said to be missing.
        let whole = ack.received.count() < MAX_WORDS;
        let told = if whole { end } else { news.next + 1 + ack.received.span() };
        let age = Duration::from_micros(ack.span.into());
        self.max_report_age = self.max_report_age.max(age.min(MAX_REPORT_AGE));
        let left = self.budget.left(from, end).min(MAX_REQUESTS_PER_ACK) as usize;
        let wanted = child.map.missing(news.next.max(base)..end.min(told).min(child.limit));
        let mut requested = 0;
        for number in wanted.filter(|&number| holds(number)) {
            let Some(slot) = self.slots.get_mut(number) else { break };
            // It may be on its way.
            let under_way = slot.at.is_none_or(|at| now.since(at) < age) || !slot.to.is_over(now, from, age);
            if under_way || slot.requested.contains(&from) {
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
        Ok(news.next)
    }

    /// What this node has asked for goes to it at once, and to it alone.
    pub fn repair_at_once(&mut self, node: NodeId) {
        let mine =
            |number: &&u64| self.slots.get(**number).is_some_and(|slot| slot.requested.contains(&node));
        let numbers: Vec<u64> =
            self.requested.iter().filter(mine).take(self.settings.txnow_burst).copied().collect();
        for number in numbers {
            self.due.insert((number, RepairTarget::Node(node)));
            if let Some(slot) = self.slots.get_mut(number) {
                slot.requested.retain(|asker| *asker != node);
            }
        }
    }

    /// Whether something was asked for that is not due yet.
    pub fn has_requests(&self) -> bool {
        !self.requested.is_empty()
    }

    /// It is time to repair: to the group what many lack, to each the rest.
    pub fn on_retx(&mut self) {
        for number in std::mem::take(&mut self.requested) {
            let Some(slot) = self.slots.get_mut(number) else { continue };
            let askers = std::mem::take(&mut slot.requested);
            match askers.len() > self.settings.mcast_thresh {
                true => _ = self.due.insert((number, RepairTarget::Group)),
                false => self.due.extend(askers.into_iter().map(|node| (number, RepairTarget::Node(node)))),
            }
        }
    }

    /// The next repair, unless it has become needless.
    pub fn next_repair(&mut self, now: Time, holds: impl Fn(u64) -> bool) -> Option<(u64, RepairTarget)> {
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

    /// Looks whether all get on. Returns who is given up, and whether messages were skipped for somebody.
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
            let can_get_on = next < end.min(child.limit) && holds(next) && !child.served;
            let waits_silently = child.stable < end && !std::mem::take(&mut child.has_reported);
            if next > child.last_next || !(can_get_on || waits_silently) {
                child.last_next = next;
                child.silence.heard();
            } else if child.silence.missed(patience, interval) {
                over.push(node);
            }
        }
        // Who has helped others cannot be skipped: they need another.
        let skips = self.settings.past_limit == PastLimit::Skip;
        let (skipped, lost): (Vec<_>, Vec<_>) = over.into_iter().partition(|&node| skips && !is_helper(node));
        skipped.iter().for_each(|&node| self.skip(node, end));
        lost.iter().for_each(|&node| self.expel(node, is_helper(node)));
        (lost, !skipped.is_empty())
    }

    /// This child is taken to have everything.
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

    /// The first message that somebody below may lack, this node having all before `own`; what lies before it is forgotten.
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

    /// The first message that somebody below may lack.
    pub fn base(&self) -> u64 {
        self.slots.start()
    }

    /// The first message that a node that reports here lacks.
    pub fn next(&self) -> Option<u64> {
        self.next.get()
    }

    /// The first message for which one of them has no room.
    pub fn limit(&self) -> Option<u64> {
        self.limit.get()
    }

    /// Requests since this was last asked.
    pub fn take_requests(&mut self) -> u64 {
        std::mem::take(&mut self.requests)
    }

    /// Whether a node may report here.
    pub fn may_report(&self, node: NodeId) -> bool {
        self.children.contains_key(&node)
            || self.extra_reporters.contains_key(&node)
            || self.members.contains(&node)
    }

    /// How much a child has, if it is one.
    pub fn has(&self, node: NodeId) -> Option<u64> {
        self.children.get(&node).map(|child| child.map.next())
    }

    /// Whether the first message that is kept is kept for this child.
    pub fn awaits(&self, node: NodeId, end: u64) -> bool {
        self.children.get(&node).is_some_and(|child| child.stable < end && child.stable <= self.base())
    }

    /// Whether this child has no room for this message.
    pub fn is_full(&self, node: NodeId, number: u64) -> bool {
        self.children.get(&node).is_some_and(|child| child.limit <= number)
    }

    /// Whether somebody below may lack something.
    pub fn is_behind(&self, end: u64) -> bool {
        self.stable.get().is_some_and(|stable| stable < end)
    }

    /// Which states it is in for each of them.
    pub fn report_states(&self, end: u64, tell: &mut dyn FnMut(ObservedState)) {
        for (node, child) in &self.children {
            let state = match child.stable {
                _ if child.is_lost_helper => "Lost",
                stable if stable < end => "Behind",
                _ => "Complete",
            };
            tell(ObservedState { of: DESCRIBED.states[0].of, about: node.0.into(), state, turn: 0 });
        }
    }
}

impl AckFields {
    /// The numbers near what is known; an error where they cannot go together.
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

/// Numbers of one acknowledgment lie no further apart.
const MAX_SEQUENCE_SPAN: u64 = 1 << 20;
/// What one acknowledgment may ask for: more is asked for by the next.
const MAX_REQUESTS_PER_ACK: u64 = 1024;
/// No news is taken to be older.
const MAX_REPORT_AGE: Duration = Duration::from_secs(10);
