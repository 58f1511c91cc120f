//! Who waits for the token to move, and hears nothing of it.
//!
//! The source has two clocks that find a failed site: that of a source, and that of the site that
//! passes the token on. Neither runs when the token site fails that has just acknowledged the last
//! message, or if the one it passed the token to fails with it: that message would never be committed.
//! So every site that waits for a transfer asks the token site after a while what follows.

use std::time::Duration;

use carillon_core::{Event, MessageId, Time};
use carillon_wire::chang_maxemchuk::Body;

use super::peer::{Peer, Timer};
use super::token::Token;

/// The questions that nobody has answered.
#[derive(Debug, Default)]
pub(super) struct Watch {
    due: bool,
    tries: u32,
}

impl Peer {
    /// Whether the token has been passed on as far as it goes without new messages: these are
    /// committed, and with `tail = "confirm"` the token has been around since.
    pub(super) fn is_settled(&self) -> bool {
        let transfers = match self.settings.idle_timeout {
            Some(_) => self.whole_round(),
            None => self.resilience(),
        };
        self.log.accepted_since_last_message().is_none_or(|passes| passes >= transfers)
    }

    /// An acknowledgment or a confirmation was heard: the token is somewhere.
    pub(super) fn on_token_heard(&mut self, now: Time) {
        self.watch = Watch::default();
        if self.timers.cancel(Timer::Watch) {
            self.timers.arm(Timer::Watch, now + self.watch_timeout());
        }
    }

    /// Nothing was heard. Returns whether too often.
    pub(super) fn on_watch_timeout(&mut self) -> bool {
        self.watch.due = true;
        self.watch.tries += 1;
        self.watch.tries > self.tries(self.watch_timeout())
    }

    /// What this site asks the token site while it waits, if it is time to.
    pub(super) fn poll_watch(&mut self, now: Time) -> Option<(u16, Body<'static>)> {
        let site = self.token_site();
        if self.token != Token::Elsewhere || site == self.rank || self.is_settled() || self.is_full() {
            self.watch = Watch::default();
            self.timers.cancel(Timer::Watch);
            return None;
        }
        let due = std::mem::take(&mut self.watch.due);
        if due || self.timers.armed(Timer::Watch).is_none() {
            self.timers.arm(Timer::Watch, now + self.watch_timeout());
        }
        if !due {
            return None;
        }
        let from = self.log.length();
        self.events.push(Event::ControlSent { packet: "retrans", message: MessageId(from) });
        Some((site, Body::Retrans { from, below: from + 1 }))
    }

    /// Longer than a token that moves, or rests until the group counts as idle, is silent.
    fn watch_timeout(&self) -> Duration {
        self.settings.message_timeout.saturating_add(self.settings.idle_timeout.unwrap_or_default())
    }
}
