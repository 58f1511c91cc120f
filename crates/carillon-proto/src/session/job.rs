//! The identity of a job, and what a receiver remembers of jobs.

use std::collections::VecDeque;
use std::net::IpAddr;

pub use carillon_wire::session::JobId;

/// Jobs in which a receiver was verified, the latest ones: what it has of them it has not to be sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoneJobs(VecDeque<Done>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Done {
    job: JobId,
    /// Address of the sender, if that is known: others may name its jobs too.
    sender: Option<IpAddr>,
    /// The sender knows.
    acknowledged: bool,
}

impl DoneJobs {
    /// Remembers a job, and whether its sender has acknowledged that this receiver has everything.
    pub fn add(&mut self, job: JobId, sender: Option<IpAddr>, acknowledged: bool) {
        self.0.retain(|done| (done.job, done.sender) != (job, sender));
        if self.0.len() >= MAX_DONE_JOBS {
            self.0.pop_front();
        }
        self.0.push_back(Done { job, sender, acknowledged });
    }

    /// Whether this receiver has everything of a job of this sender, and if so, whether the sender has acknowledged it.
    pub fn find(&self, job: JobId, sender: Option<IpAddr>) -> Option<bool> {
        let done = self.0.iter().find(|done| (done.job, done.sender) == (job, sender));
        done.map(|done| done.acknowledged)
    }
}

/// Maximum number of jobs that a receiver remembers.
const MAX_DONE_JOBS: usize = 64;
