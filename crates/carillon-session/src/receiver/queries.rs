//! Queries to sessions that the receiver does not join at present.
//!
//! A sender that does not answer a JOIN is ignored for a while, so that another one gets its turn: it may be forged.
//! But its answer may only be late, and an attacker that invites without end under new numbers could keep the
//! receiver from the real sender. While the present sender does not answer, the receiver therefore asks all others
//! whether they are there. Each query answers an invitation and is shorter. Its nonce is derived from session and
//! address, so that the receiver keeps no state for senders that never answer. A sender that answers gets the next
//! turn.

use carillon_core::{AssociationId, Dest, Duration, NodeId, Time, Transmit};
use carillon_wire::session::{Body, Nonce, Packet, State};

use super::ignored::IgnoredSession;
use super::state::{Invited, ReceiverPhase};
use super::{NO_EXPIRY, ReceiverSession};

impl ReceiverSession {
    /// Schedules a query in answer to an invitation, unless the present sender may still answer. The query is shorter
    /// than any invitation.
    pub(super) fn query_ignored(
        &mut self,
        now: Time,
        association: AssociationId,
        sender: NodeId,
        state: State,
    ) {
        let waits_still = self.invited.is_some() && now.since(self.joining.since) < EXCLUSIVE_JOIN_TIME;
        let for_good =
            self.seeking.ignored.find((association, sender)).is_some_and(|one| one.until == NO_EXPIRY);
        if !waits_still && !for_good && matches!(state, State::Gathering | State::Assembling | State::Running)
        {
            self.seeking.ignored.due = Some((association, sender));
        }
    }

    /// Handles the answer of an ignored session. Returns true if it was queried.
    pub(super) fn on_query_answer(
        &mut self,
        association: AssociationId,
        sender: NodeId,
        nonce: Nonce,
    ) -> bool {
        let session = (association, sender);
        let is_current = |invited: &Invited| (invited.association, invited.sender) == session;
        // A member has a sender, and a receiver that has reported needs none.
        let waits =
            matches!(self.phase, ReceiverPhase::Seeking | ReceiverPhase::Joining) && !self.is_welcomed();
        if !waits
            || self.invited.as_ref().is_some_and(is_current)
            || nonce != self.random.nonce_for(association, sender)
        {
            return false;
        }
        let (until, seen) =
            self.seeking.ignored.find(session).map_or_else(Default::default, |one| (one.until, one.seen));
        // A session that is ignored for good stays ignored.
        if until != NO_EXPIRY {
            self.seeking.ignored.put(IgnoredSession { session, until, has_answered: true, seen });
        }
        true
    }

    /// Writes the next query, if one is due.
    pub(super) fn due_query(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (association, sender) = self.seeking.ignored.due.take()?;
        Packet { association, body: Body::Ask { nonce: self.random.nonce_for(association, sender) } }
            .emit(buf);
        Some(Transmit::now(Dest::Node(sender)))
    }
}

/// Time in which only the present sender is asked. Most senders that exist answer within it, even if the first JOIN
/// is lost.
const EXCLUSIVE_JOIN_TIME: Duration = Duration::from_millis(250);
