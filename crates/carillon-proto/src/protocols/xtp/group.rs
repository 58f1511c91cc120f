//! What the sender knows of each receiver: an auxiliary context for each, and what they say together.

use std::time::Duration;

use carillon_core::{NodeId, Time};
use carillon_wire::xtp::Common;

use crate::blocks::{MemberSet, Members, RoundTrip};

/// The receivers of an association.
#[derive(Debug)]
pub(super) struct Contexts {
    members: Members,
    contexts: Vec<Context>,
    /// Those that nobody waits for any more, or that nobody has waited for.
    gone: MemberSet,
    /// Of whom it is demanded that they have everything: the first ones.
    demanded: usize,
    /// Status was asked for, and not all have answered: by number, the oldest first.
    asks: std::collections::VecDeque<Ask>,
}

/// What is known of one receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    /// It has answered FIRST, and this is its key.
    pub key: Option<u64>,
    pub rseq: u64,
    /// What it had answered when it said so.
    said: u32,
    pub alloc: u64,
    pub echo: u32,
    pub trip: RoundTrip,
    /// What is known of its round trip is not believed any more: the next one begins anew.
    lost: bool,
    /// When it was last heard.
    pub heard: Time,
}

/// Status was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub sync: u32,
    pub at: Time,
}

impl Contexts {
    pub fn new(members: Members, demanded: usize) -> Self {
        let contexts = vec![Context::default(); members.len()];
        let mut gone = MemberSet::empty(members.len());
        for index in demanded.min(members.len())..members.len() {
            gone.insert(index);
        }
        Contexts { members, contexts, gone, demanded, asks: Default::default() }
    }

    /// The place of a member, whatever became of it.
    pub fn place_of(&self, node: NodeId) -> Option<usize> {
        self.members.index_of(node)
    }

    /// Whether it is a member of which nothing is demanded.
    pub fn is_spared(&self, node: NodeId) -> bool {
        self.members.index_of(node).is_some_and(|index| index >= self.demanded)
    }

    /// A node joins, or comes back: it is to have everything from this byte on.
    pub fn admit(&mut self, index: usize, key: u64, from: u64, room: u64, sync: u32, now: Time) {
        self.gone.remove(index);
        let alloc = from.saturating_add(room);
        self.contexts[index] = Context {
            key: Some(key),
            rseq: from,
            said: sync,
            alloc,
            echo: sync,
            heard: now,
            ..Context::default()
        };
    }

    /// The place of a member that has not been given up.
    pub fn index_of(&self, node: NodeId) -> Option<usize> {
        self.members.index_of(node).filter(|&index| !self.gone.contains(index))
    }

    /// Whether it was given up.
    pub fn is_gone(&self, node: NodeId) -> bool {
        let gone = self.members.index_of(node).is_some_and(|index| self.gone.contains(index));
        gone && !self.is_spared(node)
    }

    pub fn node(&self, index: usize) -> NodeId {
        self.members.node(index)
    }

    pub fn context(&self, index: usize) -> &Context {
        &self.contexts[index]
    }

    /// Those that are waited for.
    pub fn active(&self) -> impl Iterator<Item = (usize, &Context)> {
        self.contexts.iter().enumerate().filter(|(index, _)| !self.gone.contains(*index))
    }

    /// Nobody waits for this one any more; returns whether somebody did.
    pub fn remove(&mut self, index: usize) -> bool {
        self.gone.insert(index)
    }

    /// Whether all of those that are waited for have answered FIRST.
    pub fn all_open(&self) -> bool {
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
    pub fn asked(&mut self, ask: Ask) {
        // What is older is answered with it.
        if self.asks.len() >= MOST_ASKS {
            self.asks.remove(1);
        }
        self.asks.push_back(ask);
    }

    /// The newest request for status, if not all have answered it.
    pub fn newest_ask(&self) -> Option<Ask> {
        self.asks.back().copied()
    }

    /// Forgets the requests that all have answered.
    pub fn prune_asks(&mut self) {
        let echo = self.active().map(|(_, context)| context.echo).min();
        while self.asks.front().is_some_and(|ask| echo.is_none_or(|echo| echo >= ask.sync)) {
            self.asks.pop_front();
        }
    }

    /// Forgets all of them.
    pub fn forget_asks(&mut self) {
        self.asks.clear();
    }

    /// Those that have not answered this number.
    pub fn silent(&self, sync: u32) -> Vec<usize> {
        self.active().filter(|(_, context)| context.echo < sync).map(|(index, _)| index).collect()
    }

    /// The round trips of those that have not answered this number.
    pub fn trips(&self, sync: u32) -> impl Iterator<Item = &RoundTrip> {
        self.active().filter(move |(_, context)| context.echo < sync).map(|(_, context)| &context.trip)
    }

    /// What this one says; `oldest` takes the round trip of what it was first asked, not of what it answers.
    /// Returns whether it takes back what it said before it was asked this.
    pub fn on_status(&mut self, now: Time, index: usize, status: Common, oldest: bool) -> bool {
        let context = &mut self.contexts[index];
        let answered = |ask: &&Ask| ask.sync > context.echo && ask.sync <= status.echo;
        let ask = match oldest {
            true => self.asks.iter().find(answered),
            false => self.asks.iter().rev().find(answered).filter(|ask| ask.sync == status.echo),
        };
        if let Some(ask) = ask {
            if std::mem::take(&mut context.lost) {
                context.trip = RoundTrip::default();
            }
            context.trip.on_sample(now.since(ask.at).min(LONGEST_TRIP));
        }
        let takes_back = status.rseq < context.rseq && status.echo > context.said;
        if status.rseq > context.rseq || takes_back {
            (context.rseq, context.said) = (status.rseq, status.echo);
        }
        context.alloc = context.alloc.max(status.alloc);
        context.echo = context.echo.max(status.echo);
        context.heard = now;
        takes_back
    }

    /// It has a key; false if it had another.
    pub fn on_key(&mut self, index: usize, key: u64) -> bool {
        *self.contexts[index].key.get_or_insert(key) == key
    }

    /// Those that have not answered this number have lost what is known of their round trips.
    pub fn lose_trips(&mut self, sync: u32) {
        for index in self.silent(sync) {
            self.contexts[index].lost = true;
        }
    }

    /// They are counted as heard from now on.
    pub fn begin(&mut self, now: Time) {
        for context in &mut self.contexts {
            context.heard = context.heard.max(now);
        }
    }
}

const MOST_ASKS: usize = 256;
const LONGEST_TRIP: Duration = Duration::from_secs(100_000);
