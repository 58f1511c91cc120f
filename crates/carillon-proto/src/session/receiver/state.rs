//! State of a receiver's session: phases, timers, the present invitation, and unverified claims.

use carillon_core::{AssociationId, NodeId, Order, Time};
use carillon_wire::session::{Cookie, DatagramSizes, State, Terms};

use super::failure::ReceiverFailure;
use crate::session::job::JobId;

/// Phase of a [`ReceiverSession`](super::ReceiverSession).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverPhase {
    /// Waits for an invitation.
    Seeking,
    /// Was invited, and asks for membership.
    Joining,
    /// Is a member, and learns the roster.
    Assembling,
    /// Is a member and receives.
    Running,
    /// Reports the result to the sender.
    Reporting,
    /// Has reported; see [`report_acknowledged`](super::ReceiverSession::report_acknowledged). The protocol's machine
    /// still answers the sender while the host drives it.
    Finished,
    /// Gets nothing more from this session.
    Failed(ReceiverFailure),
}

impl ReceiverPhase {
    /// Names of all phases.
    pub const NAMES: &'static [&'static str] =
        &["seeking", "joining", "assembling", "running", "reporting", "finished", "failed"];

    /// Name of the phase.
    pub const fn name(&self) -> &'static str {
        match self {
            ReceiverPhase::Seeking => "seeking",
            ReceiverPhase::Joining => "joining",
            ReceiverPhase::Assembling => "assembling",
            ReceiverPhase::Running => "running",
            ReceiverPhase::Reporting => "reporting",
            ReceiverPhase::Finished => "finished",
            ReceiverPhase::Failed(_) => "failed",
        }
    }
}

/// Present invitation and what is known of its session.
#[derive(Debug)]
pub(super) struct Invited {
    /// Number of the session.
    pub association: AssociationId,
    /// Node of the sender.
    pub sender: NodeId,
    /// Job of the session, if its sender states one.
    pub job: Option<JobId>,
    /// Name of the sender.
    pub name: String,
    /// State that the sender announced last.
    pub state: State,
    /// Number of this member, once admitted.
    pub member: Option<u32>,
    /// Time at which this receiver began to join.
    pub since: Time,
    /// Time of the last invitation that said the sender gathers.
    pub gathering: Time,
    /// Bytes that may be sent in answer to invitations before the sender admits the receiver.
    pub credit: usize,
    /// Cookie that the sender expects in the JOIN.
    pub cookie: Option<Cookie>,
    /// Number of challenges answered at once.
    pub challenges: u32,
    /// Reason why this receiver cannot take part. It fails with it once the sender has proved that it exists.
    pub problem: Option<String>,
    /// Terms of the invitation.
    pub terms: Terms,
    /// True if the sender confirmed the terms by unicast. Packets with other terms are forged from then on.
    pub proven: bool,
    /// True if the machine was built for these terms.
    pub accepted: bool,
    /// Protocol, if this receiver supports it.
    pub protocol: Option<&'static str>,
    /// Order in which messages are delivered.
    pub order: Order,
    /// True if the protocol gave up messages that this receiver is missing.
    pub has_lost: bool,
    /// Maximum payload of a message in bytes.
    pub max_payload: u32,
    /// Sizes of datagrams that the sender shows.
    pub sizes: DatagramSizes,
    /// Largest datagram that has arrived.
    pub largest: u16,
    /// Number of invitations received.
    pub invitations: u32,
    /// True if routers may help, which are no members and send to it.
    pub relays: bool,
    /// New session apparently of the same sender, and the time since which packets come from that session only.
    pub successor: Option<(AssociationId, Time)>,
}

/// Pending notice to a sender that its invitation is declined.
#[derive(Debug)]
pub(super) struct Decline {
    pub association: AssociationId,
    pub sender: NodeId,
    pub text: String,
    /// Number of packets left to send.
    pub left: usize,
}

/// Timers of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The next JOIN is due.
    Join,
    /// The next PRESENT is due.
    Present,
    /// The next READY is due.
    Ready,
    /// The next PROBE is due, or the last one has had its time.
    Probe,
    /// A PROGRESS is due.
    Progress,
    /// The next REPORT is due.
    Report,
    /// The next query to verify a claim is due.
    Ask,
    /// The sender has been silent for too long.
    Silence,
    /// The sender has sent nothing authenticated for a while.
    Confirm,
    /// Time to pass more early datagrams to the machine.
    Early,
    /// No sender has invited an expelled receiver again in time.
    Return,
}

/// Announced state that the sender has not confirmed.
#[derive(Clone, Debug)]
pub(super) struct UnverifiedState {
    pub state: State,
    pub reason: String,
    /// Number of queries sent.
    pub asked: u32,
    /// True if the sender was heard continuing meanwhile.
    pub contradicted: bool,
}
