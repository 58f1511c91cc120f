//! Receiver side of a session.

use carillon_core::{Duration, Event, Events, Seeds, States, Time};
use carillon_wire::session::{Name, RefuseReason, Text, Verdict};

use super::config::ReceiverSessionConfig;
use super::job::JobId;

mod assembling;
mod assembling_steps;
mod claim;
mod distances;
mod driving;
mod failure;
mod feeding;
mod holdings;
mod holdings_steps;
mod hosted;
mod ignored;
mod jobs;
mod jobs_steps;
mod joining;
mod liveness;
mod outbox;
mod outbox_steps;
mod overhearing;
mod overhearing_steps;
mod packets;
mod peers;
mod probing;
mod queries;
mod random;
mod releases;
mod releases_steps;
mod reporting;
mod seeking;
mod seeking_steps;
mod send_budget;
mod silent;
mod sizes;
mod state;
mod succession;
mod verification;
mod view;

#[cfg(test)]
mod tests;

pub use failure::ReceiverFailure;
pub use jobs::MissedSession;
pub use peers::PeerMember;
pub use releases::OtherSender;
pub use state::ReceiverPhase;

use assembling::Assembling;
use holdings::HoldingsAnswer;
use hosted::Hosted;
use ignored::IgnoredSession;
use joining::Joining;
use liveness::Liveness;
use outbox::{Leave, Outbox, Pending};
use probing::Probing;
use random::RandomValues;
use reporting::Reporting;
use seeking::Seeking;
use state::{Invited, SeenSizes};

/// States of the machines that make a [`ReceiverSession`].
pub const RECEIVER_STATES: &[States] = &[
    state::STATES,
    joining::STATES,
    liveness::STATES,
    claim::STATES,
    assembling::STATES,
    probing::STATES,
    reporting::PROGRESS_STATES,
    reporting::STATES,
    seeking::STATES,
    overhearing::STATES,
];

/// Session at a receiver: it answers an invitation, receives through the protocol's machine, and reports.
///
/// Among peers it can offer messages too, and is then also a [`Sender`](carillon_core::Sender). Such a member reports
/// once its own messages are complete.
///
/// The application tells its progress with [`progress`](Self::progress), and the end with [`report`](Self::report).
/// Until then messages are delivered as the protocol yields them.
#[derive(Debug)]
pub struct ReceiverSession {
    config: ReceiverSessionConfig,
    /// Random values.
    random: RandomValues,
    /// Part in the session.
    phase: ReceiverPhase,
    /// Present invitation.
    invited: Option<Invited>,
    /// Admission by the sender.
    joining: Joining,
    /// Liveness of the sender, and its claims.
    liveness: Liveness,
    /// Agreement with the other members, in a protocol with peers or helpers.
    assembling: Assembling,
    /// Machine of the protocol.
    hosted: Hosted,
    /// Progress and result.
    reporting: Reporting,
    /// Answer about holdings.
    holdings: HoldingsAnswer,
    /// Other sessions, and the wait for a catch-up session.
    seeking: Seeking,
    /// Packets of the session to send.
    outbox: Outbox,
    events: Events,
}

impl ReceiverSession {
    /// Creates a receiver that waits for an invitation.
    pub fn new(config: ReceiverSessionConfig, seeds: Seeds) -> Self {
        let name = Name::clean(&config.name, "receiver");
        // Two members with equal seeds still differ in name, which keeps their random waits apart.
        let named = seeds.part("session").part(&name);
        // Nonces must be unpredictable. The seeds of a repeatable run are known, so a host on a real network has a
        // secret.
        let secret = config.secret.map_or(named.clone(), |secret| Seeds::new(secret).part(&name));
        let process = config.origin.process.map_or(named.clone(), Seeds::new);
        let probing = Probing::new(secret.stream("session.probe"));
        let silence = config.silence.max(MIN_SILENCE);
        ReceiverSession {
            liveness: Liveness::new(silence, !config.silent),
            config: ReceiverSessionConfig { name, silence, ..config },
            random: RandomValues::new(named.stream("session.delay"), secret, process),
            phase: ReceiverPhase::Seeking,
            invited: None,
            joining: Joining::default(),
            assembling: Assembling::new(probing),
            hosted: Hosted::new(named.part("protocol")),
            reporting: Reporting::default(),
            holdings: HoldingsAnswer::default(),
            seeking: Seeking::default(),
            outbox: Outbox::default(),
            events: Events::default(),
        }
    }

    /// Reports the result of the application: all `bytes` are stored and verified, or the reason of failure. The
    /// report is repeated until the sender acknowledges it. Only the first call counts. Drain the session afterwards.
    pub fn report(&mut self, now: Time, bytes: u64, verdict: Result<(), String>) {
        match verdict {
            Ok(()) => self.conclude(now, bytes, Verdict::Verified, ""),
            Err(reason) => self.conclude(now, bytes, Verdict::Failed, &reason),
        }
    }

    /// Reports that a part of a live stream is delivered, which another session of the job continues.
    pub fn report_part(&mut self, now: Time, bytes: u64) {
        self.reporting.is_part = true;
        self.conclude(now, bytes, Verdict::Verified, "");
    }

    /// Reports that the data differ from the data sent, and may be intact in a catch-up session.
    pub fn report_damaged(&mut self, now: Time, bytes: u64, reason: String) {
        self.conclude(now, bytes, Verdict::Damaged, &reason);
    }

