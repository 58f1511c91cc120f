//! Sessions that are not joined now: set aside for a while or for good, or asked on the side.
//!
//! A sender that does not answer is set aside, so that another has its turn: it may be none. But its answer may merely be
//! late or lost, and who invites without pause, under ever new numbers, would otherwise keep a receiver from the
//! sender that is there. So while the one whose turn it is does not answer, all others are asked whether they are there, each
//! with its invitations and in fewer bytes than those have. The nonce with which one is asked is derived from its number and its
//! address: nothing has to be remembered of those that never answer. Who answers has the next turn.

use carillon_core::{AssociationId, Dest, Duration, NodeId, Time, Transmit};
use carillon_wire::session::{Body, Nonce, Packet, State};

use super::aside::Other;
use super::state::{Invited, ReceiverPhase};
use super::{FOREVER, ReceiverSession};

impl ReceiverSession {
    /// With what it asks this sender: nobody else can know it, and it is the same each time.
    pub(super) fn nonce_for(&self, association: AssociationId, sender: NodeId) -> Nonce {
        let attempt = format!("{} {} {}", association.0, sender.0, self.attempts);
        Nonce(self.nonces.part(&attempt).stream("session.nonce").bits())
    }

    /// An invitation to a session whose turn it is not: it is asked on the side, unless the one whose turn it is may still
    /// answer. The question is shorter than any invitation.
    pub(super) fn ask_aside(&mut self, now: Time, association: AssociationId, sender: NodeId, state: State) {
        let waits_still = self.invited.as_ref().is_some_and(|invited| now.since(invited.since) < ALONE);
        let for_good = self.aside.find((association, sender)).is_some_and(|one| one.until == FOREVER);
        if !waits_still && !for_good && matches!(state, State::Gathering | State::Assembling | State::Running)
        {
            self.aside.due = Some((association, sender));
        }
    }

    /// A session that it does not belong to says to it alone that it is there. Returns whether it was asked for.
    pub(super) fn on_answer_aside(
        &mut self,
        association: AssociationId,
        sender: NodeId,
        nonce: Nonce,
    ) -> bool {
        let session = (association, sender);
        let is_current = |invited: &Invited| (invited.association, invited.sender) == session;
        let waits =
            matches!(self.phase, ReceiverPhase::Seeking | ReceiverPhase::Joining) && !self.is_welcomed();
        if !waits
            || self.invited.as_ref().is_some_and(is_current)
            || nonce != self.nonce_for(association, sender)
        {
            return false;
        }
        let (until, seen) =
            self.aside.find(session).map_or_else(Default::default, |one| (one.until, one.seen));
        if until != FOREVER {
            self.aside.put(Other { session, until, has_answered: true, seen });
        }
        true
    }

    /// The question to a session whose turn it is not, if one is due.
    pub(super) fn due_aside(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (association, sender) = self.aside.due.take()?;
        Packet { association, body: Body::Ask { nonce: self.nonce_for(association, sender) } }.emit(buf);
        Some(Transmit::now(Dest::Node(sender)))
    }
}

/// One whose turn has just begun is given this long to answer before others are asked: most that are there do, even if the
/// first JOIN was lost.
const ALONE: Duration = Duration::from_millis(250);
