//! What everybody could have said is asked after before anything ends or begins by it.
//!
//! That the session is over the sender tells the group, in its own name; so can anybody who writes that
//! name on a packet. The receiver asks the sender itself, with the nonce that only the two know. If it
//! answers, its word counts. If it does not, for it may have ended already, the receiver believes what it
//! heard unless the sender is heard going on.

use carillon_core::{Duration, Time};
use carillon_wire::session::{RefuseReason, State};

use super::ReceiverSession;
use super::failure::ReceiverFailure;
use super::state::{Doubt, Invited, ReceiverPhase, Timer};

impl ReceiverSession {
    /// The group was told, or seems to have been, that the session is in this state.
    pub(super) fn doubt(&mut self, now: Time, state: State, reason: &str) {
        if self.doubt.is_none() {
            let reason = reason.to_owned();
            self.doubt = Some(Doubt { state, reason, asked: 0, contradicted: false });
            if matches!(state, State::Finished | State::Aborted) {
                let delay = self.spread();
                self.timers.arm(Timer::Ask, now + delay);
            } else {
                // The others have begun.
                self.on_ask_timer(now);
            }
        }
    }

    /// The sender was heard going on. What comes at once may have been sent before what is doubted: what is sent to the group and
    /// what is sent to this member alone wait in sockets of their own.
    pub(super) fn contradict(&mut self) {
        if let Some(doubt) = self.doubt.as_mut().filter(|doubt| doubt.asked > 1) {
            doubt.contradicted = true;
        }
    }

    pub(super) fn on_ask_timer(&mut self, now: Time) {
        let Some(doubt) = &mut self.doubt else { return };
        if doubt.asked < ASKS {
            doubt.asked += 1;
            self.ask_due = true;
            self.timers.arm(Timer::Ask, now + ASK_INTERVAL);
            return;
        }
        let Some(doubt) = self.doubt.take() else { return };
        let over = matches!(doubt.state, State::Finished | State::Aborted);
        if doubt.contradicted || !over {
            return;
        }
        match self.is_welcomed() {
            true => self.over(doubt.state, &doubt.reason),
            // Nobody who knows this receiver has said so.
            false => self.set_aside(now),
        }
    }

    /// The sender's own answer.
    pub(super) fn on_answer(&mut self, now: Time, state: State, reason: &str) {
        if let Some(problem) = self.invited.as_mut().and_then(|invited| invited.problem.take()) {
            // There is one who invites to this.
            if let Some(Invited { association, sender, .. }) = self.invited {
                self.decline(association, sender, &problem, CONFIRMED);
            }
            return self.fail(ReceiverFailure::BadInvitation(problem));
        }
        self.timers.cancel(Timer::Ask);
        self.ask_due = false;
        let doubt = self.doubt.take();
        match state {
            State::Finished | State::Aborted => {
                let heard = doubt.as_ref().map_or("", |doubt| &doubt.reason);
                self.over(state, if reason.is_empty() { heard } else { reason });
            }
            State::Running | State::Closing if self.phase == ReceiverPhase::Assembling => {
                self.start(now);
                if self.phase == ReceiverPhase::Assembling {
                    // All who take part are ready.
                    self.fail(ReceiverFailure::Expelled);
                }
            }
            State::Gathering | State::Assembling | State::Running | State::Closing => {}
        }
    }

    /// The session is over.
    fn over(&mut self, state: State, reason: &str) {
        let member = self.is_welcomed();
        match (&self.phase, state) {
            // The sender asks no more; what the application reported stands.
            (ReceiverPhase::Reporting, _) => self.end(ReceiverPhase::Finished),
            _ if !self.is_busy() => {}
            (_, State::Aborted) => self.fail(ReceiverFailure::Aborted(reason.to_owned())),
            // Who only helps has nothing to report.
            _ if member && !self.config.part.receives() => self.end(ReceiverPhase::Finished),
            _ if member => self.fail(ReceiverFailure::Expelled),
            _ => self.fail(ReceiverFailure::Refused(RefuseReason::AlreadyStarted, String::new())),
        }
    }
}

/// One that is there may be told, as often as it takes.
const CONFIRMED: usize = 1024;
/// How often and how fast the sender is asked.
const ASKS: u32 = 6;
const ASK_INTERVAL: Duration = Duration::from_millis(100);
