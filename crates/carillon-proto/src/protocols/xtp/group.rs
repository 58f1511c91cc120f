//! Sender's view of its receivers: one auxiliary context for each, and their combined status.

use std::time::Duration;

use carillon_core::{NodeId, Time};
use carillon_wire::xtp::Common;

use crate::blocks::{MemberSet, Members, Minimum, RoundTrip};

/// Contexts of the receivers of an association.
#[derive(Debug)]
pub(super) struct ReceiverContexts {
    members: Members,
    contexts: Vec<ReceiverContext>,
    /// Receivers that the sender does not wait for: abandoned, or not demanded.
    inactive: MemberSet,
    /// Minima over the active receivers, which each status needs.
    minima: Minima,
    /// Number of receivers, from the first on, that must receive everything.
    demanded: usize,
    /// Status requests that some receiver has not answered, oldest first.
    requests: std::collections::VecDeque<StatusRequest>,
}

/// Minima over the active receivers.
#[derive(Debug, Default)]
struct Minima {
    rseq: Minimum,
    alloc: Minimum,
    echo: Minimum,
}

impl Minima {
    /// Adds a receiver.
    fn insert(&mut self, context: &ReceiverContext) {
        self.rseq.insert(context.rseq);
        self.alloc.insert(context.alloc);
        self.echo.insert(context.echo.into());
    }

    /// Removes a receiver.
    fn remove(&mut self, context: &ReceiverContext) {
        self.rseq.remove(context.rseq);
        self.alloc.remove(context.alloc);
        self.echo.remove(context.echo.into());
    }
}

/// Auxiliary context of one receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiverContext {
    /// Key that the receiver gave in its answer to FIRST.
    pub key: Option<u64>,
    pub rseq: u64,
    /// Sync number of the status that reported `rseq`.
    rseq_sync: u32,
    pub alloc: u64,
    pub echo: u32,
    pub rtt: RoundTrip,
    /// True if the RTT estimator restarts with the next sample.
    rtt_is_stale: bool,
    /// Time of the last packet from the receiver.
    pub last_received: Time,
}

/// A status request: sync number and time.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusRequest {
    pub sync: u32,
    pub at: Time,
}

impl ReceiverContexts {
    pub fn new(members: Members, demanded: usize) -> Self {
        let contexts = vec![ReceiverContext::default(); members.len()];
        let mut inactive = MemberSet::empty(members.len());
        for index in demanded.min(members.len())..members.len() {
            inactive.insert(index);
        }
        let mut minima = Minima::default();
        contexts.iter().take(demanded).for_each(|context| minima.insert(context));
        ReceiverContexts { members, contexts, inactive, minima, demanded, requests: Default::default() }
    }

    /// Index of a member, whether active or not.
    pub fn member_index(&self, node: NodeId) -> Option<usize> {
        self.members.index_of(node)
    }

    /// Returns true if the member need not receive everything.
    pub fn is_optional(&self, node: NodeId) -> bool {
        self.members.index_of(node).is_some_and(|index| index >= self.demanded)
    }

    /// Admits a joining or returning receiver, which gets everything from byte `from` on.
    pub fn admit(&mut self, index: usize, key: u64, from: u64, room: u64, sync: u32, now: Time) {
        if !self.inactive.remove(index) {
            self.minima.remove(&self.contexts[index]);
        }
        let alloc = from.saturating_add(room);
        self.contexts[index] = ReceiverContext {
            key: Some(key),
            rseq: from,
            rseq_sync: sync,
            alloc,
            echo: sync,
            last_received: now,
            ..ReceiverContext::default()
        };
        self.minima.insert(&self.contexts[index]);
    }

    /// Index of an active member.
    pub fn index_of(&self, node: NodeId) -> Option<usize> {
        self.members.index_of(node).filter(|&index| !self.inactive.contains(index))
    }

    /// Returns true if the member was abandoned.
    pub fn was_abandoned(&self, node: NodeId) -> bool {
        let inactive = self.members.index_of(node).is_some_and(|index| self.inactive.contains(index));
        inactive && !self.is_optional(node)
    }

    pub fn node(&self, index: usize) -> NodeId {
        self.members.node(index)
    }

    pub fn context(&self, index: usize) -> &ReceiverContext {
        &self.contexts[index]
    }

    /// Receivers that the sender waits for.
    pub fn active(&self) -> impl Iterator<Item = (usize, &ReceiverContext)> {
        self.contexts.iter().enumerate().filter(|(index, _)| !self.inactive.contains(*index))
    }

