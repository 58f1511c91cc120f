//! Failure detection for members that wait for a rotating token to move.
//!
//! A source and a site that passes the token on have timers that detect a failed site (Chang and Maxemchuk, in Segovia
//! 1996, section 2.9). Neither runs if the token site fails right after it acknowledged the last message, or together
//! with its successor. Each member that waits for a pass therefore asks the token site periodically.

use std::time::Duration;

use super::{FailureTimeout, MachineContext, MissedPolls};

/// Unanswered questions to the token site.
#[derive(Debug)]
pub struct TokenWatch<K> {
    patience: FailureTimeout,
    /// Interval between questions, longer than the silence of a moving token or of one that waits for the group to
    /// become idle.
    interval: Duration,
    timer: K,
    due: bool,
    silence: MissedPolls,
}

impl<K: Copy + Ord> TokenWatch<K> {
    /// Creates the watch without a pending question. It uses this timer of the machine.
    pub fn new(patience: FailureTimeout, interval: Duration, timer: K) -> Self {
        TokenWatch { patience, interval, timer, due: false, silence: MissedPolls::default() }
    }

    /// Restarts the interval after an acknowledgment or a confirmation, which shows that a token site is alive.
    pub fn on_token_activity(&mut self, context: &mut MachineContext<K>) {
        (self.due, self.silence) = Default::default();
        if context.timers.cancel(self.timer) {
            context.timers.arm(self.timer, context.now + self.interval);
        }
    }

    /// Makes a question due. Returns true after too many unanswered questions.
    pub fn on_timeout(&mut self) -> bool {
        self.due = true;
        self.silence.missed(self.patience, self.interval)
    }

    /// Returns true if a question to the token site is due. `waits` is true while this member waits for the token to
    /// move.
    pub fn poll(&mut self, context: &mut MachineContext<K>, waits: bool) -> bool {
        if !waits {
            (self.due, self.silence) = Default::default();
            context.timers.cancel(self.timer);
            return false;
        }
        let due = std::mem::take(&mut self.due);
        if due || context.timers.armed(self.timer).is_none() {
            context.timers.arm(self.timer, context.now + self.interval);
        }
        due
    }
}
