//! Steps of a receiver that knows the jobs in which it is verified.

use std::net::IpAddr;

use carillon_core::{NodeId, Time};
use carillon_wire::session::{Invite, JobId, Origin, RefuseReason};

use super::ReceiverSession;
use super::failure::ReceiverFailure;
use super::jobs::MissedSession;
use super::state::ReceiverPhase;
use crate::job::DoneJobs;

impl ReceiverSession {
    /// Jobs in which this receiver was verified, including those of earlier sessions.
    pub fn done_jobs(&self) -> &DoneJobs {
        &self.config.origin.done
    }

    fn host(&self, node: NodeId) -> Option<IpAddr> {
        self.config.network.addresses.of_node(node)
    }

    /// Returns true if this receiver is verified in the job of an invitation, and its sender knows.
    pub(super) fn has_everything_of(&mut self, source: NodeId, invite: &Invite<'_>) -> bool {
        let done = invite.job.and_then(|job| self.config.origin.done.find(job, self.host(source)));
        self.seeking.met.saw_done_job |= done.is_some();
        // A silent receiver cannot tell the sender, so it does not join again.
        done.is_some_and(|acknowledged| acknowledged || self.config.silent)
    }

    /// Identity that a JOIN states to the sender of a job: derived numbers that no other job and no other sender
    /// sees.
    pub(super) fn origin(&self, job: JobId, sender: NodeId) -> Origin {
        let host = self.host(sender);
        let seen = format!("{job:?}");
        let seen_there = format!("{seen} {host:?}");
        Origin {
            process: self.random.process.part(&seen_there).stream("session.process").bits(),
            place: carillon_core::Seeds::new(self.config.origin.place)
                .part(&seen)
                .stream("session.place")
                .bits(),
            resumes: self.config.origin.resumes,
            is_done: self.config.origin.done.find(job, host).is_some(),
        }
    }

    /// Remembers the job if this receiver was verified in its session.
    pub(super) fn note_done(&mut self) {
        if self.reporting.is_verified() && !self.reporting.is_part {
            self.remember_done(self.reporting.is_acknowledged());
        }
    }

    /// Returns false for an invitation to another job than the one that this receiver continues. An invitation
    /// to that job shows that its sender is there.
    pub(super) fn is_of_continued_job(&mut self, now: Time, invite: &Invite<'_>) -> bool {
        let Some(job) = self.config.origin.continues else { return true };
        let is_same = invite.job == Some(job);
        if is_same && self.phase == ReceiverPhase::Seeking {
            self.seeking.await_return(now + self.config.silence);
        }
        is_same
    }

    /// Ends the session, which its sender has left for the one of an invitation.
    pub(super) fn on_succession(&mut self, invite: &Invite<'_>) {
        let job = self.invited.as_ref().and_then(|invited| invited.job);
        self.seeking.met.left_for_other_job = invite.job != job;
        self.fail(ReceiverFailure::Refused(RefuseReason::Later, String::new()));
    }

    /// Remembers that this receiver is verified in the job of the present session.
    pub(super) fn remember_done(&mut self, acknowledged: bool) {
        let Some((job, sender)) = self.invited.as_ref().and_then(|one| Some((one.job?, one.sender))) else {
            return;
        };
        let host = self.host(sender);
        self.config.origin.done.add(job, host, acknowledged);
    }

    /// Records that the receiver is not in this session and waits for another one.
    pub(super) fn record_missed_session(&mut self, failure: ReceiverFailure) {
        let Some(invited) = &self.invited else { return };
        // A receiver that a catch-up session will serve misses nothing.
        if failure == ReceiverFailure::Refused(RefuseReason::Later, String::new()) {
            return;
        }
        let count = self.seeking.met.missed_session.as_ref().map_or(0, |one| one.count) + 1;
        let (sender, node) = (invited.name.clone(), invited.sender);
        self.seeking.met.missed_session = Some(MissedSession { sender, node, failure, count });
    }
}
