//! A parent: it sends messages to its children, and finds out by polls what they have.

mod child;
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
use polls::Polls;
pub(crate) use recovery::Response;
pub(crate) use sending::{Sending, To};

/// The machine of section 3 on the side of the parent: what it has sent and who has that, what is to be sent again, and whom it asks
/// when. It knows children by their index and no packets; what it sends is told by [`Parent::poll_sending`].
#[derive(Debug)]
pub(crate) struct Parent {
    rules: Rules,
    children: Vec<Child>,
    live: usize,
    messages: Numbered<Message>,
    /// One past HS, the highest message sent.
    sent: u64,
    /// One past the last message that each child has room for.
    limits: Minimum,
    /// LE of each child.
    lefts: Minimum,
    plan: ResponsePlan,
    polls: Polls,
    /// Messages that are to be sent again, and to whom.
    again: BTreeMap<u64, Again>,
    /// Messages that somebody lacks, and that wait for what others say.
    collecting: BTreeSet<u64>,
    /// Children that have not answered a poll in time.
    absentees: BTreeSet<usize>,
    /// Children whose buffers are full of what their applications have not taken.
    full: BTreeSet<usize>,
    /// Children that have what they have not consumed.
    behind: BTreeSet<usize>,
    /// Nothing is done with: somebody is lost, and who takes its place is not known yet.
    held: bool,
    /// Packets of the transmission under way: a message may go to some children one by one.
    burst: VecDeque<Sending>,
    pace: TokenBucket,
    /// When there may be something to send.
    wake: Option<Time>,
    budget: RepairBudget<usize>,
    /// Children given up.
    lost: Vec<usize>,
    /// Children because of which messages are sent again, and how many.
    needs: Vec<(usize, u32)>,
}

/// A message that not all have.
#[derive(Debug)]
pub(crate) struct Message {
    pub payload: Bytes,
    /// When it was first sent, and of how many outstanding.
    pub first_sent: Option<(Time, u32)>,
    /// Whether it was given up for somebody.
    pub failed: bool,
    recovery: Recovery,
    /// How many children have it, and how many are known to lack it.
    acked: usize,
    nacked: usize,
    /// When it was last sent again to all.
    resent: Option<Time>,
}

/// status(seq), section 2.5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// Nobody is known to lack it.
    NoNack,
    /// Somebody is: who else, is being found out.
    Collection,
    /// It was sent again; who still lacks it gets it at once.
    Retransmitted,
}

/// To whom a message is to be sent again.
#[derive(Clone, Debug)]
enum Again {
    All,
    Some(BTreeSet<usize>),
}

impl Message {
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

    /// Its name as the protocol's page has it.
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
    /// The parent of so many children.
    pub fn new(rules: Rules, children: usize) -> Self {
        let (mut limits, mut lefts) = (Minimum::default(), Minimum::default());
        for _ in 0..children {
            limits.insert(rules.window);
            lefts.insert(0);
        }
        Parent {
            children: vec![Child::new(rules.window); children],
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

    /// Adds a message, whether there is room for it or not.
    pub fn push(&mut self, payload: Bytes) -> u64 {
        self.messages.push(Message::new(payload))
    }

    /// Whether as many messages are outstanding as the window holds.
    pub fn is_full(&self) -> bool {
        self.messages.len() as u64 >= self.rules.window
    }

    /// The messages that not all have.
    pub fn messages(&self) -> &Numbered<Message> {
        &self.messages
    }

    /// The next message that all have by now, and how it ended.
    pub fn pop_complete(&mut self) -> Option<(u64, Outcome, u32)> {
        let first = self.messages.first()?;
        let start = self.messages.start();
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

    /// Whether all children are done with a message, if that is waited for.
    fn is_consumed(&self, number: u64) -> bool {
        !self.rules.consumed || self.lefts.get().is_none_or(|least| least > number)
    }

    /// Nothing is done with until this is over.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// One more child, which has the next index: what it has is to be found out.
    pub fn adopt(&mut self, now: Time) {
        let index = self.children.len();
        self.children.push(Child::new(self.rules.window));
        self.live += 1;
        self.limits.insert(self.rules.window);
        self.lefts.insert(0);
        self.plan.add_child();
        if self.sent > 0 {
            self.plan.plan(now, index, self.rules.round_trip);
        }
    }

    /// What lies before this message will not come to this node any more: it has nothing of it, and goes on from there.
    pub fn skip_to(&mut self, first: u64) {
        if first > self.messages.end() {
            self.messages = Numbered::starting_at(first);
            self.sent = self.sent.max(first);
            self.again.clear();
            self.collecting.clear();
            self.rest();
        }
    }

    /// A child has children of its own: it is given up by time.
    pub fn set_helper(&mut self, index: usize) {
        self.children[index].helps = true;
    }

    /// The children that somebody waits for.
    pub fn live_children(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.children.len()).filter(|&index| self.children[index].live)
    }

    /// All have everything: nobody is asked, and nothing is waited for.
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

    /// A child is not waited for any more.
    pub fn remove(&mut self, index: usize) {
        if !self.children.get(index).is_some_and(|child| child.live) {
            return;
        }
        self.set_limit(index, None);
        let child = &mut self.children[index];
        child.live = false;
        self.live -= 1;
        let start = self.messages.start();
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
        self.decide_all(Time::ZERO, u64::MAX);
    }

    /// What has been sent is given up for a child.
    fn skip(&mut self, index: usize) {
        let (start, sent) = (self.messages.start(), self.sent);
        let child = &mut self.children[index];
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

    /// A child's window begins here, and is so large; or it has none.
    fn set_limit(&mut self, index: usize, window: Option<(u64, u64)>) {
        let child = &mut self.children[index];
        self.limits.remove(child.limit());
        self.lefts.remove(child.left);
        if let Some((left, size)) = window {
            (child.left, child.size) = (child.left.max(left), size);
            self.limits.insert(child.limit());
            self.lefts.insert(child.left);
        }
    }

    /// EW: how many messages more all have room for.
    pub fn effective_window(&self) -> u64 {
        self.limits.get().unwrap_or(u64::MAX).saturating_sub(self.sent)
    }

    /// MTR x NC: from so many children on a packet goes to all.
    fn multicast_from(&self) -> f64 {
        self.rules.multicast_ratio * self.live as f64
    }

    /// The estimate of a child's round trip.
    fn distance(&self, index: usize) -> Duration {
        self.children[index].distance(self.rules.round_trip)
    }

    /// A child by its index.
    pub fn child(&self, index: usize) -> Option<&Child> {
        self.children.get(index).filter(|child| child.live)
    }

    /// The first message that a child lacks.
    pub fn acknowledged(&self, index: usize) -> Option<u64> {
        self.child(index).map(|child| child.map.next())
    }

    /// Whether the oldest message, which was sent, is held because of this child, or the next one, for which it has no
    /// room.
    pub fn awaits(&self, index: usize) -> bool {
        let start = self.messages.start();
        let waits = |child: &Child| !child.map.has(start) || (self.rules.consumed && child.left <= start);
        let is_full = |child: &Child| self.sent < self.messages.end() && child.limit() <= self.sent;
        self.child(index).is_some_and(|child| (start < self.sent && waits(child)) || is_full(child))
    }

    /// Children that were given up since this was last asked for.
    pub fn take_lost(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.lost)
    }

    /// Children that lack messages which are sent again therefore, and how many.
    pub fn take_needs(&mut self) -> Vec<(usize, u32)> {
        std::mem::take(&mut self.needs)
    }
}
