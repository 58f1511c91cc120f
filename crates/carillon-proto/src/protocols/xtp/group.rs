//! What the sender knows of each receiver: an auxiliary context for each, and what they say together.

use std::time::Duration;

use carillon_core::{NodeId, Time};
use carillon_wire::xtp::Common;

use crate::blocks::{MemberSet, Members, RoundTrip};

/// The receivers of an association.
#[derive(Debug)]
pub(super) struct ReceiverContexts {
    members: Members,
    contexts: Vec<ReceiverContext>,
    /// Those that nobody waits for any more, or that nobody has waited for.
    gone: MemberSet,
    /// Of whom it is demanded that they have everything: the first ones.
    demanded: usize,
    /// Status was asked for, and not all have answered: by number, the oldest first.
    requests: std::collections::VecDeque<StatusRequest>,
}

/// What is known of one receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiverContext {
    /// It has answered FIRST, and this is its key.
    pub key: Option<u64>,
    pub rseq: u64,
    /// What it had answered when it said so.
    rseq_sync: u32,
    pub alloc: u64,
    pub echo: u32,
    pub rtt: RoundTrip,
    /// What is known of its round trip is not believed any more: the next one begins anew.
    rtt_is_stale: bool,
    /// When it was last heard.
    pub last_received: Time,
}

/// Status was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusRequest {
    pub sync: u32,
    pub at: Time,
}

impl ReceiverContexts {
    pub fn new(members: Members, demanded: usize) -> Self {
        let contexts = vec![ReceiverContext::default(); members.len()];
        let mut gone = MemberSet::empty(members.len());
        for index in demanded.min(members.len())..members.len() {
            gone.insert(index);
        }
        ReceiverContexts { members, contexts, gone, demanded, requests: Default::default() }
    }

    /// The place of a member, whatever became of it.
    pub fn member_index(&self, node: NodeId) -> Option<usize> {
        self.members.index_of(node)
    }

    /// Whether it is a member of which nothing is demanded.
    pub fn is_optional(&self, node: NodeId) -> bool {
        self.members.index_of(node).is_some_and(|index| index >= self.demanded)
    }

    /// A node joins, or comes back: it is to have everything from this byte on.
    pub fn admit(&mut self, index: usize, key: u64, from: u64, room: u64, sync: u32, now: Time) {
        self.gone.remove(index);
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
    }

    /// The place of a member that has not been given up.
    pub fn index_of(&self, node: NodeId) -> Option<usize> {
        self.members.index_of(node).filter(|&index| !self.gone.contains(index))
    }

    /// Whether it was given up.
    pub fn is_gone(&self, node: NodeId) -> bool {
        let gone = self.members.index_of(node).is_some_and(|index| self.gone.contains(index));
        gone && !self.is_optional(node)
    }

    pub fn node(&self, index: usize) -> NodeId {
        self.members.node(index)
    }

    pub fn context(&self, index: usize) -> &ReceiverContext {
        &self.contexts[index]
    }

    /// Those that are waited for.
    pub fn active(&self) -> impl Iterator<Item = (usize, &ReceiverContext)> {
        self.contexts.iter().enumerate().filter(|(index, _)| !self.gone.contains(*index))
    }

    /// Nobody waits for this one any more; returns whether somebody did.
    pub fn remove(&mut self, index: usize) -> bool {
        self.gone.insert(index)
    }

    /// Whether all of those that are waited for have answered FIRST.
    pub fn have_all_answered_first(&self) -> bool {
        self.active().all(|(_, context)| context.key.is_some())
    }

    /// The first byte that one of them lacks; `None` if nobody is left.
    pub fn rseq(&self) -> Option<u64> {
        self.active().map(|(_, context)| context.rseq).min()
    }

    /// The first byte that one of them has no room for.
    pub fn alloc(&self) -> Option<u64> {
        self.active().map(|(_, context)| context.alloc).min()
    }

    /// Status is asked for.
    pub fn add_request(&mut self, ask: StatusRequest) {
        // What is older is answered with it.
        if self.requests.len() >= MAX_STATUS_REQUESTS {
            self.requests.remove(1);
        }
        self.requests.push_back(ask);
    }

    /// The newest request for status, if not all have answered it.
    pub fn newest_request(&self) -> Option<StatusRequest> {
        self.requests.back().copied()
    }

    /// Forgets the requests that all have answered.
    pub fn prune_requests(&mut self) {
        let echo = self.active().map(|(_, context)| context.echo).min();
        while self.requests.front().is_some_and(|ask| echo.is_none_or(|echo| echo >= ask.sync)) {
            self.requests.pop_front();
        }
    }

    /// Forgets all of them.
    pub fn clear_requests(&mut self) {
        self.requests.clear();
    }

    /// Those that have not answered this number.
    pub fn silent(&self, sync: u32) -> Vec<usize> {
        self.active().filter(|(_, context)| context.echo < sync).map(|(index, _)| index).collect()
    }

    /// The round trips of those that have not answered this number.
    pub fn silent_rtts(&self, sync: u32) -> impl Iterator<Item = &RoundTrip> {
        self.active().filter(move |(_, context)| context.echo < sync).map(|(_, context)| &context.rtt)
    }

    /// What this one says; `oldest` takes the round trip of what it was first asked, not of what it answers.
    /// Returns whether it takes back what it said before it was asked this.
    pub fn on_status(&mut self, now: Time, index: usize, status: Common, oldest: bool) -> bool {
        let context = &mut self.contexts[index];
        let answered = |ask: &&StatusRequest| ask.sync > context.echo && ask.sync <= status.echo;
        let ask = match oldest {
            true => self.requests.iter().find(answered),
            false => self.requests.iter().rev().find(answered).filter(|ask| ask.sync == status.echo),
        };
        if let Some(ask) = ask {
            if std::mem::take(&mut context.rtt_is_stale) {
                context.rtt = RoundTrip::default();
            }
            context.rtt.on_sample(now.since(ask.at).min(MAX_ROUND_TRIP));
        }
        let takes_back = status.rseq < context.rseq && status.echo > context.rseq_sync;
        if status.rseq > context.rseq || takes_back {
            (context.rseq, context.rseq_sync) = (status.rseq, status.echo);
        }
        context.alloc = context.alloc.max(status.alloc);
        context.echo = context.echo.max(status.echo);
        context.last_received = now;
        takes_back
    }

    /// It has a key; false if it had another.
    pub fn on_key(&mut self, index: usize, key: u64) -> bool {
        *self.contexts[index].key.get_or_insert(key) == key
    }

    /// Those that have not answered this number have lost what is known of their round trips.
    pub fn invalidate_rtts(&mut self, sync: u32) {
        for index in self.silent(sync) {
            self.contexts[index].rtt_is_stale = true;
        }
    }

    /// They are counted as heard from now on.
    pub fn mark_received(&mut self, now: Time) {
        for context in &mut self.contexts {
            context.last_received = context.last_received.max(now);
        }
    }
}

const MAX_STATUS_REQUESTS: usize = 256;
const MAX_ROUND_TRIP: Duration = Duration::from_secs(100_000);
