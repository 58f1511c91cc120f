//! Verification of session states that any node could have claimed.
//!
//! The sender announces to the group that a session starts or ends, but a stranger can forge that announcement. The
//! receiver therefore asks the sender itself, with the nonce that only these two know, and the answer counts. No
//! answer comes if the session has ended already. The receiver then accepts the announced end, unless another packet
//! shows that the sender continues.

use carillon_core::{Duration, Time};
use carillon_wire::session::{RefuseReason, State};

use super::ReceiverSession;
use super::failure::ReceiverFailure;
use super::state::{Invited, ReceiverPhase, Timer, UnverifiedState};

impl ReceiverSession {
    /// Begins to verify an announced state.
    pub(super) fn verify_state(&mut self, now: Time, state: State, reason: &str) {
        if self.unverified.is_none() {
            let reason = reason.to_owned();
            self.unverified = Some(UnverifiedState { state, reason, asked: 0, contradicted: false });
            if matches!(state, State::Finished | State::Aborted) {
                let delay = self.random_delay();
                self.timers.arm(Timer::Ask, now + delay);
            } else {
                // The other members have begun, so ask at once.
                self.on_query_timer(now);
            }
        }
    }

    /// Records that the sender was heard continuing. A packet right after the announcement may be older than it,
    /// since multicast and unicast packets wait in different sockets, so only packets after the first query count.
    pub(super) fn on_sender_continues(&mut self) {
        if let Some(unverified) = self.unverified.as_mut().filter(|unverified| unverified.asked > 1) {
            unverified.contradicted = true;
        }
    }

    pub(super) fn on_query_timer(&mut self, now: Time) {
        let Some(unverified) = &mut self.unverified else { return };
        // Queries are repeated, since each or its answer may be lost.
        if unverified.asked < MAX_STATE_QUERIES {
            unverified.asked += 1;
            self.ask_due = true;
            self.timers.arm(Timer::Ask, now + STATE_QUERY_INTERVAL);
            return;
        }
        let Some(unverified) = self.unverified.take() else { return };
        let on_session_over = matches!(unverified.state, State::Finished | State::Aborted);
        // An unconfirmed start changes nothing: the next packet of the running session asks again.
        if unverified.contradicted || !on_session_over {
            return;
        }
        match self.is_welcomed() {
            true => self.on_session_over(unverified.state, &unverified.reason),
            // No authenticated packet said that the session exists.
            false => self.ignore_unresponsive(now),
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
        self.timers.cancel(Timer::Ask);
        self.ask_due = false;
        let unverified = self.unverified.take();
        match state {
            State::Finished | State::Aborted => {
                let heard = unverified.as_ref().map_or("", |unverified| &unverified.reason);
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
/// Maximum number of queries for a state.
const MAX_STATE_QUERIES: u32 = 6;
/// Interval between these queries.
const STATE_QUERY_INTERVAL: Duration = Duration::from_millis(100);
