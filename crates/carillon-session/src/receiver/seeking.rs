//! Seeking: senders that a receiver has met, and the catch-up session that it waits for.

use carillon_core::{States, Time, Timers};

use super::super::release_claims::ReleaseClaims;
use super::ignored::IgnoredSessions;
use super::jobs::MissedSession;
use super::overhearing::Overhearing;
use super::releases::OtherSender;
use super::state::Timer;

/// Declared states of waiting for a catch-up session.
pub(super) const STATES: States = States {
    of: "receiver, catch-up",
    transitions: &[
        ("[*]", "None", ""),
        ("[*]", "Returning", "an earlier session of the job expelled the receiver"),
        ("None", "Promised", "REFUSE later"),
        ("Returning", "Promised", "REFUSE later"),
        ("Returning", "None", "no INVITE within the silence timeout: the expulsion stands"),
        ("Promised", "Returning", "REFUSE done to a returning receiver"),
        ("Promised", "None", "REFUSE done: nothing is left to serve"),
    ],
};

/// Senders that the receiver has met.
#[derive(Debug, Default)]
pub(super) struct Encounters {
    /// Last session that the receiver was invited to and is not in.
    pub missed_session: Option<MissedSession>,
    /// True if a job invited in which this receiver was verified.
    pub saw_done_job: bool,
    /// Name of the last sender that invited and is not among those to listen to.
    pub passed_over: Option<String>,
    /// Name of the last sender that a silent receiver cannot follow, with the reason.
    pub unfit: Option<(String, String)>,
    /// Name of the last sender that did not answer a JOIN, and the number of such senders.
    pub unanswered: Option<(String, u64)>,
    /// True if the sender of the session has left it for another job.
    pub left_for_other_job: bool,
    /// Senders that claimed another release once.
    pub release_claims: ReleaseClaims,
    /// Last sender that claimed another release twice.
    pub other_sender: Option<OtherSender>,
}

/// State of a receiver between sessions.
#[derive(Debug, Default)]
pub(super) struct Seeking {
    /// Sessions that are not joined at present.
    pub ignored: IgnoredSessions,
    pub met: Encounters,
    /// Session that the receiver is not in and overhears.
    pub overhearing: Option<Box<Overhearing>>,
    /// True if a sender said that a catch-up session will serve this receiver.
    pub later: bool,
    pub timers: Timers<Timer>,
}

impl Seeking {
    /// Records that a sender did not answer.
    pub fn note_unanswered(&mut self, name: String) {
        let count = self.met.unanswered.as_ref().map_or(0, |(_, count)| *count);
        self.met.unanswered = Some((name, count + 1));
    }

    /// Waits until this time for an invitation to a catch-up session.
    pub fn await_return(&mut self, until: Time) {
        self.timers.arm(Timer::Return, until);
    }
}
