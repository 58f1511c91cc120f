//! Reports of a receiver on the senders that it has met.

use carillon_core::ObservedState;

use super::ReceiverSession;
use super::jobs::MissedSession;
use super::releases::OtherSender;
use super::seeking::STATES;
use crate::observed;

impl ReceiverSession {
    /// Last session that this receiver was invited to and is not in, while it waits for another one.
    pub fn missed_session(&self) -> Option<&MissedSession> {
        self.seeking.met.missed_session.as_ref()
    }

    /// Returns true if a job invited in which this receiver was verified.
    pub fn has_seen_done_job(&self) -> bool {
        self.seeking.met.saw_done_job
    }

    /// Last sender of a session that this release cannot read.
    pub fn other_sender(&self) -> Option<&OtherSender> {
        self.seeking.met.other_sender.as_ref()
    }

    /// Returns true if the receiver waits for an invitation of the sender that expelled it.
    pub fn is_returning(&self) -> bool {
        self.config.returning.is_some()
    }

    /// Returns true if a sender said that a catch-up session will serve this receiver.
    pub fn is_served_later(&self) -> bool {
        self.seeking.later
    }

    /// Returns true if the sender has left the session for another job, which does not continue a live stream.
    pub fn is_left_for_other_job(&self) -> bool {
        self.seeking.met.left_for_other_job
    }

    /// Name of the last sender that invited and is not among those to listen to.
    pub fn unlisted_sender(&self) -> Option<&str> {
        self.seeking.met.passed_over.as_deref()
    }

    /// Name of the last sender that this silent receiver cannot follow, with the reason.
    pub fn unsuitable_sender(&self) -> Option<(&str, &str)> {
        self.seeking.met.unfit.as_ref().map(|(name, why)| (name.as_str(), why.as_str()))
    }

    /// Name of the last sender that did not answer a JOIN, and the number of such senders.
    pub fn unanswered(&self) -> Option<(&str, u64)> {
        self.seeking.met.unanswered.as_ref().map(|(name, count)| (name.as_str(), *count))
    }

    /// State of waiting for a catch-up session.
    pub(super) fn observe_catch_up(&self) -> ObservedState {
        observed(
            &STATES,
            match (self.seeking.later, self.is_returning()) {
                (true, _) => "Promised",
                (false, true) => "Returning",
                (false, false) => "None",
            },
        )
    }
}
