//! Silent receiver: it never sends, for networks without a return path.

use carillon_core::{AssociationId, DropReason, NodeId, Time, Transmit};
use carillon_wire::session::{Invite, State};

use super::failure::ReceiverFailure;
use super::state::ReceiverPhase;
use super::{NO_EXPIRY, ReceiverSession};

impl ReceiverSession {
    /// Handles an invitation to a new session. The receiver follows the first session that it hears from the
    /// beginning and that needs no answers.
    pub(super) fn follow(
        &mut self,
        now: Time,
        source: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
    ) {
        let had = self.seeking.ignored.has(now, association, source);
        if self.phase != ReceiverPhase::Seeking || invite.state != State::Gathering || had {
            return self.events.dropped(DropReason::Foreign);
        }
        self.invited_to(now, source, association, invite, 0);
        match self.accept(source, association, invite) {
            // A stranger could otherwise end the receiver's session.
            Err(problem) => {
                self.seeking.met.unfit = Some((invite.sender.to_string(), problem));
                self.unfollow(NO_EXPIRY);
            }
            Ok(()) => {
                // No WELCOME will arrive, so the receiver counts as admitted at once.
                if let Some(invited) = &mut self.invited {
                    invited.member = Some(0);
                }
                self.with_inner(|inner| inner.start(now));
                self.set_phase(ReceiverPhase::Running);
                self.liveness.begin(now);
            }
        }
    }

    /// Stops following the present session, which has brought no data, so that another one gets its turn.
    pub(super) fn unfollow(&mut self, until: Time) {
        if let Some(invited) = self.invited.take() {
            self.seeking.ignored.add(invited.association, invited.sender, until);
        }
        self.end(ReceiverPhase::Seeking);
    }

    /// Handles a further invitation of the session that it follows.
    pub(super) fn on_heartbeat_unanswered(&mut self, now: Time, invite: &Invite<'_>) {
        match invite.state {
            State::Aborted if self.is_busy() => {
                self.fail(ReceiverFailure::Aborted(invite.reason.to_string()));
            }
            // Data received so far may still be stored.
            State::Finished | State::Aborted => {}
            State::Gathering | State::Assembling | State::Running | State::Closing => {
                self.on_sender_heard(now);
            }
        }
    }

    /// Discards the packets that the machine would send.
    pub(super) fn stay_silent(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        (self.outbox.leave, self.outbox.decline) = (None, None);
        while self.with_inner(|inner| inner.poll_transmit(now, buf)).flatten().is_some() {
            buf.clear();
        }
        None
    }
}
