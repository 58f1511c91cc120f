//! Failure detection for members that wait for the token to move.
//!
//! A source and a member that passes the token on have timers that detect a failed member. Neither runs if the token
//! site fails right after it acknowledged the last message. Each member that waits for a pass therefore asks the token
//! site periodically.

use std::time::Duration;

use carillon_wire::rmp::Body;

use super::config::Settings;
use super::context::{Context, Timer};
use super::order::Order;
use super::token::Token;
use crate::blocks::reformation::To;
use crate::blocks::{FailureTimeout, MissedPolls};

/// Unanswered questions to the token site.
#[derive(Debug)]
pub(super) struct Watch {
    patience: FailureTimeout,
    /// Interval between questions, longer than the silence of a moving token or of one that waits for the group to
    /// become idle.
    timeout: Duration,
    due: bool,
    silence: MissedPolls,
}

impl Watch {
    /// Creates the watch without a pending question.
    pub fn new(settings: Settings) -> Self {
        let timeout = settings.data_timeout.saturating_add(settings.max_idle_interval);
        Watch { patience: settings.patience, timeout, due: false, silence: MissedPolls::default() }
    }

    /// Restarts the interval after an acknowledgment or a confirmation, which shows that a token site is alive.
    pub fn on_token_activity(&mut self, context: &mut Context) {
        (self.due, self.silence) = Default::default();
        if context.timers.cancel(Timer::Watch) {
            context.timers.arm(Timer::Watch, context.now + self.timeout);
        }
    }

    /// Makes a question due. Returns true after too many unanswered questions.
    pub fn on_timeout(&mut self) -> bool {
        self.due = true;
        self.silence.missed(self.patience, self.timeout)
    }

    /// Returns the question to the token site, if one is due and this site waits for the token.
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &Order,
        token: &Token,
    ) -> Option<(To, Body<'static>)> {
        let site = order.token_site();
        let here = !token.is_elsewhere() || usize::from(site) == context.rank;
        if here || order.is_settled() || order.is_full(context) {
            (self.due, self.silence) = Default::default();
            context.timers.cancel(Timer::Watch);
            return None;
        }
        let due = std::mem::take(&mut self.due);
        if due || context.timers.armed(Timer::Watch).is_none() {
            context.timers.arm(Timer::Watch, context.now + self.timeout);
        }
        if !due {
            return None;
        }
        let from = order.log.length();
        context.control("nack", from);
        Some((To::Rank(site.into()), Body::Nack { site, with_data: false, from, below: from + 1 }))
    }
}
