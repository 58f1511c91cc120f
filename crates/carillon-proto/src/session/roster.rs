//! The sender's list of members.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::{AssociationId, Duration, NodeId, Time};
use carillon_wire::session::{Identity, MemberRole, Nonce};

use super::hold::Hold;
use super::secret;

/// A receiver that has joined, as far as the sender knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The number the sender gave it, in order of joining.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: NodeId,
    /// What it does. Who only helps reports nothing.
    pub part: MemberRole,
    /// When it joined.
    pub joined: Time,
    /// When its report came.
    pub finished: Option<Time>,
    /// Repairs that went out while it lacked something; 0 if the protocol does not say who does.
    pub repairs: u64,
    /// How long the sender was held up by it.
    pub waited: Duration,
    /// Bytes it has dealt with, by its own word.
    pub bytes: u64,
    /// Bytes it can hold for its application, by its own word.
    pub receive_buffer: u32,
    /// Bytes of the largest datagram shown that has come to it, by its own word.
    pub largest: u16,
    /// What its application attached to its JOIN, at most [`MAX_ATTACHED`](super::MAX_ATTACHED) bytes.
    pub attached: Vec<u8>,
    /// What became of it.
    pub outcome: MemberOutcome,
}

/// What became of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberOutcome {
    /// It takes part.
    Active,
    /// It has everything, verified.
    Verified,
    /// It said that it failed, and why.
    Failed(String),
    /// The sender gave it up, and why.
    Lost(String),
}

/// What the sender keeps of a member for itself.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub nonce: Nonce,
    /// What names it in the group.
    pub identity: Identity,
    /// What marks its packets to the sender.
    pub token: AssociationId,
    /// Given up: its packets are refused.
    pub expelled: bool,
    /// Given up since others could have more without it.
    pub is_aside: bool,
    /// Given up while nothing was heard of it.
    pub was_silent: bool,
    /// When it was last told so.
    pub refused: Option<Time>,
    /// Bytes it had dealt with when it was last found to get on, and when that was.
    pub mark: (u64, Time),
    /// The same when its pace was last judged, from closing on.
    pub pace: Option<(u64, Time)>,
    /// When it was last heard, by the time that the session was running.
    pub heard: Time,
    /// How it holds the sender up.
    pub hold: Hold,
}

/// What a member says of itself when it joins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joining<'a> {
    pub name: &'a str,
    pub receive_buffer: u32,
    pub part: MemberRole,
    pub largest: u16,
    pub attached: &'a [u8],
}

/// The members, in order of joining.
#[derive(Debug, Default)]
pub(super) struct Roster {
    members: Vec<Member>,
    records: Vec<Record>,
    by_node: BTreeMap<NodeId, usize>,
    names: BTreeSet<String>,
    /// Receivers and peers, and apart from these those who only help.
    active: usize,
    helping: usize,
    verified: usize,
    /// Those who help, and those who only help, whatever has become of them.
    helpers: usize,
    only_helpers: usize,
    joined_ever: u32,
    /// Members that lack messages, and how many as of the last word of the protocol.
    lacking: BTreeMap<NodeId, u32>,
}

impl Roster {
    pub fn add(&mut self, now: Time, node: NodeId, nonce: Nonce, joining: Joining<'_>) {
        let Joining { name, receive_buffer, part, largest, attached } = joining;
        self.by_node.insert(node, self.members.len());
        self.names.insert(name.to_owned());
        self.members.push(Member {
            number: self.joined_ever,
            name: name.to_owned(),
            node,
            part,
            joined: now,
            finished: None,
            repairs: 0,
            waited: Duration::ZERO,
            bytes: 0,
            receive_buffer,
            largest,
            attached: attached.to_owned(),
            outcome: MemberOutcome::Active,
        });
        self.records.push(Record {
            nonce,
            identity: secret::identity(nonce),
            token: secret::token(nonce),
            expelled: false,
            is_aside: false,
            was_silent: false,
            refused: None,
            mark: (0, now),
            pace: None,
            heard: now,
            hold: Hold::default(),
        });
        self.joined_ever = self.joined_ever.saturating_add(1);
        self.helpers += usize::from(part.helps());
        self.only_helpers += usize::from(!part.receives());
        match part.receives() {
            true => self.active += 1,
            false => self.helping += 1,
        }
    }

