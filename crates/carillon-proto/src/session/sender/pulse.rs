//! What a sending session does itself: what of it takes time for which no member is to blame.

use std::collections::VecDeque;

use carillon_core::{Duration, Notice, Time};

use crate::session::trial::Trials;

/// What the sender keeps of its own doings for the sake of fairness.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// When the session was last called, and for how long it was not, in all.
    pub called: Option<Time>,
    pub asleep: Duration,
    /// When the members were last looked at, as the session counts time.
    pub ticked: Option<Time>,
    /// When the protocol last gave a datagram out that the network has not asked for more after.
    handed: Option<Time>,
    /// Since the last tick: time that the rate took, of sending what is outstanding once.
    pub own: Duration,
    /// Messages sent, and completed.
    pub sent: u64,
    pub sent_before: u64,
    pub completed: u64,
    /// Messages sent again since one was completed.
    repeated: u64,
    /// Messages completed by each of the last ticks.
    pub history: VecDeque<u64>,
    /// Messages offered.
    pub offered: u64,
    /// What the fastest member could have, as trials measure it.
    pub trials: Trials,
    /// The last offer was not taken.
    pub blocked: bool,
    /// When a helper was lost last.
    pub helper_lost: Option<Time>,
}

impl Pulse {
    /// Counts what the protocol does.
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

    /// The network asks for a datagram: it was busy with the last one until now.
    pub fn asked(&mut self, now: Time) {
        let busy = self.handed.take().map_or(Duration::ZERO, |handed| now.since(handed));
        // Repeating for ever is not the rate's doing.
        if self.repeated <= self.sent.saturating_sub(self.completed) {
            self.own += busy;
        }
    }

    /// The protocol gave one out.
    pub fn handed(&mut self, now: Time) {
        self.handed = Some(now);
    }
}
