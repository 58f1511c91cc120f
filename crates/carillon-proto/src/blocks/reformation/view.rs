//! Views of a group, and the steps that a protocol has to take.

use std::time::Duration;

use carillon_core::{Note, Value};
use carillon_wire::reformation::{Ballot, Ranks};

use crate::blocks::FailureTimeout;

/// View of the group: its members and its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Ballot that formed the view; number 0 is the first view.
    pub ballot: Ballot,
    /// Members of the view.
    pub members: Ranks,
    /// Members that joined without any state.
    pub joiners: Ranks,
}

impl View {
    /// Number of the view, which packets carry.
    pub fn number(&self) -> u32 {
        self.ballot.number
    }

    /// Rank of the leader.
    pub fn leader(&self) -> usize {
        self.ballot.coordinator.into()
    }
}

/// Timing of the agreement.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Interval between repetitions.
    pub interval: Duration,
    /// Number of repetitions before a silent node is left out.
    pub tries: u32,
    /// Number of crashes to survive: a committed message is held by one member more.
    pub resilience: usize,
    /// Minimum number of members of a view; a majority of the group in any case.
    pub min_members: usize,
    /// True if the protocol's order admits nodes without state to the view in force, so that they need no ballot.
    pub admits_in_order: bool,
}

impl Terms {
    /// Creates the timing with this interval, for as many repetitions as `patience` permits.
    pub fn new(interval: Duration, patience: FailureTimeout, resilience: usize) -> Self {
        let tries = patience.tries(interval);
        Terms { interval, tries, resilience, min_members: 0, admits_in_order: false }
    }
}

/// Step that the protocol has to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Leave the view: order, acknowledge and commit nothing any longer.
    Leave,
    /// Get all messages below `length` from `from`, which may be this node, then call
    /// [`Reformation::fetched`](super::Reformation::fetched). Replaces an earlier fetch.
    Fetch {
        /// Node that has the messages.
        from: usize,
        /// Place after the last message.
        length: u64,
        /// True if this node's log belongs to the same order. Otherwise only its committed part does.
        continues: bool,
        /// Other nodes that may have the messages, once they have accepted the proposed view.
        others: Ranks,
        /// State for a node that joins without its own: it takes nothing before `length`.
        state: Option<Vec<u8>>,
    },
    /// The view is in force.
    Install,
    /// Too few nodes have voted for a view. Another ballot follows.
    Short {
        /// Number of votes, including this node's.
        votes: usize,
    },
}

/// Note for observers of [`Step::Short`].
pub fn too_few(votes: usize, nodes: usize) -> Note {
    let fields = vec![("votes", Value::Count(votes as u64)), ("nodes", Value::Count(nodes as u64))];
    Note { name: "no_quorum", fields }
}

/// Destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// Every node of the group.
    Group,
    /// Node with this rank.
    Rank(usize),
}

/// Proposed view.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub view: View,
    /// Number of the view with the order that continues.
    pub base: u32,
    /// Place after the last message of that order.
    pub length: u64,
    /// State for nodes that join.
    pub state: Vec<u8>,
}