    /// Stops waiting for a receiver. Returns true if the sender waited for it.
    pub fn remove(&mut self, index: usize) -> bool {
        let was_active = self.inactive.insert(index);
        if was_active {
            self.minima.remove(&self.contexts[index]);
        }
        was_active
    }

    /// Returns true if every active receiver has answered FIRST.
    pub fn have_all_answered_first(&self) -> bool {
        self.active().all(|(_, context)| context.key.is_some())
    }

    /// First byte that an active receiver is missing; `None` without active receivers.
    pub fn rseq(&self) -> Option<u64> {
        self.minima.rseq.get()
    }

    /// First byte that an active receiver has no room for.
    pub fn alloc(&self) -> Option<u64> {
        self.minima.alloc.get()
    }

    /// Records a status request. Beyond the limit, drops the second oldest.
    pub fn add_request(&mut self, request: StatusRequest) {
        // Later answers cover dropped requests.
        if self.requests.len() >= MAX_STATUS_REQUESTS {
            self.requests.remove(1);
        }
        self.requests.push_back(request);
    }

    /// Newest status request that some receiver has not answered.
    pub fn newest_request(&self) -> Option<StatusRequest> {
        self.requests.back().copied()
    }

    /// Drops requests that every active receiver has answered.
    pub fn prune_requests(&mut self) {
        let echo = self.minima.echo.get();
        while self.requests.front().is_some_and(|request| echo.is_none_or(|echo| echo >= request.sync.into()))
        {
            self.requests.pop_front();
        }
    }

    /// Drops all requests.
    pub fn clear_requests(&mut self) {
        self.requests.clear();
    }

    /// Active receivers that have not answered this sync number.
    pub fn silent(&self, sync: u32) -> Vec<usize> {
        self.active().filter(|(_, context)| context.echo < sync).map(|(index, _)| index).collect()
    }

    /// RTT estimators of the receivers that have not answered this sync number.
    pub fn silent_rtts(&self, sync: u32) -> impl Iterator<Item = &RoundTrip> {
        self.active().filter(move |(_, context)| context.echo < sync).map(|(_, context)| &context.rtt)
    }

    /// Handles a status. `oldest` measures the RTT from the first unanswered request (the thesis's rule) instead of
    /// the answered one. Returns true if `rseq` moves back in answer to a newer request. The receiver is active.
    pub fn on_status(&mut self, now: Time, index: usize, status: Common, oldest: bool) -> bool {
        debug_assert!(!self.inactive.contains(index));
        let context = &mut self.contexts[index];
        let answered = |request: &&StatusRequest| request.sync > context.echo && request.sync <= status.echo;
        let request = match oldest {
            true => self.requests.iter().find(answered),
            false => self.requests.iter().rev().find(answered).filter(|request| request.sync == status.echo),
        };
        if let Some(request) = request {
            if std::mem::take(&mut context.rtt_is_stale) {
                context.rtt = RoundTrip::default();
            }
            context.rtt.on_sample(now.since(request.at).min(MAX_ROUND_TRIP));
        }
        let (rseq, alloc, echo) = (context.rseq, context.alloc, context.echo);
        let moves_back = status.rseq < context.rseq && status.echo > context.rseq_sync;
        if status.rseq > context.rseq || moves_back {
            (context.rseq, context.rseq_sync) = (status.rseq, status.echo);
        }
        context.alloc = context.alloc.max(status.alloc);
        context.echo = context.echo.max(status.echo);
        context.last_received = now;
        self.minima.rseq.change(rseq, context.rseq);
        self.minima.alloc.change(alloc, context.alloc);
        self.minima.echo.change(echo.into(), context.echo.into());
        moves_back
    }

    /// Records the key of a receiver. Returns false if it had another one.
    pub fn on_key(&mut self, index: usize, key: u64) -> bool {
        *self.contexts[index].key.get_or_insert(key) == key
    }

    /// Restarts the RTT estimators of receivers that have not answered this sync number.
    pub fn invalidate_rtts(&mut self, sync: u32) {
        for index in self.silent(sync) {
            self.contexts[index].rtt_is_stale = true;
        }
    }

    /// Counts all receivers as received from at `now`, for the silence timeout.
    pub fn mark_received(&mut self, now: Time) {
        for context in &mut self.contexts {
            context.last_received = context.last_received.max(now);
        }
    }
}

const MAX_STATUS_REQUESTS: usize = 256;
const MAX_ROUND_TRIP: Duration = Duration::from_secs(100_000);
