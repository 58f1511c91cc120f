//! Steps of a sender that gathers: the condition of the start, and its limit.

use carillon_core::{Span, Time};

use super::SenderSession;
use super::gathering::GatheringState;
use crate::session::config::Gather;

impl SenderSession {
    /// Returns true if the start condition holds.
    pub(super) fn is_gathered(&self) -> bool {
        let receivers = self.roster.receivers();
        // A time limit starts the session only if a receiver has joined, except one way.
        let over = receivers > 0 && self.gathering.is_wait_over();
        let enough = match &self.config.gather {
            Gather::Count(count) => over || receivers >= *count,
            Gather::Names(names) => {
                over || (receivers >= names.len() && names.iter().all(|name| self.roster.has_name(name)))
            }
            Gather::Silent(_) => self.gathering.is_wait_over(),
            Gather::Wait(_) | Gather::Settle(_) => over,
            Gather::Again { awaited, .. } => {
                let all = || !awaited.is_empty() && awaited.iter().all(|name| self.roster.has_name(name));
                over || (receivers > 0 && all())
            }
        };
        // Expected helpers must have joined too, unless the limit has passed.
        enough
            && (self.gathering.is_limit_over() || self.roster.helpers() >= self.config.helpers.wanted.count())
    }

    /// Handles the end of the gathering time: starts with the receivers that have joined, unless that is not
    /// permitted or not possible.
    pub(super) fn on_gather_limit(&mut self, now: Time) {
        let limit = self.config.limits.limit.unwrap_or_default();
        let (joined, wanted_helpers) = (self.roster.receivers(), self.config.helpers.wanted.count());
        let has_helpers = self.config.protocol.helpers.allow(self.roster.helpers());
        if joined > 0 && has_helpers && !self.config.limits.all_or_nothing {
            // `advance` does the rest.
            self.gathering.state = GatheringState::LimitOver;
            return;
        }
        let wanted = match &self.config.gather {
            Gather::Names(_) if !self.missing().is_empty() => {
                format!("{} did not join", self.missing().join(", "))
            }
            _ if self.roster.helpers() < wanted_helpers && joined > 0 => {
                format!("{} of {wanted_helpers} helpers joined", self.roster.helpers())
            }
            Gather::Count(count) => format!("{joined} of {count} receivers joined"),
            Gather::Names(_) => "those that are expected did not join".to_owned(),
            Gather::Wait(_) | Gather::Silent(_) | Gather::Settle(_) | Gather::Again { .. } => {
                "no receiver joined".to_owned()
            }
        };
        self.abort(now, &format!("{wanted} within {}", Span::Time(limit)));
    }
}
