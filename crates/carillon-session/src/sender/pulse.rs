//! Activity of the sender itself, so that its own delays are not blamed on members.

use std::collections::VecDeque;

use carillon_core::{Duration, Notice, Time};

use crate::trial::Trials;

/// Counters and times of the sender's own activity.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Time at which the members were last examined, in the time in which the session ran.
    pub ticked: Option<Time>,
    /// Time at which the protocol last provided a datagram after which the network has not asked for another.
    handed: Option<Time>,
    /// Time since the last tick in which the rate limit delayed the first transmission of outstanding messages.
    pub own: Duration,
    /// Messages sent for the first time.
    pub sent: u64,
    /// Messages sent at the previous tick.
    pub sent_before: u64,
    /// Messages completed.
    pub completed: u64,
    /// Retransmissions since the last completed message.
    repeated: u64,
    /// Completed messages at each of the last ticks.
    pub history: VecDeque<u64>,
    /// Messages offered.
    pub offered: u64,
    /// Trials that measure how fast the fastest member could receive.
    pub trials: Trials,
    /// True if the last offer was refused.
    pub blocked: bool,
    /// Time of the last loss of a helper.
    pub helper_lost: Option<Time>,
}

impl Pulse {
    /// Counts the protocol's activity.
    pub fn note(&mut self, notice: &Notice) {
        match notice {
            Notice::Sent { repair: false, .. } => self.sent += 1,
            Notice::Sent { repair: true, .. } => self.repeated = self.repeated.saturating_add(1),
            Notice::Completed { .. } => (self.completed, self.repeated) = (self.completed + 1, 0),
            Notice::RepairNeeded { .. }
            | Notice::MemberLost { .. }
            | Notice::TooFewMembers
            | Notice::LossFinal { .. } => {}
        }
    }

    /// Records that the network asks for a datagram: it was busy with the last one until now.
    pub fn asked(&mut self, now: Time) {
        let busy = self.handed.take().map_or(Duration::ZERO, |handed| now.since(handed));
        // Repeating the same messages without end is not the fault of the rate.
        if self.repeated <= self.sent.saturating_sub(self.completed) {
            self.own += busy;
        }
    }

    /// Records that the protocol provided a datagram.
    pub fn handed(&mut self, now: Time) {
        self.handed = Some(now);
    }
}
