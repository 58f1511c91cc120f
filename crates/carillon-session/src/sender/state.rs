//! State of a sender's session: phases, timers, pending packets, and other senders.

use carillon_core::{AssociationId, NodeId, ObservedState, States, Time};
use carillon_wire::session::{Nonce, RefuseReason};

use crate::observed;

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

/// Declared states.
pub(super) const STATES: States = States {
    of: "sender",
    transitions: &[
        ("[*]", "gathering", ""),
        ("gathering", "assembling", "the start condition holds, with peers or possible helpers"),
        ("gathering", "running", "the start condition holds, or the wait or the limit is over"),
        ("gathering", "closing", "abort, or the limit passed without a receiver, or with all_or_nothing"),
        ("assembling", "running", "all are ready"),
        ("assembling", "closing", "no member left, or abort"),
        ("running", "closing", "finished, and the protocol is done; no member left; or abort"),
        ("closing", "finished", "every member reported or lost, and the group notified"),
        ("closing", "aborted", "aborted, and the group notified"),
        ("finished", "[*]", ""),
        ("aborted", "[*]", ""),
    ],
};

impl SenderPhase {
    /// State of the sender.
    pub(super) fn observe(self) -> ObservedState {
        observed(&STATES, self.name())
    }

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
    /// Acknowledgment of a member's answer about its holdings.
    HoldingsAck,
    /// Acknowledgment of a report to an earlier session.
    Former(AssociationId, Nonce),
    /// End of a session that was at this address.
    Over(AssociationId, Nonce),
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
