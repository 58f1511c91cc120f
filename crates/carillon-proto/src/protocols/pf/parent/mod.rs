//! Parent: sends messages to its children, and polls them for their state.

mod child;
mod congestion;
mod packet;
mod polls;
mod recovery;
mod sending;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{Outcome, Time, TokenBucket};

use super::config::Rules;
use crate::blocks::{Minimum, Numbered, RepairBudget, ResponsePlan};
pub(crate) use child::Child;
pub(crate) use packet::{Sending, To};
use polls::Polls;
pub(crate) use recovery::Response;

/// Parent side of section 3: sent messages and their acknowledgments, retransmissions, and the plan of polls. It
/// addresses children by index and builds no packets; [`Parent::poll_sending`] returns the next transmission.
#[derive(Debug)]
pub(crate) struct Parent {
    rules: Rules,
    children: Vec<Child>,
    /// Number of live children.
    live: usize,
    messages: Numbered<Message>,
    /// First number beyond HS, the highest message sent.
    sent: u64,
    /// First message without room, for each child.
    limits: Minimum,
    /// LE of each child.
    lefts: Minimum,
    /// Planned times of polls (section 2.3).
    plan: ResponsePlan,
    /// Outstanding polls and their timeouts.
    polls: Polls,
    /// Messages due for retransmission, and their targets.
    again: BTreeMap<u64, Again>,
    /// Messages that a child is missing, and that wait for the responses of the other children.
    collecting: BTreeSet<u64>,
    /// Children with a timed-out poll.
    absentees: BTreeSet<usize>,
    /// Children with a buffer full of messages that the application has not taken.
    full: BTreeSet<usize>,
    /// Children with messages that they have not consumed.
    behind: BTreeSet<usize>,
    /// True while no message may complete, because the children of a lost helper have no new parent yet.
    held: bool,
    /// Packets of the present transmission: a message may go to several children one by one.
    burst: VecDeque<Sending>,
    pace: TokenBucket,
    /// Next time at which a packet may leave.
    wake: Option<Time>,
    budget: RepairBudget<usize>,
    /// Children that were expelled and not yet reported.
    lost: Vec<usize>,
    /// Children that caused retransmissions, and the number of messages.
    needs: Vec<(usize, u32)>,
}

/// Message that some child has not acknowledged.
#[derive(Debug)]
pub(crate) struct Message {
    pub payload: Bytes,
    /// Time of the first transmission, and the number of outstanding messages at that time.
    pub first_sent: Option<(Time, u32)>,
    /// True if the parent stopped waiting for a child that misses this message.
    pub failed: bool,
    recovery: Recovery,
    /// Number of children that have it.
    acked: usize,
    /// Number of children that are known to be missing it.
    nacked: usize,
    /// Time of the last retransmission to all.
    resent: Option<Time>,
}

/// Recovery state of a message, status(seq) in section 2.5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// No child is known to be missing it.
    NoNack,
    /// A child is missing it; the parent waits for the responses of the others.
    Collection,
    /// Retransmitted: a child that still misses it gets it at once.
    Retransmitted,
}

/// Targets of a retransmission.
#[derive(Clone, Debug)]
enum Again {
    All,
    Some(BTreeSet<usize>),
}

impl Message {
    /// Creates a message that has not been sent.
    fn new(payload: Bytes) -> Self {
        Message {
            payload,
            first_sent: None,
            failed: false,
            recovery: Recovery::NoNack,
            acked: 0,
            nacked: 0,
            resent: None,
        }
    }

    /// Name of the state on the protocol's page.
    pub fn state(&self) -> &'static str {
        match (self.first_sent, self.recovery) {
            (None, _) => "Waiting",
            (_, Recovery::NoNack) => "NoNack",
            (_, Recovery::Collection) => "Collection",
            (_, Recovery::Retransmitted) => "Retransmitted",
        }
    }
}

