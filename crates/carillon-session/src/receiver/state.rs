//! State of a receiver's session: phases, timers, and the present invitation.

use carillon_core::{AssociationId, NodeId, ObservedState, Order, States, Time};
use carillon_wire::session::{DatagramSizes, State, Terms};

use super::failure::ReceiverFailure;
use crate::job::JobId;
use crate::observed;

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

/// Declared states.
pub(super) const STATES: States = States {
    of: "receiver",
    transitions: &[
        ("[*]", "seeking", ""),
        ("seeking", "joining", "INVITE gathering; or running, unless it keeps seeking"),
        ("seeking", "running", "INVITE gathering, in silent mode"),
        ("joining", "seeking", "no answer; or refused, aborted or silence, if it keeps seeking"),
        ("seeking", "failed", "a returning receiver got no INVITE in time, or the application leaves"),
        ("joining", "running", "WELCOME"),
        ("joining", "assembling", "WELCOME, with peers or possible helpers"),
        ("joining", "reporting", "the application reports"),
        ("joining", "failed", "refused, aborted; or cannot accept the INVITE, and its ASK is answered"),
        ("assembling", "running", "ANSWER running"),
        ("assembling", "failed", "left out, refused, aborted, silence"),
        ("running", "reporting", "the application reports"),
        ("running", "seeking", "silent mode, and no data came"),
        ("running", "finished", "helper, and ANSWER finished"),
        ("running", "failed", "expelled, aborted, silence"),
        (
            "reporting",
            "finished",
            "REPORT_ACK, or ANSWER finished or aborted; or silence, and the verdict was good",
        ),
        ("reporting", "failed", "silence, and the verdict was bad"),
        ("finished", "[*]", ""),
        ("failed", "[*]", ""),
    ],
};

impl ReceiverPhase {
    /// State of the receiver.
    pub(super) fn observe(&self) -> ObservedState {
        observed(&STATES, self.name())
    }

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
    /// True if the sender asks for holdings.
    pub asks: bool,
    /// Name of the sender.
    pub name: String,
    /// State that the sender announced last.
    pub state: State,
    /// Number of this member, once admitted.
    pub member: Option<u32>,
    /// Reason why this receiver cannot take part. It fails with it once the sender has proved that it exists.
    pub problem: Option<String>,
    /// Terms of the invitation.
    pub terms: StatedTerms,
    /// Protocol, if this receiver supports it.
    pub protocol: Option<&'static str>,
    /// Order in which messages are delivered.
    pub order: Order,
    /// True if the protocol gave up messages that this receiver is missing.
    pub has_lost: bool,
    /// Maximum payload of a message in bytes.
    pub max_payload: u32,
    /// Datagrams that the sender shows.
    pub sizes: SeenSizes,
    /// True if routers may help, which are no members and send to it.
    pub relays: bool,
    /// New session apparently of the same sender, and the time since which packets come from that session only.
    pub successor: Option<(AssociationId, Time)>,
}

/// Terms of a session, as far as the sender has confirmed them.
#[derive(Debug)]
pub(super) enum StatedTerms {
    /// An invitation claims these terms. The protocol's machine was built for them.
    Claimed(Terms),
    /// The sender has confirmed by unicast the terms for which the machine was built. Packets with others are forged.
    Proven(Terms),
    /// The sender has stated other terms than the invitation. The machine waits for an invitation with these.
    Forged(Terms),
}

impl StatedTerms {
    /// Records the terms that the sender states by unicast. Returns true if the invitation was forged.
    pub fn prove(&mut self, terms: Terms) -> bool {
        match self {
            StatedTerms::Claimed(claimed) | StatedTerms::Proven(claimed) if *claimed == terms => {
                *self = StatedTerms::Proven(terms);
                false
            }
            StatedTerms::Forged(stated) if *stated == terms => false,
            StatedTerms::Claimed(_) | StatedTerms::Proven(_) | StatedTerms::Forged(_) => {
                *self = StatedTerms::Forged(terms);
                true
            }
        }
    }

    /// Returns true if the machine was built for forged terms, and has to be built anew.
    pub fn are_forged(&self) -> bool {
        matches!(self, StatedTerms::Forged(_))
    }
}

/// Sizes of the sender's datagrams, and which of them arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenSizes {
    /// Sizes that the sender shows.
    pub shown: DatagramSizes,
    /// Largest datagram that has arrived.
    pub largest: u16,
    /// Number of invitations received.
    pub invitations: u32,
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
    /// The answer about holdings is due, at first or again.
    Holdings,
}
