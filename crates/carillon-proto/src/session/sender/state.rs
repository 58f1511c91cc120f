//! How far a sending session is, and what it has in hand: its phases and timers, answers that are due, the members' agreement, the
//! other senders.

use std::collections::BTreeSet;

use carillon_core::{AssociationId, Duration, HelperTable, NodeId, Time};
use carillon_wire::session::{Nonce, RefuseReason, State};

/// How far a [`SenderSession`](super::SenderSession) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SenderPhase {
    /// Waits for receivers.
    Gathering,
    /// Waits until its members, who are peers, have heard of each other.
    Assembling,
    /// Sends messages.
    Running,
    /// Waits for reports, or tells the group that the session is over or aborted.
    Closing,
    /// Every member has reported or is lost, and the group has been told.
    Finished,
    /// Given up, and the group has been told.
    Aborted,
}

impl SenderPhase {
    /// All their names.
    pub const NAMES: &'static [&'static str] =
        &["gathering", "assembling", "running", "closing", "finished", "aborted"];

    /// Its name.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The sender's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The next invitation is due.
    Invite,
    /// The time of `Gather::Wait` or `Gather::Settle` is over.
    GatherWait,
    /// Gathering has taken too long.
    GatherLimit,
    /// The members have had time enough to hear of each other.
    Assemble,
    /// Among peers nothing may have got through for too long, although this one has finished or there
    /// are too few.
    Standstill,
    /// All members have reported, and the protocol, of peers, has had time to come to its own end.
    Rest,
    /// The members are to be looked at: who is waited for.
    Watch,
    /// This member may have been silent for too long.
    MemberSilent(NodeId),
}

/// What is to be said to one node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    Welcome,
    ReportAck,
    Refuse(Nonce, RefuseReason),
    /// It has to say again that it wants to join, with the cookie of this time slot.
    Challenge(Nonce, u64),
    /// To another sender: this one is there.
    Invite,
    /// How far the session is.
    Answer(Nonce),
    /// The same, to a receiver from before wire versions.
    Earlier(Nonce),
    /// To one of a session before this one: its report is known.
    Former(AssociationId, Nonce),
}

/// The last invitations, which tell that the session is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Farewell {
    pub state: State,
    pub left: u32,
    pub spacing: Duration,
}

/// How far the members are in learning of each other.
#[derive(Debug)]
pub(super) struct Assembly {
    pub edition: u32,
    /// When it was first told, by the time in which this one was running.
    pub told: Time,
    /// The members but this one, in order of rank.
    pub ranks: Vec<NodeId>,
    /// The ranks of the helpers to whom these turn, as the edition tells it: 0 is this one.
    pub parents: Vec<u16>,
    /// Who turns to whom now.
    pub table: HelperTable,
    /// Those who were heard since it was first told.
    pub present: BTreeSet<NodeId>,
    /// Those who know all of this edition.
    pub ready: BTreeSet<NodeId>,
    /// The rank with which the page to be told next begins; 0 before the first.
    pub next: usize,
    /// Heartbeats until the roster is told again while the session runs.
    pub rest: u32,
}

/// Another sender that was heard on the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Its name, by its own word.
    pub name: String,
    /// Its node.
    pub node: NodeId,
    /// Its session.
    pub association: AssociationId,
    /// When it was first heard.
    pub heard: Time,
    /// How often it may still be answered.
    pub(super) answers: u32,
}
