//! Jobs in which this receiver has everything, and sessions that it is not in.

use std::net::IpAddr;

use carillon_core::NodeId;
use carillon_wire::session::{Invite, JobId, Origin, RefuseReason};

use super::ReceiverSession;
use super::failure::ReceiverFailure;
use crate::session::job::DoneJobs;

/// A session that this receiver is not in although it was invited: it waits for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedBy {
    /// The name of the sender.
    pub sender: String,
    /// The node of the sender.
    pub node: NodeId,
    /// Why it is not in the session.
    pub failure: ReceiverFailure,
    /// Number of such sessions so far.
    pub count: u64,
}

impl ReceiverSession {
    /// The jobs in which this receiver was verified, those of earlier sessions included.
    pub fn done_jobs(&self) -> &DoneJobs {
        &self.config.done
    }

    /// The last session that this receiver is not in although it was invited, while it waits for another one.
    pub fn passed_by(&self) -> Option<&PassedBy> {
        self.passed_by.as_ref()
    }

    /// Whether a job has invited in which this receiver was verified.
    pub fn has_heard_done(&self) -> bool {
        self.heard_done
    }

    fn host(&self, node: NodeId) -> Option<IpAddr> {
        self.config.addresses.of_node(node)
    }

    /// Whether this receiver is done with the job that invites, and its sender knows.
    pub(super) fn has_everything_of(&mut self, source: NodeId, invite: &Invite<'_>) -> bool {
        let done = invite.job.and_then(|job| self.config.done.find(job, self.host(source)));
        self.heard_done |= done.is_some();
        done.is_some_and(|acknowledged| acknowledged || self.config.silent)
    }

    /// What it says of itself to the sender of a job: numbers that no other job and no other sender sees.
    pub(super) fn origin(&self, job: JobId, sender: NodeId) -> Origin {
        let host = self.host(sender);
        let seen = format!("{job:?}");
        let seen_there = format!("{seen} {host:?}");
        Origin {
            process: self.process.part(&seen_there).stream("session.process").bits(),
            place: carillon_core::Seeds::new(self.config.place).part(&seen).stream("session.place").bits(),
            resumes: self.config.resumes,
            is_done: self.config.done.find(job, host).is_some(),
        }
    }

    /// If this receiver was verified in the session that it is in, it is done with the job.
    pub(super) fn note_done(&mut self) {
        if self.verdict == Some(Ok(())) {
            self.remember_done(self.acknowledged);
        }
    }

    /// This receiver is done with the job of the session that it is in, or asks to be in.
    pub(super) fn remember_done(&mut self, acknowledged: bool) {
        let Some((job, sender)) = self.invited.as_ref().and_then(|one| Some((one.job?, one.sender))) else {
            return;
        };
        let host = self.host(sender);
        self.config.done.add(job, host, acknowledged);
    }

    /// It is not in this session, and waits for another one.
    pub(super) fn pass_by(&mut self, failure: ReceiverFailure) {
        let Some(invited) = &self.invited else { return };
        if failure == ReceiverFailure::Refused(RefuseReason::Later, String::new()) {
            return;
        }
        let count = self.passed_by.as_ref().map_or(0, |one| one.count) + 1;
        let (sender, node) = (invited.name.clone(), invited.sender);
        self.passed_by = Some(PassedBy { sender, node, failure, count });
    }
}