impl Parent {
    /// Creates the parent of `children` children.
    pub fn new(rules: Rules, children: usize) -> Self {
        let (mut limits, mut lefts) = (Minimum::default(), Minimum::default());
        let child = Child::new(rules.window, rules.congestion);
        for _ in 0..children {
            limits.insert(child.limit);
            lefts.insert(0);
        }
        Parent {
            children: vec![child; children],
            live: children,
            messages: Numbered::default(),
            sent: 0,
            limits,
            lefts,
            plan: ResponsePlan::new(children, rules.epoch, rules.quota),
            polls: Polls::default(),
            again: BTreeMap::new(),
            collecting: BTreeSet::new(),
            absentees: BTreeSet::new(),
            full: BTreeSet::new(),
            behind: BTreeSet::new(),
            held: false,
            burst: VecDeque::new(),
            pace: TokenBucket::new(rules.rate, rules.burst),
            wake: None,
            budget: RepairBudget::new(rules.repair_budget),
            lost: Vec::new(),
            needs: Vec::new(),
            rules,
        }
    }

    /// Adds a message and returns its number. The caller checks [`Parent::is_full`].
    pub fn push(&mut self, payload: Bytes) -> u64 {
        self.messages.push(Message::new(payload))
    }

    /// Returns true if the window is full of outstanding messages.
    pub fn is_full(&self) -> bool {
        self.messages.len() as u64 >= self.rules.window
    }

    /// Messages that are not complete.
    pub fn messages(&self) -> &Numbered<Message> {
        &self.messages
    }

    /// Removes the oldest message if it is complete, and returns its number, outcome and window.
    pub fn pop_complete(&mut self) -> Option<(u64, Outcome, u32)> {
        let first = self.messages.first()?;
        let start = self.messages.start();
        // Without live children every message is complete.
        let is_over = start < self.sent && first.acked >= self.live && self.is_consumed(start);
        if self.held || (self.live > 0 && !is_over) {
            return None;
        }
        let (number, message) = self.messages.pop()?;
        self.sent = self.sent.max(number + 1);
        self.again.remove(&number);
        self.collecting.remove(&number);
        if self.messages.is_empty() {
            self.rest();
        }
        let outcome = if message.failed { Outcome::Failed } else { Outcome::Acknowledged };
        Some((number, outcome, message.first_sent.map_or(0, |(_, window)| window)))
    }

    /// Returns true if all children have consumed a message, or if consumption is not required.
    fn is_consumed(&self, number: u64) -> bool {
        !self.rules.consumed || self.lefts.get().is_none_or(|least| least > number)
    }

    /// Keeps all messages from completing while `held`.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Adds a child with the next index, and plans a poll for its state.
    pub fn adopt(&mut self, now: Time) {
        let index = self.children.len();
        let child = Child::new(self.rules.window, self.rules.congestion);
        self.limits.insert(child.limit);
        self.children.push(child);
        self.live += 1;
        self.lefts.insert(0);
        self.plan.add_child();
        if self.sent > 0 {
            self.plan.plan(now, index, self.rules.round_trip);
        }
    }

    /// Starts anew at `first`: messages before it will not reach this node.
    pub fn skip_to(&mut self, first: u64) {
        if first > self.messages.end() {
            self.messages = Numbered::starting_at(first);
            self.sent = self.sent.max(first);
            self.again.clear();
            self.collecting.clear();
            self.rest();
        }
    }

    /// Marks a child as a helper, which is expelled after a silence instead of a number of polls.
    pub fn set_helper(&mut self, index: usize) {
        self.children[index].helps = true;
    }

