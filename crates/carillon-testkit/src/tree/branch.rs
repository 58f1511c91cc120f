//! What a node keeps for those who turn to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use carillon_core::{DropReason, Duration, NodeId, Time};

/// The children of a node, what they have acknowledged, and the messages that not all of them have.
#[derive(Debug)]
pub(super) struct Branch {
    /// The number of the first message kept.
    base: u64,
    kept: VecDeque<Bytes>,
    children: BTreeMap<NodeId, Child>,
    /// Children that were given up: they do not come back with a table.
    lost: BTreeSet<NodeId>,
    /// Repairs: the message, and who lacks it.
    due: BTreeSet<(u64, NodeId)>,
    limit: u64,
    wait: Duration,
    timer: Option<Time>,
}

#[derive(Debug)]
struct Child {
    /// It and all below it have the messages below this.
    has: u64,
    /// Repairs since it last answered.
    repeats: u64,
    /// It was given up, and has helped others: what they may lack is kept until they have another.
    is_held: bool,
}

impl Branch {
    pub fn new(limit: u64, wait: Duration) -> Self {
        Branch {
            base: 0,
            kept: VecDeque::new(),
            children: BTreeMap::new(),
            lost: BTreeSet::new(),
            due: BTreeSet::new(),
            limit,
            wait: wait.max(Duration::from_nanos(1)),
            timer: None,
        }
    }

    /// These are the children from now on. Who is new may lack whatever is kept; who was given up stays only as long as
    /// others still turn to it.
    pub fn adopt(&mut self, children: Vec<NodeId>, is_helper: impl Fn(NodeId) -> bool) {
        let lost = &self.lost;
        self.children.retain(|node, _| children.contains(node) && (!lost.contains(node) || is_helper(*node)));
        let new = children.into_iter().filter(|node| !self.lost.contains(node));
        for node in new {
            let has = self.base;
            self.children.entry(node).or_insert(Child { has, repeats: 0, is_held: false });
        }
        self.trim();
    }

    /// Keeps the next message.
    pub fn push(&mut self, payload: Bytes) {
        self.kept.push_back(payload);
        self.trim();
    }

    /// A child has everything below this; it cannot have more than there is. Whether it got on.
    pub fn on_ack(&mut self, child: NodeId, has: u64, most: u64) -> Result<bool, DropReason> {
        let child = self.children.get_mut(&child).ok_or(DropReason::NotAMember)?;
        if has > most || child.is_held {
            return Err(DropReason::OutOfWindow);
        }
        let gets_on = has > child.has;
        // Who answers lives: what keeps it may be one below it.
        child.repeats = 0;
        if gets_on {
            child.has = has;
            self.trim();
        }
        Ok(gets_on)
    }

    /// Asks for repairs if it is time; returns who is given up.
    pub fn on_timeout(&mut self, now: Time, sent: u64, is_helper: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let mut lost = Vec::new();
        if self.timer.is_none_or(|at| at > now) {
            return lost;
        }
        self.timer = None;
        for (&node, child) in self.children.iter_mut().filter(|(_, child)| !child.is_held && child.has < sent)
        {
            child.repeats += 1;
            if child.repeats > self.limit {
                lost.push(node);
                child.is_held = true;
            } else {
                self.due
                    .extend((child.has..sent.min(child.has + MAX_REPAIR_BURST)).map(|number| (number, node)));
            }
        }
        for &node in &lost {
            self.lost.insert(node);
            if !is_helper(node) {
                self.children.remove(&node);
            }
        }
        self.trim();
        lost
    }

    /// Nothing waits for this child any more.
    pub fn expel(&mut self, child: NodeId) {
        self.lost.insert(child);
        self.children.remove(&child);
        self.trim();
    }

    /// The next repair, unless it has become needless.
    pub fn next_repair(&mut self) -> Option<(NodeId, u64, Bytes)> {
        loop {
            let (number, node) = self.due.pop_first()?;
            let payload = number.checked_sub(self.base).and_then(|index| self.kept.get(index as usize));
            let lacks = self.children.get(&node).is_some_and(|child| child.has <= number && !child.is_held);
            if let Some(payload) = payload.filter(|_| lacks) {
                return Some((node, number, payload.clone()));
            }
        }
    }

    /// Somebody lacks something that was sent: looks again in a while.
    pub fn watch(&mut self, now: Time, sent: u64) {
        let waits = self.children.values().any(|child| !child.is_held && child.has < sent);
        match waits {
            true => self.timer = self.timer.or(Some(now + self.wait)),
            false => self.timer = None,
        }
    }

    /// When it looks.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timer
    }

    /// All have the messages below this.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Messages kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether it waits for this child.
    pub fn awaits(&self, child: NodeId, sent: u64) -> bool {
        self.children.get(&child).is_some_and(|child| child.has < sent)
    }

    fn trim(&mut self) {
        let end = self.base + self.kept.len() as u64;
        let least = self.children.values().map(|child| child.has).min().unwrap_or(end);
        while self.base < least.min(end) {
            self.kept.pop_front();
            self.base += 1;
        }
    }
}

/// Messages sent to a child at once that lacks more.
const MAX_REPAIR_BURST: u64 = 4;