    fn conclude(&mut self, now: Time, bytes: u64, verdict: Verdict, reason: &str) {
        // The first report counts. A receiver outside a session has no sender to report to.
        if !self.is_busy() {
            return;
        }
        self.reporting.conclude(bytes, verdict, reason);
        // A silent receiver cannot report, so the verdict of its application ends the session.
        if self.config.silent {
            return self.end(ReceiverPhase::Finished);
        }
        self.set_phase(ReceiverPhase::Reporting);
        self.outbox.schedule(Pending::Report);
        self.reporting.repeat(now);
    }

    /// Records the number of bytes that the application has processed.
    pub fn progress(&mut self, bytes: u64) {
        self.reporting.bytes = bytes;
    }

    /// Leaves the session and notifies the sender, without waiting for an answer. Does nothing once the session is
    /// over. Drain the session afterwards.
    pub fn leave(&mut self, _now: Time, reason: &str) {
        if !matches!(self.phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_)) {
            let reason = Text::clean(reason);
            let times =
                self.invited.as_ref().map(|invited| if invited.member.is_some() { LEAVE_REPEATS } else { 1 });
            self.outbox.leave = times.map(|left| Leave { reason: reason.clone(), left });
            // The pending LEAVE packets survive `end`: the host drains them afterwards.
            self.end(ReceiverPhase::Failed(ReceiverFailure::Left(reason)));
        }
    }

    /// Returns true if the sender has admitted the receiver, with its own nonce.
    fn is_welcomed(&self) -> bool {
        self.invited.as_ref().is_some_and(|invited| invited.member.is_some())
    }

    /// Returns true if the receiver takes part and has not reported.
    fn is_busy(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Joining | ReceiverPhase::Assembling | ReceiverPhase::Running)
    }

    fn set_phase(&mut self, phase: ReceiverPhase) {
        if self.phase != phase {
            let state = phase.name();
            self.phase = phase;
            self.events.push(Event::StateChanged { state });
        }
    }

    /// Ends all activity of the session. A finished receiver keeps its machine, which still answers the sender.
    fn end(&mut self, phase: ReceiverPhase) {
        // Drop all packets that were scheduled for the old phase. LEAVE and DECLINE stay, as they notify the sender
        // of the end.
        self.outbox.pending.clear();
        self.joining.end();
        self.liveness.end();
        self.assembling.end();
        self.reporting.end();
        self.holdings.end();
        self.seeking.timers.clear();
        let is_finished = phase == ReceiverPhase::Finished;
        self.hosted.end(is_finished);
        if is_finished && self.phase != phase {
            // A verified receiver remembers the job, so that it does not join its next session.
            self.note_done();
        }
        if phase == ReceiverPhase::Seeking {
            self.assembling.peers = None;
        }
        self.set_phase(phase);
    }

    fn fail(&mut self, failure: ReceiverFailure) {
        let untouched = matches!(self.phase, ReceiverPhase::Seeking | ReceiverPhase::Joining);
        // A catch-up session will serve this receiver.
        let later = matches!(failure, ReceiverFailure::Refused(RefuseReason::Later, _));
        self.seeking.later |= later;
        let done = matches!(failure, ReceiverFailure::Refused(RefuseReason::Done, _));
        if done {
            // Nothing is left to serve in a catch-up session.
            self.seeking.later = false;
            self.remember_done(true);
        }
        // A receiver that was never admitted, and has delivered nothing, can wait for another session. Otherwise the
        // application has to begin anew.
        if (self.config.keep_seeking || later || done) && untouched && !self.hosted.delivered {
            self.record_missed_session(failure);
            if let Some(invited) = self.invited.take() {
                // This session will not admit the receiver, so further invitations to it are ignored for good.
                self.seeking.ignored.add(invited.association, invited.sender, NO_EXPIRY);
                if later {
                    self.begin_overhearing(invited.association, invited.sender);
                }
            }
            self.end(ReceiverPhase::Seeking);
        } else {
            self.end(ReceiverPhase::Failed(failure));
        }
    }

    /// Ignores the present sender, which does not answer, so that others get a turn.
    fn ignore_unresponsive(&mut self, now: Time) {
        if let Some(invited) = self.invited.take() {
            let Invited { association, sender, sizes: SeenSizes { largest, invitations, .. }, .. } = invited;
            // Keep the observations of datagram sizes, since this sender may get another turn.
            let (session, seen) = ((association, sender), (largest, invitations));
            self.seeking.ignored.put(IgnoredSession {
                session,
                until: now + IGNORE_TIME,
                has_answered: false,
                seen,
            });
            self.seeking.note_unanswered(invited.name);
        }
        self.end(ReceiverPhase::Seeking);
    }

    /// Records that the sender is alive, as far as a packet shows that any node can forge.
    fn on_sender_heard(&mut self, now: Time) {
        // A sender that is heard in its own session has no successor.
        self.invited.iter_mut().for_each(|invited| invited.successor = None);
        self.liveness.heard(now);
    }

    /// Records a packet that only the sender could have sent.
    fn on_authenticated_packet(&mut self, now: Time) {
        self.on_sender_heard(now);
        self.liveness.authenticated(now);
    }
}

/// Number of LEAVE packets, which nothing acknowledges.
const LEAVE_REPEATS: usize = 3;
/// Time without an answer after which another sender gets a turn.
const JOIN_TIMEOUT: Duration = Duration::from_millis(600);
/// Time for which a session without answers is ignored.
const IGNORE_TIME: Duration = Duration::from_secs(10);
/// Time of ignoring a session for good.
const NO_EXPIRY: Time = Time::MAX;
/// Minimum silence timeout, whatever is configured.
const MIN_SILENCE: Duration = Duration::from_millis(1);
