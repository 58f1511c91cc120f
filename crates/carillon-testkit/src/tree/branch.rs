//! State of a node for its children.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use carillon_core::{DropReason, Duration, NodeId, Time};

/// Children of a node with their acknowledgments, and the messages that some child is missing.
#[derive(Debug)]
pub(super) struct Branch {
    /// Number of the first message kept.
    base: u64,
    kept: VecDeque<Bytes>,
    children: BTreeMap<NodeId, Child>,
    /// Expelled children, which do not return with a new table.
    lost: BTreeSet<NodeId>,
    /// Pending repairs: the message, and the child that is missing it.
    due: BTreeSet<(u64, NodeId)>,
    limit: u64,
    wait: Duration,
    timer: Option<Time>,
}

#[derive(Debug)]
struct Child {
    /// First message that the child or some node below it is missing.
    has: u64,
    /// Number of repairs since its last acknowledgment.
    repeats: u64,
    /// True if the child was expelled and is a helper: its children may miss messages until they have another parent.
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

    /// Sets the children. A new child may be missing every kept message; an expelled one stays only as long as it is
    /// a helper.
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

    /// Handles a cumulative acknowledgment, which cannot exceed `most`. Returns true if it made progress.
    pub fn on_ack(&mut self, child: NodeId, has: u64, most: u64) -> Result<bool, DropReason> {
        let child = self.children.get_mut(&child).ok_or(DropReason::NotAMember)?;
        if has > most || child.is_held {
            return Err(DropReason::OutOfWindow);
        }
        let gets_on = has > child.has;
        // An answer shows liveness, even if a node below holds the child back.
        child.repeats = 0;
        if gets_on {
            child.has = has;
            self.trim();
        }
        Ok(gets_on)
    }

    /// Schedules repairs if the timer is due; returns the children that are expelled.
    pub fn on_timeout(&mut self, now: Time, sent: u64, is_helper: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let mut lost = Vec::new();
        if self.timer.is_none_or(|at| at > now) {
            return lost;
        }
        self.timer = None;
        // Repair a burst for each child that lags; expel it after too many repairs without an answer.
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

    /// Stops waiting for a child.
    pub fn expel(&mut self, child: NodeId) {
        self.lost.insert(child);
        self.children.remove(&child);
        self.trim();
    }

    /// Takes the next repair that is still needed.
    pub fn next_repair(&mut self) -> Option<(NodeId, u64, Bytes)> {
        loop {
            let (number, node) = self.due.pop_first()?;
            // Skip repairs that an acknowledgment has made unnecessary.
            let payload = number.checked_sub(self.base).and_then(|index| self.kept.get(index as usize));
            let lacks = self.children.get(&node).is_some_and(|child| child.has <= number && !child.is_held);
            if let Some(payload) = payload.filter(|_| lacks) {
                return Some((node, number, payload.clone()));
            }
        }
    }

    /// Arms the timer if some child is missing a transmitted message.
    pub fn watch(&mut self, now: Time, sent: u64) {
        let waits = self.children.values().any(|child| !child.is_held && child.has < sent);
        match waits {
            true => self.timer = self.timer.or(Some(now + self.wait)),
            false => self.timer = None,
        }
    }

    /// Time of the timer.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timer
    }

    /// Number of the first message that some child is missing.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Number of kept messages.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns true if the node waits for this child.
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

/// Maximum number of repairs in a burst to a child.
const MAX_REPAIR_BURST: u64 = 4;
