//! State of a sender's session: phases, timers, pending answers, the roster agreement, and other senders.

use std::collections::BTreeSet;

use carillon_core::{AssociationId, Duration, HelperTable, NodeId, Time};
use carillon_wire::session::{Nonce, RefuseReason, State};

/// Phase of a [`SenderSession`](super::SenderSession).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SenderPhase {
    /// Waits for receivers.
    Gathering,
    /// Waits until its members have received from each other.
    Assembling,
    /// Sends messages.
    Running,
    /// Waits for reports, or announces the end or abortion of the session.
    Closing,
    /// Every member has reported or is lost, and the end was announced.
    Finished,
    /// The session was aborted, which was announced.
    Aborted,
}

impl SenderPhase {
    /// Names of all phases.
    pub const NAMES: &'static [&'static str] =
        &["gathering", "assembling", "running", "closing", "finished", "aborted"];

    /// Name of the phase.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Timers of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The next invitation is due.
    Invite,
    /// End of the time of `Gather::Wait` or `Gather::Settle`.
    GatherWait,
    /// Gathering has taken too long.
    GatherLimit,
    /// The members had enough time to receive from each other.
    Assemble,
    /// Among peers, no message may have been delivered for too long, although this member has finished or too few are
    /// left.
    Standstill,
    /// Every member has reported, and the protocol of peers had time to come to its own end.
    Rest,
    /// The members are to be examined.
    Watch,
    /// This member may have been silent for too long.
    MemberSilent(NodeId),
}

/// Packet to the group that waits to be sent. The order of the variants is the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pending {
    /// INVITE.
    Invite,
    /// Notices to earlier releases.
    Notice,
    /// Datagrams that are shown. The longest one is sent last.
    Size,
    /// Pages of the roster.
    Roster,
    /// MEASURE, which refers to the roster.
    Measure,
}

/// Pending packet to one node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    /// Admission of a member.
    Welcome,
    /// Acknowledgment of a member's report.
    ReportAck,
    /// Refusal, with its reason.
    Refuse(Nonce, RefuseReason),
    /// Challenge to repeat the JOIN with the cookie of this time slot.
    Challenge(Nonce, u64),
    /// Invitation to another sender, which shows that this one exists.
    Invite,
    /// State of the session.
    Answer(Nonce),
    /// State of the session for a receiver from before wire versions.
    Earlier(Nonce),
    /// Acknowledgment of a report to an earlier session.
    Former(AssociationId, Nonce),
}

/// Last invitations, which announce the end of the session.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndNotices {
    pub state: State,
    /// Number of announcements left to send.
    pub left: u32,
    /// Time between two announcements.
    pub spacing: Duration,
}

/// Agreement of the members on the roster.
#[derive(Debug)]
pub(super) struct Assembly {
    /// Number of the roster, higher for each new list of members.
    pub edition: u32,
    /// Time of the first announcement of this edition, in the time in which the session ran.
    pub told: Time,
    /// Members by rank, without the organiser.
    pub ranks: Vec<NodeId>,
    /// Rank of each member's helper, as the edition states it; 0 is the organiser.
    pub parents: Vec<u16>,
    /// Present assignment of members to helpers.
    pub table: HelperTable,
    /// Members heard since the first announcement of this edition.
    pub present: BTreeSet<NodeId>,
    /// Members that know the whole edition.
    pub ready: BTreeSet<NodeId>,
    /// First rank of the next page; 0 before the first page.
    pub next: usize,
    /// Heartbeats until the roster is repeated while the session runs.
    pub rest: u32,
}

/// Another sender on the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Name that the sender states.
    pub name: String,
    /// Node of the sender.
    pub node: NodeId,
    /// Session of the sender.
    pub association: AssociationId,
    /// Time at which it was first heard.
    pub heard: Time,
    /// Number of answers left.
    pub(super) answers: u32,
}