    /// Indices of the children that the parent waits for.
    pub fn live_children(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.children.len()).filter(|&index| self.children[index].live)
    }

    /// Clears polls and transmissions once all messages are complete.
    fn rest(&mut self) {
        self.plan.clear();
        self.polls.clear();
        self.absentees.clear();
        self.burst.clear();
        self.wake = None;
        for child in &mut self.children {
            child.rest();
        }
    }

    /// Stops waiting for a child, and takes it out of all counts.
    pub fn remove(&mut self, index: usize) {
        if !self.children.get(index).is_some_and(|child| child.live) {
            return;
        }
        self.set_limit(index, None);
        let child = &mut self.children[index];
        child.live = false;
        self.live -= 1;
        let start = self.messages.start();
        // Counts of acknowledgments concern live children only.
        for (number, message) in (start..self.sent).zip(self.messages.iter_mut()) {
            message.acked -= usize::from(child.map.has(number));
            message.nacked -= usize::from(child.nacks(number));
        }
        for asked in child.asked.drain(..).filter(|asked| !asked.absent) {
            self.polls.on_answer(asked.poll);
        }
        child.resent.clear();
        self.plan.remove(index);
        self.absentees.remove(&index);
        self.full.remove(&index);
        self.behind.remove(&index);
        for again in self.again.values_mut() {
            if let Again::Some(to) = again {
                to.remove(&index);
            }
        }
        self.again.retain(|_, again| !matches!(again, Again::Some(to) if to.is_empty()));
        // Messages that waited for this child may now be decided.
        self.decide_all(Time::ZERO, u64::MAX);
    }

    /// Stops waiting for a child's missing messages: they fail for this child.
    fn skip(&mut self, index: usize) {
        let (start, sent) = (self.messages.start(), self.sent);
        let child = &mut self.children[index];
        // The child counts as if it had received everything sent.
        for (number, message) in (start..sent).zip(self.messages.iter_mut()) {
            if !child.map.has(number) {
                message.failed = true;
                message.acked += 1;
                message.nacked -= usize::from(child.nacks(number));
            }
        }
        child.map.assign(sent.max(child.map.next()), []);
        child.highest = child.highest.max(sent);
        child.absent = 0;
        child.forget_absent();
        self.absentees.remove(&index);
        self.set_limit(index, Some((sent, self.children[index].size)));
        self.decide_all(Time::ZERO, u64::MAX);
    }

    /// Replaces the window of a child by its left edge and size, or removes it.
    fn set_limit(&mut self, index: usize, window: Option<(u64, u64)>) {
        let child = &mut self.children[index];
        self.limits.remove(child.limit);
        self.lefts.remove(child.left);
        if let Some((left, size)) = window {
            (child.left, child.size) = (child.left.max(left), size);
            child.limit = child.first_without_room();
            self.limits.insert(child.limit);
            self.lefts.insert(child.left);
        }
    }

    /// Applies a change of a child's congestion window.
    fn update_limit(&mut self, index: usize) {
        let child = &mut self.children[index];
        self.limits.remove(child.limit);
        child.limit = child.first_without_room();
        self.limits.insert(child.limit);
    }

    /// EW, the effective window: number of further messages for which all children have room, and the network too if
    /// there is congestion control.
    pub fn effective_window(&self) -> u64 {
        self.limits.get().unwrap_or(u64::MAX).saturating_sub(self.sent)
    }

    /// MTR x NC: number of children from which a packet is multicast (section 2.5).
    fn multicast_from(&self) -> f64 {
        self.rules.multicast_ratio * self.live as f64
    }

    /// Round-trip estimate of a child.
    fn distance(&self, index: usize) -> Duration {
        self.children[index].distance(self.rules.round_trip)
    }

    /// Live child of an index.
    pub fn child(&self, index: usize) -> Option<&Child> {
        self.children.get(index).filter(|child| child.live)
    }

    /// First message that a child is missing.
    pub fn acknowledged(&self, index: usize) -> Option<u64> {
        self.child(index).map(|child| child.map.next())
    }

    /// Returns true if this child delays the oldest sent message, or has no room for the next one.
    pub fn awaits(&self, index: usize) -> bool {
        let start = self.messages.start();
        let waits = |child: &Child| !child.map.has(start) || (self.rules.consumed && child.left <= start);
        let is_full = |child: &Child| self.sent < self.messages.end() && child.limit <= self.sent;
        self.child(index).is_some_and(|child| (start < self.sent && waits(child)) || is_full(child))
    }

    /// Window that this parent reports to the node that sends its messages: the smallest at its children, or below
    /// them.
    pub fn reported_window(&self) -> Option<u64> {
        self.live_children().filter_map(|index| self.children[index].reported_window()).min()
    }

    /// Takes the children expelled since the last call.
    pub fn take_lost(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.lost)
    }

    /// Takes the children that caused retransmissions since the last call, and the number of messages.
    pub fn take_needs(&mut self) -> Vec<(usize, u32)> {
        std::mem::take(&mut self.needs)
    }
}
