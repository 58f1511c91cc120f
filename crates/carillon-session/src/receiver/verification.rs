//! Verification of session states that any node could have claimed.
//!
//! The sender announces to the group that a session starts or ends, but a stranger can forge that announcement. The
//! receiver therefore asks the sender itself, with the nonce that only these two know, and the answer counts. No
//! answer comes if the session has ended already. The receiver then accepts the announced end, unless another packet
//! shows that the sender continues.

use carillon_core::Time;
use carillon_wire::session::{RefuseReason, State};

use super::ReceiverSession;
use super::claim::Step;
use super::failure::ReceiverFailure;
use super::outbox::Pending;
use super::state::{Invited, ReceiverPhase};

impl ReceiverSession {
    /// Begins to verify an announced state.
    pub(super) fn verify_state(&mut self, now: Time, state: State, reason: &str) {
        if self.liveness.claim.begin(state, reason) {
            match state {
                State::Finished | State::Aborted => {
                    let at = now + self.random.answer_delay();
                    self.liveness.claim.ask(at);
                }
                // The other members have begun, so ask at once.
                State::Gathering | State::Assembling | State::Running | State::Closing => {
                    self.on_query_timer(now);
                }
            }
        }
    }

    pub(super) fn on_query_timer(&mut self, now: Time) {
        match self.liveness.claim.on_timer(now) {
            Step::Ask => self.outbox.schedule(Pending::Ask),
            Step::Drop => {}
            Step::Accept(claimed) if self.is_welcomed() => {
                self.on_session_over(claimed.state, &claimed.reason);
            }
            // No authenticated packet said that the session exists.
            Step::Accept(_) => self.ignore_unresponsive(now),
        }
    }

    /// Handles the sender's own answer.
    pub(super) fn on_answer(&mut self, now: Time, state: State, reason: &str) {
        if let Some(problem) = self.invited.as_mut().and_then(|invited| invited.problem.take()) {
            // The sender exists, so the invitation that cannot be accepted was genuine: decline it.
            if let Some(Invited { association, sender, .. }) = self.invited {
                self.decline(association, sender, &problem, CONFIRMED_INVITE_BYTES);
            }
            return self.fail(ReceiverFailure::BadInvitation(problem));
        }
        self.outbox.cancel(&[Pending::Ask]);
        let claimed = self.liveness.claim.settle();
        match state {
            State::Finished | State::Aborted => {
                let heard = claimed.as_ref().map_or("", |claimed| &claimed.reason);
                self.on_session_over(state, if reason.is_empty() { heard } else { reason });
            }
            State::Running | State::Closing if self.phase == ReceiverPhase::Assembling => {
                self.start(now);
                if self.phase == ReceiverPhase::Assembling {
                    // All members of the session are ready, so this one is not a member.
                    self.fail(ReceiverFailure::Expelled);
                }
            }
            State::Gathering | State::Assembling | State::Running | State::Closing => {}
        }
    }

    /// Ends the session in this state.
    fn on_session_over(&mut self, state: State, reason: &str) {
        let member = self.is_welcomed();
        match (&self.phase, state) {
            // The sender asks for nothing more; the application's report stands.
            (ReceiverPhase::Reporting, _) => self.end(ReceiverPhase::Finished),
            _ if !self.is_busy() => {}
            (_, State::Aborted) => self.fail(ReceiverFailure::Aborted(reason.to_owned())),
            // A member that only helps has nothing to report.
            _ if member && !self.config.part.receives() => self.end(ReceiverPhase::Finished),
            _ if member => self.fail(ReceiverFailure::Expelled),
            _ => self.fail(ReceiverFailure::Refused(RefuseReason::AlreadyStarted, String::new())),
        }
    }
}

/// Credit for declining a genuine invitation, in bytes of invitations received.
const CONFIRMED_INVITE_BYTES: usize = 1024;
