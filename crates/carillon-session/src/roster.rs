//! Members of a session, as the sender knows them.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::{AssociationId, Duration, NodeId, ObservedState, States, Time};
use carillon_wire::session::{Identity, ListId, MemberRole, Nonce};

use super::lag::{self, LagTracker};
use super::secret;
use super::sender::HoldingsReceived;

/// Receiver that has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Number that the sender gave the member, in order of joining.
    pub number: u32,
    /// Name of the member.
    pub name: String,
    /// Node of the member.
    pub node: NodeId,
    /// Role of the member. A member that only helps does not report.
    pub part: MemberRole,
    /// Time of its join.
    pub joined: Time,
    /// Time of its report.
    pub finished: Option<Time>,
    /// Repairs sent while the member was missing something; 0 if the protocol does not tell.
    pub repairs: u64,
    /// Time for which the member held the sender up.
    pub waited: Duration,
    /// Bytes that the member has processed, as it states.
    pub bytes: u64,
    /// Bytes that the member can hold for its application, as it states.
    pub receive_buffer: u32,
    /// Size of the largest datagram shown that reached the member, as it states.
    pub largest: u16,
    /// Data that its application attached to the JOIN, at most [`MAX_ATTACHED`](super::MAX_ATTACHED) bytes.
    pub attached: Vec<u8>,
    /// List that the member knows, if it answers questions about its holdings.
    pub list: Option<ListId>,
    /// Result of the member.
    pub outcome: MemberOutcome,
}

/// Result of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberOutcome {
    /// The member takes part.
    Active,
    /// The member has everything, verified.
    Verified,
    /// The member reported a failure, with this reason.
    Failed(String),
    /// The sender expelled the member, for this reason.
    Lost(String),
}

/// Declared states of a member.
pub(super) const STATES: States = States {
    of: "sender, member",
    transitions: &[
        ("[*]", "Active", "JOIN accepted"),
        ("[*]", "Failed", "JOIN accepted, and abort at once"),
        ("Active", "[*]", "LEAVE, silence or a new nonce while gathering (recorded as unserved)"),
        ("Active", "Verified", "REPORT verified"),
        ("Active", "Failed", "REPORT failed or damaged, LEAVE, or abort"),
        ("Active", "Lost", "silence, no progress, or set aside"),
        ("Lost", "Verified", "REPORT verified"),
        ("Verified", "Failed", "REPORT failed or damaged"),
        ("Failed", "Verified", "REPORT verified"),
    ],
};

impl MemberOutcome {
    fn state(&self) -> &'static str {
        match self {
            MemberOutcome::Active => "Active",
            MemberOutcome::Verified => "Verified",
            MemberOutcome::Failed(_) => "Failed",
            MemberOutcome::Lost(_) => "Lost",
        }
    }
}

/// Private state of a member.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// Nonce of its JOIN, which only this member and the sender know.
    pub nonce: Nonce,
    /// Identity of the member in the group.
    pub identity: Identity,
    /// Token that marks its packets to the sender.
    pub token: AssociationId,
    /// True if the member was expelled: its packets are refused.
    pub expelled: bool,
    /// Reason for which the member was set aside for a catch-up session, if it was.
    pub aside: Aside,
    /// True if the member was expelled while it was silent.
    pub was_silent: bool,
    /// Time of the last notice of its expulsion.
    pub refused: Option<Time>,
    /// Bytes that the member had processed at its last progress, and the time.
    pub mark: (u64, Time),
    /// Bytes and time at the last check of its pace, from closing on.
    pub pace: Option<(u64, Time)>,
    /// Time at which the member was last heard, in the time in which the session ran.
    pub heard: Time,
    /// Tracker of the time for which it holds the sender up.
    pub lag: LagTracker,
    /// Answer about its holdings.
    pub holdings: HoldingsReceived,
}

/// Reason for which a member was set aside for a catch-up session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// The member was not set aside.
    No,
    /// Others could receive much faster without the member.
    Slow,
    /// The datagrams of the session do not reach the member.
    Unreached,
}

impl Record {
    /// Returns true if the member was set aside.
    pub fn is_aside(&self) -> bool {
        self.aside != Aside::No
    }

    /// Returns true if the member was set aside, since the datagrams of the session do not reach it.
    pub fn is_unreached(&self) -> bool {
        self.aside == Aside::Unreached
    }
}

/// Statements of a member in its JOIN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joining<'a> {
    pub name: &'a str,
    pub receive_buffer: u32,
    pub part: MemberRole,
    pub largest: u16,
    pub attached: &'a [u8],
    pub list: Option<ListId>,
}

/// Members in order of joining.
#[derive(Debug, Default)]
pub(super) struct Roster {
    /// State of each member that the application sees.
    members: Vec<Member>,
    /// Private state of each member, at the same index.
    records: Vec<Record>,
    /// Index of each node's member.
    by_node: BTreeMap<NodeId, usize>,
    /// Names of the members.
    names: BTreeSet<String>,
    /// Number of active members that receive.
    active: usize,
    /// Number of active members that only help.
    helping: usize,
    /// Number of verified members.
    verified: usize,
    /// Number of members that help, whatever their result.
    helpers: usize,
    /// Number of members that only help, whatever their result.
    only_helpers: usize,
    /// Number of members added, including removed ones; the number of the next member.
    joined_ever: u32,
    /// Members with missing messages, and their number at the protocol's last notice.
    lacking: BTreeMap<NodeId, u32>,
}

