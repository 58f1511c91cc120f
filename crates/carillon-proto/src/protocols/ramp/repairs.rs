//! Requests that the sender collects during the retransmission hold timer (RFC 1458, section 4.2.3.1).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::Time;

use super::config::Settings;
use crate::blocks::DueRepairs;

/// Destination of a repair: one member by its index, or `None` for the group.
pub(super) type Target = Option<usize>;

/// Requests, and the repairs and NAKs that are due after the hold timer.
#[derive(Debug)]
pub(super) struct Repairs {
    /// Requested messages with the members that request them.
    requests: BTreeMap<u64, BTreeSet<usize>>,
    /// Requesters of the messages that are due to the group.
    group: BTreeMap<u64, BTreeSet<usize>>,
    /// Members that request messages that are no longer held.
    refused: BTreeSet<usize>,
    /// Number of requesters above which an answer is multicast.
    threshold: usize,
    /// Present value of the hold timer.
    hold: Duration,
    max: Duration,
    step: Duration,
    /// Number of requests in the last period.
    last: usize,
    pub due: DueRepairs<Target>,
}

impl Repairs {
    /// Creates the state without requests.
    pub fn new(settings: &Settings) -> Self {
        Repairs {
            requests: BTreeMap::new(),
            group: BTreeMap::new(),
            refused: BTreeSet::new(),
            threshold: settings.mcast_thresh,
            hold: settings.hold,
            max: settings.hold_max,
            step: settings.hold_step,
            last: 0,
            due: DueRepairs::new(settings.repair_guard),
        }
    }

    /// Records a request of a member for a message that is held.
    pub fn request(&mut self, number: u64, member: usize) {
        self.requests.entry(number).or_default().insert(member);
    }

    /// Records a request of a member for a message that is no longer held.
    pub fn refuse(&mut self, member: usize) {
        self.refused.insert(member);
    }

    /// Takes the requesters of a message that goes to the group.
    pub fn take_group(&mut self, number: u64) -> Vec<usize> {
        self.group.remove(&number).unwrap_or_default().into_iter().collect()
    }

    /// Forgets a message that is no longer held.
    pub fn forget(&mut self, number: u64) {
        self.group.remove(&number);
        self.due.forget(number);
    }

    /// Present value of the hold timer; zero if answers leave at once.
    pub fn hold(&self) -> Duration {
        self.hold
    }

    /// Ends a period: decides the destination of each answer and adapts the hold timer. Returns the number of
    /// different messages that were requested.
    pub fn decide(&mut self, now: Time) -> u64 {
        let (messages, mut requests) = (self.requests.len() as u64, 0);
        for (number, members) in std::mem::take(&mut self.requests) {
            requests += members.len();
            for target in targets(&members, self.threshold) {
                self.due.request(now, number, target);
            }
            if members.len() > self.threshold {
                self.group.entry(number).or_default().extend(members);
            }
        }
        for target in targets(&std::mem::take(&mut self.refused), self.threshold) {
            self.due.refuse(now, target);
        }
        // RFC 1458: the timer grows when requests rise and shrinks when they fall.
        match requests.cmp(&self.last) {
            std::cmp::Ordering::Greater => self.hold = (self.hold + self.step).min(self.max),
            std::cmp::Ordering::Less => self.hold = self.hold.saturating_sub(self.step),
            std::cmp::Ordering::Equal => {}
        }
        self.last = requests;
        messages
    }
}

/// Destinations of an answer to these members: the group if they are more than the threshold, else each of them.
pub(super) fn targets(members: &BTreeSet<usize>, threshold: usize) -> Vec<Target> {
    match members.len() > threshold {
        true => vec![None],
        false => members.iter().map(|&member| Some(member)).collect(),
    }
}
