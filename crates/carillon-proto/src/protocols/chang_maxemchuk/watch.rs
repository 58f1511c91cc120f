//! Who waits for the token to move, and hears nothing of it.
//!
//! The source has two clocks that find a failed site: that of a source, and that of the site that
//! passes the token on. Neither runs when the token site fails that has just acknowledged the last
//! message, or if the one it passed the token to fails with it: that message would never be committed.
//! So every site that waits for a transfer asks the token site after a while what follows.

use std::time::Duration;

use carillon_wire::chang_maxemchuk::Body;

use super::config::Settings;
use super::context::{Context, Timer};
use super::order::Order;
use super::token::Token;
use crate::blocks::{FailureTimeout, MissedPolls};

/// The questions that nobody has answered.
#[derive(Debug)]
pub(super) struct Watch {
    patience: FailureTimeout,
    /// Longer than a token that moves, or rests until the group counts as idle, is silent.
    timeout: Duration,
    due: bool,
    silence: MissedPolls,
}

impl Watch {
    /// None yet.
    pub fn new(settings: Settings) -> Self {
        let timeout = settings.message_timeout.saturating_add(settings.idle_timeout.unwrap_or_default());
        Watch { patience: settings.patience, timeout, due: false, silence: MissedPolls::default() }
    }

    /// An acknowledgment or a confirmation was heard: the token is somewhere.
    pub fn on_token_activity(&mut self, context: &mut Context) {
        (self.due, self.silence) = Default::default();
        if context.timers.cancel(Timer::Watch) {
            context.timers.arm(Timer::Watch, context.now + self.timeout);
        }
    }

    /// Nothing was heard. Returns whether too often.
    pub fn on_timeout(&mut self) -> bool {
        self.due = true;
        self.silence.missed(self.patience, self.timeout)
    }

    /// What this site asks the token site while it waits, if it is time to.
    pub fn poll(
        &mut self,
        context: &mut Context,
        order: &Order,
        token: &Token,
    ) -> Option<(u16, Body<'static>)> {
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
        context.control("retrans", from);
        Some((site, Body::Retrans { from, below: from + 1 }))
    }
}
