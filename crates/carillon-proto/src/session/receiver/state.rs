//! How far a receiving session is, and what it has in hand: its phases and timers, the invitation, what it doubts.

use carillon_core::{AssociationId, NodeId, Order, Time};
use carillon_wire::session::{Cookie, DatagramSizes, State, Terms};

use super::failure::ReceiverFailure;
use crate::session::job::JobId;

/// How far a [`ReceiverSession`](super::ReceiverSession) is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverPhase {
    /// Waits for an invitation.
    Seeking,
    /// Was invited, and asks to be a member.
    Joining,
    /// Is a member among peers, and learns who the others are.
    Assembling,
    /// Is a member.
    Running,
    /// Tells the sender how it ended.
    Reporting,
    /// Has reported; see [`report_acknowledged`](super::ReceiverSession::report_acknowledged). Its protocol machine goes on
    /// answering the sender as long as the host drives it.
    Finished,
    /// It will get nothing more from this session.
    Failed(ReceiverFailure),
}

impl ReceiverPhase {
    /// All their names.
    pub const NAMES: &'static [&'static str] =
        &["seeking", "joining", "assembling", "running", "reporting", "finished", "failed"];

    /// Its name.
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

/// The session it was invited to.
#[derive(Debug)]
pub(super) struct Invited {
    pub association: AssociationId,
    pub sender: NodeId,
    pub job: Option<JobId>,
    pub name: String,
    pub state: State,
    /// Its member number, once it is a member.
    pub member: Option<u32>,
    /// When this receiver began to join.
    pub since: Time,
    /// When the sender was last heard gathering.
    pub gathering: Time,
    /// Bytes that may go out in answer to its invitations before it has welcomed this receiver.
    pub credit: usize,
    /// The cookie that the sender wants back, and how many were answered at once.
    pub cookie: Option<Cookie>,
    pub challenges: u32,
    /// Why this receiver cannot take part; it fails by it once the sender has shown that it is there.
    pub problem: Option<String>,
    /// To what it was invited.
    pub terms: Terms,
    /// Whether the sender has said so to this receiver alone. What else is said in its name then is not its.
    pub proven: bool,
    /// Whether the machine is made for these terms.
    pub accepted: bool,
    /// The protocol, if this receiver knows it.
    pub protocol: Option<&'static str>,
    /// In which order messages are delivered.
    pub order: Order,
    /// The protocol has given messages up that this receiver lacks.
    pub has_lost: bool,
    /// The largest payload of a message.
    pub max_payload: u32,
    /// The datagrams that the sender shows, the largest that has come, and with how many invitations.
    pub sizes: DatagramSizes,
    pub largest: u16,
    pub invitations: u32,
    /// Routers may help, which are no members and speak to it.
    pub relays: bool,
    /// Another session of what may be the same sender, begun anew, and since when it is heard while nothing is of this one.
    pub successor: Option<(AssociationId, Time)>,
}

/// A word to a sender whose invitation is not accepted.
#[derive(Debug)]
pub(super) struct Decline {
    pub association: AssociationId,
    pub sender: NodeId,
    pub text: String,
    /// How many of them are still to go out.
    pub left: usize,
}

/// The receiver's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The next JOIN is due.
    Join,
    /// The next PRESENT is due.
    Present,
    /// The next READY is due.
    Ready,
    /// The next PROBE is due, or the last has had its time.
    Probe,
    /// An answer to a heartbeat is due.
    Progress,
    /// The next REPORT is due.
    Report,
    /// The sender is to be asked what only it can say.
    Ask,
    /// The sender has been silent too long.
    Silence,
    /// Nothing has come for a while that only the sender can say.
    Confirm,
    /// There is more of what came before the machine was set to work.
    Early,
    /// Nobody has invited one that was given up before.
    Return,
}

/// Something heard that the sender has not confirmed.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    pub state: State,
    pub reason: String,
    /// How often it was asked.
    pub asked: u32,
    /// The sender was heard going on meanwhile.
    pub contradicted: bool,
}