impl Roster {
    pub fn add(&mut self, now: Time, node: NodeId, nonce: Nonce, joining: Joining<'_>) {
        let Joining { name, receive_buffer, part, largest, attached, list } = joining;
        self.by_node.insert(node, self.members.len());
        self.names.insert(name.to_owned());
        self.members.push(Member {
            // Numbers are not reused after a removal.
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
            list,
            outcome: MemberOutcome::Active,
        });
        self.records.push(Record {
            nonce,
            // Both derive from the nonce, so the member computes the same values without a packet.
            identity: secret::identity(nonce),
            token: secret::token(nonce),
            expelled: false,
            aside: Aside::No,
            was_silent: false,
            refused: None,
            mark: (0, now),
            pace: None,
            heard: now,
            lag: LagTracker::default(),
            holdings: HoldingsReceived::default(),
        });
        self.joined_ever = self.joined_ever.saturating_add(1);
        self.helpers += usize::from(part.helps());
        self.only_helpers += usize::from(!part.receives());
        match part.receives() {
            true => self.active += 1,
            false => self.helping += 1,
        }
    }

    /// Removes a member, as if it had never joined.
    pub fn remove(&mut self, index: usize) {
        // `Failed` is in no count, so this takes the member out of all of them.
        self.set_outcome(index, MemberOutcome::Failed(String::new()));
        let member = self.members.remove(index);
        self.helpers -= usize::from(member.part.helps());
        self.only_helpers -= usize::from(!member.part.receives());
        self.records.remove(index);
        self.names.remove(&member.name);
        // The indices behind the removed member have shifted.
        self.by_node = self.members.iter().enumerate().map(|(at, member)| (member.node, at)).collect();
    }

    pub fn set_outcome(&mut self, index: usize, outcome: MemberOutcome) {
        let old = std::mem::replace(&mut self.members[index].outcome, outcome);
        let new = &self.members[index].outcome;
        // Helpers are counted apart: a session ends when no receiver is left, and does not wait for helpers.
        let active = if self.members[index].part.receives() { &mut self.active } else { &mut self.helping };
        *active -= usize::from(old == MemberOutcome::Active);
        *active += usize::from(*new == MemberOutcome::Active);
        self.verified -= usize::from(old == MemberOutcome::Verified);
        self.verified += usize::from(*new == MemberOutcome::Verified);
    }

    /// Marks a member as expelled, unless it has reported a result itself.
    pub fn lose(&mut self, index: usize, reason: String) {
        match self.members[index].outcome {
            MemberOutcome::Active => {
                self.records[index].expelled = true;
                self.set_outcome(index, MemberOutcome::Lost(reason));
            }
            // The member's own reason is more precise than the sender's, so it stays.
            MemberOutcome::Failed(_) => self.records[index].expelled = true,
            // A verified member has everything, and a lost one keeps the first reason.
            MemberOutcome::Verified | MemberOutcome::Lost(_) => {}
        }
    }

    /// Records that the protocol is about to repair this number of messages for a member.
    pub fn lacks(&mut self, index: usize, messages: u32) {
        self.lacking.insert(self.members[index].node, messages);
    }

    /// Counts a repair for each member that still misses something.
    pub fn repaired(&mut self) {
        // The protocol states how many messages a member is missing, and not which. Each repair therefore counts for
        // every member with missing messages.
        for (node, left) in &mut self.lacking {
            *left = left.saturating_sub(1);
            // Removals shift indices, so the map is keyed by node.
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

    /// States of each member: its result, and its lag while it is active.
    pub fn observe(&self) -> impl Iterator<Item = ObservedState> + '_ {
        self.members.iter().zip(&self.records).flat_map(|(member, record)| {
            let about = u64::from(member.number);
            let outcome = ObservedState { of: STATES.of, about, state: member.outcome.state(), turn: 0 };
            let is_active = member.outcome == MemberOutcome::Active;
            let lag = ObservedState { of: lag::STATES.of, about, state: record.lag.state(), turn: 0 };
            std::iter::once(outcome).chain(is_active.then_some(lag))
        })
    }

    /// Members that have neither reported nor been expelled.
    pub fn active(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(|&index| self.members[index].outcome == MemberOutcome::Active)
    }

    /// Returns true if a member that offers messages has not reported yet.
    pub fn awaits_offers(&self) -> bool {
        self.active().any(|index| self.members[index].part.offers())
    }

    /// Number of active members that receive.
    pub fn active_count(&self) -> usize {
        self.active
    }

    /// Number of active members that only help.
    pub fn helping_count(&self) -> usize {
        self.helping
    }

    /// Number of members that receive, whatever their result.
    pub fn receivers(&self) -> usize {
        self.members.len() - self.only_helpers
    }

    /// Number of members that help.
    pub fn helpers(&self) -> usize {
        self.helpers
    }

    pub fn verified_count(&self) -> usize {
        self.verified
    }

    /// Nodes in ascending order, each with its identity on the wire.
    pub fn identities(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.by_node.iter().map(|(&node, &index)| (node, self.records[index].identity.0))
    }

    /// Returns true if a member has the same lower half of its identity, as packets may carry only that half.
    pub fn has_identity(&self, identity: Identity) -> bool {
        self.records.iter().any(|record| record.identity.0 as u32 == identity.0 as u32)
    }
}
