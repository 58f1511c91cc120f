//! Identity of a job, and the jobs that a receiver remembers.

use std::collections::VecDeque;
use std::net::IpAddr;

pub use carillon_wire::session::JobId;

/// Recent jobs in which a receiver was verified: their data need not be sent to it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoneJobs(VecDeque<Done>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Done {
    job: JobId,
    /// Address of the sender, if known. Other senders may use the same job number.
    sender: Option<IpAddr>,
    /// True if the sender has acknowledged the report.
    acknowledged: bool,
}

impl DoneJobs {
    /// Remembers a job. `acknowledged` tells if its sender knows that this receiver has everything.
    pub fn add(&mut self, job: JobId, sender: Option<IpAddr>, acknowledged: bool) {
        // A job has one entry, which moves to the end, so the oldest job is forgotten first.
        self.0.retain(|done| (done.job, done.sender) != (job, sender));
        if self.0.len() >= MAX_DONE_JOBS {
            self.0.pop_front();
        }
        self.0.push_back(Done { job, sender, acknowledged });
    }

    /// Reports whether this receiver has everything of the job: none if not, otherwise whether the sender has
    /// acknowledged it.
    pub fn find(&self, job: JobId, sender: Option<IpAddr>) -> Option<bool> {
        let done = self.0.iter().find(|done| (done.job, done.sender) == (job, sender));
        done.map(|done| done.acknowledged)
    }
}

/// Maximum number of jobs that a receiver remembers.
const MAX_DONE_JOBS: usize = 64;