    /// Forgets a member, as if it had never joined.
    pub fn remove(&mut self, index: usize) {
        self.set_outcome(index, MemberOutcome::Failed(String::new()));
        let member = self.members.remove(index);
        self.helpers -= usize::from(member.part.helps());
        self.only_helpers -= usize::from(!member.part.receives());
        self.records.remove(index);
        self.names.remove(&member.name);
        self.by_node = self.members.iter().enumerate().map(|(at, member)| (member.node, at)).collect();
    }

    pub fn set_outcome(&mut self, index: usize, outcome: MemberOutcome) {
        let old = std::mem::replace(&mut self.members[index].outcome, outcome);
        let new = &self.members[index].outcome;
        let active = if self.members[index].part.receives() { &mut self.active } else { &mut self.helping };
        *active -= usize::from(old == MemberOutcome::Active);
        *active += usize::from(*new == MemberOutcome::Active);
        self.verified -= usize::from(old == MemberOutcome::Verified);
        self.verified += usize::from(*new == MemberOutcome::Verified);
    }

    /// Marks a member as given up, unless its own word already says what became of it.
    pub fn lose(&mut self, index: usize, reason: String) {
        match self.members[index].outcome {
            MemberOutcome::Active => {
                self.records[index].expelled = true;
                self.set_outcome(index, MemberOutcome::Lost(reason));
            }
            MemberOutcome::Failed(_) => self.records[index].expelled = true,
            MemberOutcome::Verified | MemberOutcome::Lost(_) => {}
        }
    }

    /// The protocol is about to repair so many messages for this member.
    pub fn lacks(&mut self, index: usize, messages: u32) {
        self.lacking.insert(self.members[index].node, messages);
    }

    /// A repair went out: it counts for everyone who still lacks something.
    pub fn repaired(&mut self) {
        for (node, left) in &mut self.lacking {
            *left = left.saturating_sub(1);
            if let Some(&index) = self.by_node.get(node) {
                self.members[index].repairs += 1;
            }
        }
        self.lacking.retain(|_, left| *left > 0);
    }

    pub fn member_mut(&mut self, index: usize) -> &mut Member {
        &mut self.members[index]
    }

    pub fn record_mut(&mut self, index: usize) -> &mut Record {
        &mut self.records[index]
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn record(&self, index: usize) -> &Record {
        &self.records[index]
    }

    pub fn index_of(&self, node: NodeId) -> Option<usize> {
        self.by_node.get(&node).copied()
    }

    pub fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The members that have neither reported nor been given up.
    pub fn active(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(|&index| self.members[index].outcome == MemberOutcome::Active)
    }

    /// Whether a member that offers messages has not reported yet.
    pub fn awaits_offers(&self) -> bool {
        self.active().any(|index| self.members[index].part.offers())
    }

    /// So many of these receive.
    pub fn active_count(&self) -> usize {
        self.active
    }

    /// So many of these only help.
    pub fn helping_count(&self) -> usize {
        self.helping
    }

    /// Members that receive, whatever has become of them.
    pub fn receivers(&self) -> usize {
        self.members.len() - self.only_helpers
    }

    /// Members that help.
    pub fn helpers(&self) -> usize {
        self.helpers
    }

    pub fn verified_count(&self) -> usize {
        self.verified
    }

    /// The nodes in ascending order, each with the number that names it on the wire.
    pub fn identities(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.by_node.iter().map(|(&node, &index)| (node, self.records[index].identity.0))
    }

    /// Whether a member's identity could be taken for this one: packets may carry its low half only.
    pub fn has_identity(&self, identity: Identity) -> bool {
        self.records.iter().any(|record| record.identity.0 as u32 == identity.0 as u32)
    }
}
