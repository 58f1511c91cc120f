//! Views, and what a protocol is told of them.

use std::time::Duration;

use carillon_core::{Note, Value};
use carillon_wire::reformation::{Ballot, Ranks};

use crate::blocks::Patience;

/// A view of the group: who belongs to it, and who leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The ballot that formed it; number 0 is the first.
    pub ballot: Ballot,
    /// Its members.
    pub members: Ranks,
    /// Those of them that came to it without any state.
    pub joiners: Ranks,
}

impl View {
    /// Its number: packets carry it.
    pub fn number(&self) -> u32 {
        self.ballot.number
    }

    /// The rank of its leader.
    pub fn leader(&self) -> usize {
        self.ballot.coordinator.into()
    }
}

/// How patient the exchange is.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Between repetitions.
    pub interval: Duration,
    /// Repetitions before a silent node is done without.
    pub tries: u32,
    /// Crashes survived: a committed message is held by one member more.
    pub resilience: usize,
}

impl Terms {
    /// Packets are repeated at this interval, as long as patience lasts.
    pub fn new(interval: Duration, patience: Patience, resilience: usize) -> Self {
        Terms { interval, tries: patience.tries(interval), resilience }
    }
}

/// What the protocol has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Take part in the view no more: order, acknowledge and commit nothing.
    Leave,
    /// Get all messages below `length` from `from`, which may be this node itself; then call
    /// [`Reformation::fetched`](super::Reformation::fetched). Replaces an earlier one.
    Fetch {
        /// Who has them.
        from: usize,
        /// One past the last one.
        length: u64,
        /// What this node holds is of the same order; otherwise only what it knows to be committed.
        continues: bool,
        /// Who else may have them, once it has accepted the proposed view.
        others: Ranks,
        /// This node comes without any state: it takes nothing before `length`, and this is what it
        /// has to know.
        state: Option<Vec<u8>>,
    },
    /// The view is in force.
    Install,
    /// So few have voted that there can be no view: another ballot follows.
    Short {
        /// How many have, with this node.
        votes: usize,
    },
}

/// What observers are told of [`Step::Short`].
pub fn too_few(votes: usize, nodes: usize) -> Note {
    let fields = vec![("votes", Value::Count(votes as u64)), ("nodes", Value::Count(nodes as u64))];
    Note { name: "no_quorum", fields }
}

/// To whom a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// All nodes.
    Group,
    /// The node of this rank.
    Rank(usize),
}

/// A view that is proposed.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub view: View,
    /// The number of the view whose order goes on.
    pub base: u32,
    /// One past its last message.
    pub length: u64,
    /// What a joiner has to know.
    pub state: Vec<u8>,
}
